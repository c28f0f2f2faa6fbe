"""Reads off NCCL's lines over which network its traffic goes: AWS's EFA, sockets, InfiniBand. Pure.

For whoever has such text: the reader of a run's logs goes line by line (:class:`NetworkLines`), and a report of a
cluster's health gives what it has (:func:`efa_use`). The wordings are those of NCCL 2.4 to 2.29 and of aws-ofi-nccl,
its plugin for libfabric, 1.0 to 1.21, which NCCL prints with ``NCCL_DEBUG=INFO``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from lastbeat.model.efa_use import EFA, IB, SOCKET, UNKNOWN, EfaUse
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_BEFORE: Final = 200
_BEHIND: Final = 600
"""So many characters around a word are looked at as its line: some programs print hundreds of kilobytes on one."""

# Every line that is read has one of these. Plain words: text of any size is searched for them in one walk.
_WORTH: Final = Pattern(
    r"NET/(?:OFI|Socket|IB|AWS Libfabric|Libfabric)|Using network|NET plugin|FI_PROVIDER|FI_EFA_|EFA enabled\?|"
    r"/dev/infiniband/uverbs|vpc\.amazonaws\.com/efa|mlx[45]_\d|hsn\d"
)

_PROVIDER: Final = Pattern(r"\bNET/OFI\b.{0,40}?Selected [Pp]rovider is (?P<name>[\w.-]{1,40})")
# Names that nobody takes for something else; any name where NCCL itself says it.
_NAME: Final = r"(?P<name>(?:AWS )?Libfabric\w{0,20}|Socket\b|IB(?:ext\w{0,20}|_SHARP)?\b|UCX\w{0,20}"
_NETWORK: Final = Pattern(
    r"(?:Using network|(?:Initialized|Assigned) NET plugin)[ :]{1,3}"
    + _NAME
    + r"|(?<=NCCL INFO Using network )\w{1,40})"
)
_CHANNEL: Final = Pattern(r"\bvia NET/" + _NAME + r")")
_INTERFACES: Final = Pattern(
    r"\bNET/(?P<name>Socket|IB)(?: ?: ?(?:Using\b|\d{1,4} interfaces? found|GPU Direct RDMA)|\s{0,4}$)"
)
_PROTOCOL: Final = Pattern(r"\bNET/OFI\b.{0,40}?Using transport protocol (?:SENDRECV|RDMA)\b")
_GIVES_UP: Final = Pattern(
    r"\bNET/OFI\b.{0,80}?(?:No eligible providers|Unable to find a protocol that worked|[Ii]nitialization failed|"
    r"Initializing plugin failed|Failed to initialize (?:sendrecv|rdma|SENDRECV|RDMA) protocol|"
    r"Only EFA provider is supported)|OFI plugin initNet\(\) failed is EFA enabled"
)
_ASKED: Final = Pattern(r"\bFI_EFA_[A-Z0-9_]{3,60}(?: set by environment to|[\"']?\s{0,3}[=:])|vpc\.amazonaws\.com/efa")
_ASKED_PROVIDER: Final = Pattern(
    r"\bFI_PROVIDER(?: set by environment to |[\"']?\s{0,3}[=:]\s{0,3})[\"']?(?P<name>[\w.-]{1,40})"
)
_DEVICE: Final = Pattern(r"/dev/infiniband/uverbs\d")
# Adapters and fabrics of others: their machines have verbs devices and may have the plugin, and no EFA.
_OTHERS: Final = Pattern(r"\bmlx[45]_\d|\bhsn\d|\bNET/OFI Plugin selected platform: Default")

_OF_SOCKETS: Final = ("tcp", "sockets", "udp", "net")
_OF_IB: Final = ("verbs", "ucx")


@dataclass(eq=False, repr=False)
class NetworkLines:
    """What the lines read so far say of NCCL's network. Where they differ, the last one counts: all ranks of a job use
    one kind of network, and a log may hold several attempts."""

    FORM: ClassVar = Form.SPARSE

    active: bool | None = None
    transport: str = UNKNOWN
    provider: str = ""
    """The libfabric provider that was selected last."""
    asked: bool = False
    """EFA was asked for, or has been in use."""
    there: bool = False
    """Something says that EFA may be there."""
    others: bool = False
    """Something says that the machine has another fabric."""

    @property
    def use(self) -> EfaUse:
        return EfaUse(self.active, self.transport, self.asked or (self.there and not self.others))

    def read(self, text: str) -> bool:
        """Whether a line of ``text`` tells which network is used."""
        told = False
        for line in _lines(text):
            told = self._line(line) or told
        return told

    def _line(self, line: str) -> bool:
        """Whether ``line`` tells which network is used.

        1. What it says of what is there, and asked for.
        2. The plugin names its provider, NCCL the network by whose name it goes; that of the plugin is its provider.
        3. The plugin gives up: it is not in use, and what is will be told next. That says nothing of what is there:
           images that ship the plugin run on machines without EFA, too.
        """
        if (asked := _ASKED_PROVIDER.search(line)) is not None:
            self.asked, self.others = self.asked or _is_efa(asked["name"]), self.others or not _is_efa(asked["name"])
        self.asked = self.asked or _ASKED.search(line) is not None
        self.there = self.there or _DEVICE.search(line) is not None
        self.others = self.others or _OTHERS.search(line) is not None
        if (found := _PROVIDER.search(line)) is not None:
            self.provider = found["name"].lower()
            self.others = self.others or not _is_efa(self.provider)
            return self._uses(_transport_of(self.provider))
        if _GIVES_UP.search(line) is not None:
            self.active, self.transport, self.provider = False, UNKNOWN, ""
            return True
        found = _NETWORK.search(line) or _INTERFACES.search(line) or _CHANNEL.search(line)
        if found is not None:
            return self._uses(self._transport(found["name"]))
        if _PROTOCOL.search(line) is not None:
            # It is chosen before a device is looked for.
            return self._uses(_transport_of(self.provider or EFA), seen=bool(self.provider))
        return False

    def _uses(self, transport: str, *, seen: bool = True) -> bool:
        self.transport, self.active = transport, transport == EFA
        self.asked = self.asked or (self.active and seen)
        return True

    def _transport(self, name: str) -> str:
        """Of a network by the name that NCCL has for it. The plugin's is EFA's where no line says otherwise."""
        lower = name.lower()
        if "libfabric" in lower or lower == "ofi":
            return _transport_of(self.provider or EFA)
        if lower == SOCKET:
            return SOCKET
        return IB if lower.startswith((IB, "ucx")) else UNKNOWN


def efa_use(text: str) -> EfaUse:
    """Whether NCCL uses EFA, by its lines in ``text``, of any size and with whatever else in between.

    ``active`` is None where no line tells; that says nothing, not even if the machine has an EFA device.
    """
    lines = NetworkLines()
    lines.read(text)
    return lines.use


def _lines(text: str) -> Iterator[str]:
    """The lines that are worth reading, or the part of them around a word that matters."""
    behind = 0
    while (found := _WORTH.search(text, behind)) is not None:
        least, most = max(behind, found.start() - _BEFORE), min(len(text), found.end() + _BEHIND)
        ends = (text.find("\n", found.end(), most), text.find("\r", found.end(), most))
        begins = (text.rfind("\n", least, found.start()), text.rfind("\r", least, found.start()))
        behind = min((place for place in ends if place >= 0), default=most)
        yield text[max(*begins, least - 1) + 1 : behind]


def _is_efa(provider: str) -> bool:
    return provider.lower().partition(";")[0].startswith(EFA)


def _transport_of(provider: str) -> str:
    if _is_efa(provider):
        return EFA
    if provider.startswith(_OF_SOCKETS):
        return SOCKET
    return IB if provider.startswith(_OF_IB) else UNKNOWN
