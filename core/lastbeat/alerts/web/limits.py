"""How long a call over HTTP may take."""

from lastbeat.model.data import dataclass


@dataclass(frozen=True, slots=True)
class HttpTimeouts:
    """Seconds: to connect, between two pieces of the answer, and for the whole call (but name resolution)."""

    connect_s: float = 3.0
    read_s: float = 5.0
    total_s: float = 15.0
