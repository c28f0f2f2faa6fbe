"""Whether NCCL's traffic goes over AWS's Elastic Fabric Adapter (EFA), as logs tell it."""

from typing import ClassVar, Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form

EFA: Final = "efa"
SOCKET: Final = "socket"
"""TCP, of NCCL's own or through libfabric."""
IB: Final = "ib"
"""InfiniBand or RoCE."""
UNKNOWN: Final = "unknown"
"""Nothing tells, or a network of another kind."""


@dataclass(frozen=True, slots=True)
class EfaUse:
    """Finds the network that NCCL uses, from its own log lines."""

    FORM: ClassVar = Form.SPARSE

    active: bool | None = None
    """Whether EFA is in use. None: no line tells, as where NCCL_DEBUG is not INFO. That an EFA device is there tells
    nothing of its use."""
    transport: str = UNKNOWN
    """``efa``, ``socket``, ``ib`` or ``unknown``."""
    expected: bool = False
    """Some line says that EFA is there, or asked for."""

    @property
    def fallback(self) -> bool:
        """Whether NCCL uses sockets though EFA is there, or asked for. Where nothing speaks of EFA, sockets are what
        the machine has."""
        return self.transport == SOCKET and self.active is False and self.expected


UNTOLD: Final = EfaUse()
