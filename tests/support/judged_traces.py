"""What somebody who watches a trace for hangs would have told: false alarms, and how soon true hangs. No clock."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from support.step_traces import Begin, End, Event, Hang, Span

SPAN_WORDS = {
    "between": "between two steps", "outside": "out of sections", "starting": "before the first step",
}  # fmt: skip


class TraceWatcher(Protocol):
    """Knows how long each span may last. It is told of spans that have ended, and of nothing else."""

    least_s: float
    """No limit of its is shorter."""

    def begin(self, attempt: int) -> None:
        """An attempt begins."""

    def limit_s(self, span: Span, rank: int) -> float | None:
        """After how long a span like this, which begins now on ``rank``, would be told of. None: never."""

    def saw(self, span: Span) -> None:
        """It has ended."""

    def end(self, *, clean: bool) -> None:
        """The attempt has ended, in time or killed."""


class Delay(NamedTuple):
    """From the beginning of a span that never ends to the alarm."""

    name: str
    """Of the span."""
    delay_s: float
    usual_s: float
    """How long it takes in the middle."""
    longest_s: float
    """How long it took at most so far, on any rank."""


@dataclass
class Judged:
    """What came of one trace."""

    spans: int = 0
    false_alarms: list[str] = field(default_factory=list)
    """A line each. A span counts once, however many ranks were told of."""
    delays: list["Delay"] = field(default_factory=list)
    """Of the hangs that would be found."""
    missed: list[str] = field(default_factory=list)
    """Of each other one: in what."""

    @property
    def hangs(self) -> int:
        """How many there were."""
        return len(self.delays) + len(self.missed)

    def __add__(self, other: "Judged") -> "Judged":
        """Of both traces."""
        return Judged(
            self.spans + other.spans,
            self.false_alarms + other.false_alarms,
            self.delays + other.delays,
            self.missed + other.missed,
        )


def name_of(span: Span) -> str:
    """In words."""
    return span.name or SPAN_WORDS[span.kind]


def judge(trace: Iterable[Event], watcher: TraceWatcher) -> Judged:
    """Watch ``trace``. A hang is supposed where it may begin, and then the trace goes on as recorded."""
    found, hang, attempt, at = Judged(), None, 0, 0
    longest_s = dict[tuple[str, str], float]()
    for event in trace:
        if isinstance(event, Span):
            at += 1
            if hang is not None:
                limit_s = watcher.limit_s(event, hang.rank)
                if limit_s is None:
                    found.missed.append(name_of(event))
                else:
                    so_far_s = longest_s.get((event.kind, event.name), 0.0)
                    found.delays.append(Delay(name_of(event), limit_s, hang.usual_s, so_far_s))
                hang = None
            most_s, key = max(event.seconds), (event.kind, event.name)
            if most_s > longest_s.get(key, 0.0):
                longest_s[key] = most_s
            if most_s > watcher.least_s:
                late = _late(event, watcher)
                if late is not None:
                    found.false_alarms.append(f"attempt {attempt}, span {at}: {late}")
            watcher.saw(event)
        elif isinstance(event, Hang):
            hang = event
        elif isinstance(event, Begin):
            attempt, at = event.attempt, 0
            watcher.begin(attempt)
        elif isinstance(event, End):
            found.spans += at
            watcher.end(clean=event.clean)
    return found


def _late(span: Span, watcher: TraceWatcher) -> str | None:
    for rank, seconds in enumerate(span.seconds):
        limit_s = watcher.limit_s(span, rank)
        if limit_s is not None and seconds > limit_s:
            return f"rank {rank}: {name_of(span)} for {seconds:.0f}s (limit {limit_s:.0f}s)"
    return None
