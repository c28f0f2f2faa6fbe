"""Injects errors on purpose, to test their handling."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lastbeat.model.rerun import RerunVerdict
from lastbeat.rerun.attribution import RerunPhase

TYPES: Final = (
    RerunVerdict.TRANSIENT_ERROR.value,
    RerunVerdict.PERSISTENT_ERROR.value,
    RerunVerdict.CORRECT_RESULT.value,
)


@dataclass(frozen=True, slots=True)
class Injection:
    """A result that counts as bad."""

    kind: str
    """The verdict that re-runs should find, from :data:`TYPES`."""
    name: str
    number: int
    device: str
    """The device on which it was injected."""

    def strikes(self, name: str, number: int, device: str, phase: RerunPhase) -> bool:
        """Whether this result also counts as bad."""
        if (name, number) != (self.name, self.number):
            return False
        if self.kind == RerunVerdict.TRANSIENT_ERROR.value:
            return phase is RerunPhase.INITIAL
        return self.kind == RerunVerdict.CORRECT_RESULT.value or device == self.device


class ErrorInjector:
    """Makes one result in ``rate`` bad, by random numbers of its own; 0 for none."""

    def __init__(self, rate: int, kind: str, seed: int) -> None:
        """Raises ValueError for an invalid rate or kind."""
        if rate < 0:
            raise ValueError(f"error_injection_rate={rate} is negative; 1000 makes one result in a thousand bad")
        if kind not in TYPES:
            raise ValueError(f"error_injection_type={kind!r} is none of {', '.join(TYPES)}")
        self._rate, self._kind = rate, kind
        self._random = random.Random(seed)  # noqa: S311 - nothing secret hangs on it
        self.active: Injection | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything may be made bad."""
        return self._rate > 0 or self.active is not None

    def begin(self) -> None:
        """Begin a new step, without the previous injection."""
        self.active = None

    def strikes(self, name: str, number: int, device: str, phase: RerunPhase) -> bool:
        """Whether this result counts as bad."""
        if self.active is not None:
            return self.active.strikes(name, number, device, phase)
        if phase is not RerunPhase.INITIAL or self._rate < 1 or self._random.randrange(self._rate):
            return False
        self.active = Injection(self._kind, name, number, device)
        return True


def read_injection(value: object) -> Injection | None:
    """The injection with the fields in ``value``; None for any other value."""
    if not isinstance(value, Mapping):
        return None
    kind, name, number, device = (value.get(each) for each in ("kind", "name", "number", "device"))
    if kind not in TYPES or not isinstance(name, str) or type(number) is not int or not isinstance(device, str):
        return None
    return Injection(str(kind), name, number, device)
