"""Everything that goes wrong around a sweep: a store that refuses, channels that are down, a process that is killed.

A process that is killed is one whose threads go on without effect from that moment, and that is thrown away. What is
refused follows from a seed, the call and how often it was made, whatever the order in which threads get there.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from lastbeat.alerts.port import DeliveryError, Receipt
from lastbeat.model.alert import Message
from lastbeat.stores.port import StoreError, UnreachableError
from support.channel import ListChannel
from support.memory import MemoryStore

REFUSED = 0.30
"""Share of requests that S3 answers with 503."""
LOST = 0.01
"""Share of requests that are carried out and whose answer is lost."""
CALL_S = 0.02
"""What a call takes of the simulated time."""


@dataclass
class Trouble:
    """Stands around the stores and channels of one process after another.

    ``meanwhile`` is called with the seconds that a call takes: the world goes on while a pass is under way.
    """

    seed: int
    meanwhile: Callable[[float], None]
    refused: float = REFUSED
    lost: float = LOST
    dead: bool = False
    calls: int = 0
    """Of this pass."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened: ``requests``, ``refused``, ``lost``, ``sent``, ``not sent``."""
    _nth: Counter[tuple[str, str]] = field(default_factory=Counter)
    _die_at_call: int | None = None
    _die_at_send: int | None = None
    _after: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def around(self, store: MemoryStore, *, fails: bool) -> None:
        """Every call of ``store`` goes through here; ``fails``: it refuses some."""
        store.before = lambda operation, key: self._before(operation, key, fails=fails)
        store.after = lambda operation, key: self._behind(operation, key, fails=fails)

    def next_pass(self, *, die_at_call: int | None = None, die_at_send: int | None = None, after: bool = False) -> None:
        """The process lives, or a new one begins, and may be killed: right before or right after a call or sending."""
        self.dead, self.calls = False, 0
        self._die_at_call, self._die_at_send, self._after = die_at_call, die_at_send, after

    def heal(self) -> None:
        """The store is well from now on; channels are their own affair."""
        self.refused = self.lost = 0.0

    def _before(self, operation: str, key: str, *, fails: bool) -> None:
        self._alive()
        with self._lock:
            self.calls += 1
            self.counts["requests"] += 1
            if self._die_at_call is not None and self.calls > self._die_at_call and not self._after:
                self.dead = True
            self.meanwhile(CALL_S)
            nth = self._nth[operation, key] = self._nth[operation, key] + 1
        self._alive()
        if fails and self._draw("refused", operation, key, nth) < self.refused:
            self.counts["refused"] += 1
            raise UnreachableError(f"{key}: 503 Slow Down")

    def _behind(self, operation: str, key: str, *, fails: bool) -> None:
        with self._lock:
            if self._die_at_call is not None and self.calls > self._die_at_call:
                self.dead = True
            nth = self._nth[operation, key]
        self._alive()
        if fails and self._draw("lost", operation, key, nth) < self.lost:
            self.counts["lost"] += 1
            raise UnreachableError(f"{key}: connection reset")

    def _draw(self, what: str, operation: str, key: str, nth: int) -> float:
        drawn = hashlib.blake2b(f"{self.seed} {what} {operation} {key} {nth}".encode(), digest_size=4).digest()
        return int.from_bytes(drawn, "big") / 2**32

    def _alive(self) -> None:
        if self.dead:
            # What runs on is a ghost: nothing that it does has any effect, and nobody asks it what it found.
            raise StoreError("this process was killed")

    def begins_to_send(self) -> bool:
        """Whether the process still is there to send; it may die of it."""
        with self._lock:
            if self._die_at_send is not None and not self.dead:
                self._die_at_send -= 1
                if self._die_at_send < 0 and not self._after:
                    self.dead = True
            return not self.dead

    def has_sent(self) -> None:
        with self._lock:
            if self._die_at_send is not None and self._die_at_send < 0:
                self.dead = True


class TroubledChannel(ListChannel):
    """A channel of a process that may die, and that is ``down`` in a way of its own from time to time."""

    def __init__(self, identity: str, trouble: Trouble) -> None:
        super().__init__(identity)
        self._trouble = trouble
        self.down: DeliveryError | None = None
        self.sendings: Counter[str] = Counter()
        """:func:`name` of an alert → how often it arrived."""
        self.fault = self._fault

    def _fault(self, message: Message) -> DeliveryError | None:
        if not self._trouble.begins_to_send():
            # The dead send nothing, and there is nobody left to be told so.
            return DeliveryError("killed", retryable=True)
        if self.down is not None:
            self._trouble.counts["not sent"] += 1
        return self.down

    def send(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        super().send(message)
        self._trouble.counts["sent"] += 1
        self.sendings[name(message.key, message.event.value)] += 1
        self._trouble.has_sent()
        return None


def name(key: str, event: str) -> str:
    """Of one alert. The key alone would not do: what is told of the watchdog itself has keys of its own."""
    return f"{key} {event}"


def throttled() -> DeliveryError:
    """Slack's 429."""
    return DeliveryError("429 Too Many Requests", retryable=True, retry_after_s=30)


def out_of_order() -> DeliveryError:
    """SNS when its region is down."""
    return DeliveryError("503 ServiceUnavailable", retryable=True)
