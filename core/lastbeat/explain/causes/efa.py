"""Reads from NCCL's lines which network its traffic uses: AWS's EFA, sockets, or InfiniBand. Pure.

The reader of a run's logs goes line by line (:class:`NetworkLines`), and a report of a cluster's health passes its
whole text (:func:`efa_use`). The wordings are those of NCCL 2.4 to 2.29 and of aws-ofi-nccl, its plugin for libfabric,
1.0 to 1.21, which NCCL prints with ``NCCL_DEBUG=INFO``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from lastbeat.model.efa_use import EFA, IB, SOCKET, UNKNOWN, EfaUse
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_BEFORE: Final = 200
_BEHIND: Final = 600
"""Most characters before and behind a word that are read as its line. Some programs print hundreds of kilobytes on one
line."""

# Every line that is read has one of these plain words, for which text of any size is searched in one walk.
_WORTH: Final = Pattern(
    r"NET/(?:OFI|Socket|IB|AWS Libfabric|Libfabric)|Using network|NET plugin|FI_PROVIDER|FI_EFA_|EFA enabled\?|"
    r"/dev/infiniband/uverbs|vpc\.amazonaws\.com/efa|mlx[45]_\d|hsn\d"
)

_PROVIDER: Final = Pattern(r"\bNET/OFI\b.{0,40}?Selected [Pp]rovider is (?P<name>[\w.-]{1,40})")
# Unambiguous names of networks. In NCCL's own lines any name counts.
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
# Adapters and fabrics of other vendors. Their machines have verbs devices and may have the plugin, but no EFA.
_OTHERS: Final = Pattern(r"\bmlx[45]_\d|\bhsn\d|\bNET/OFI Plugin selected platform: Default")

_OF_SOCKETS: Final = ("tcp", "sockets", "udp", "net")
_OF_IB: Final = ("verbs", "ucx")


@dataclass(eq=False, repr=False)
class NetworkLines:
    """NCCL's network by the lines read so far. If lines differ, the last one counts: all ranks of a job use one kind of
    network, and a log may hold several attempts."""

    FORM: ClassVar = Form.SPARSE

    active: bool | None = None
    transport: str = UNKNOWN
    provider: str = ""
    """The libfabric provider that was selected last."""
    asked: bool = False
    """Whether EFA was requested, or has been in use."""
    there: bool = False
    """Whether a line shows that EFA may be available."""
    others: bool = False
    """Whether a line shows that the machine has another fabric."""

    @property
    def use(self) -> EfaUse:
        return EfaUse(self.active, self.transport, self.asked or (self.there and not self.others))

    def read(self, text: str) -> bool:
        """Read ``text``. Returns whether a line of it shows which network is used."""
        shows = False
        for line in _lines(text):
            shows = self._line(line) or shows
        return shows

    def _line(self, line: str) -> bool:
        """Read ``line``. Returns whether it shows which network is used.

        1. Note whether EFA is available, and requested.
        2. The plugin names its provider, and NCCL names its network. If that is the plugin, its provider counts.
        3. A plugin that gives up is not in use, and a later line names the network that is. That does not show whether
           EFA is available, because images that ship the plugin run on machines without EFA too.
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
            # The plugin chooses it before it searches for a device.
            return self._uses(_transport_of(self.provider or EFA), seen=bool(self.provider))
        return False

    def _uses(self, transport: str, *, seen: bool = True) -> bool:
        self.transport, self.active = transport, transport == EFA
        self.asked = self.asked or (self.active and seen)
        return True

    def _transport(self, name: str) -> str:
        """The transport behind NCCL's name of a network. The plugin's is EFA unless a line names another provider."""
        lower = name.lower()
        if "libfabric" in lower or lower == "ofi":
            return _transport_of(self.provider or EFA)
        if lower == SOCKET:
            return SOCKET
        return IB if lower.startswith((IB, "ucx")) else UNKNOWN


def efa_use(text: str) -> EfaUse:
    """Whether NCCL uses EFA, by its lines in ``text``, which may be of any size and hold other lines too.

    ``active`` is None if no line shows the network. Nothing follows from that, even if the machine has an EFA device.
    """
    lines = NetworkLines()
    lines.read(text)
    return lines.use


def _lines(text: str) -> Iterator[str]:
    """The lines with a word of ``_WORTH``, or the part of a long line around it."""
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
