"""Learned limits on a trace: what each rank sees goes through the very code that training runs."""

from dataclasses import dataclass, field

from lastbeat.model.learned_limits import FLOOR_S, Learned, LearnedState, together
from lastbeat.training.sdk.learning import EVERY_S, SpanTimes, with_learned
from lastbeat.training.sdk.sections import OpenSpan, Section, SectionLimits, Sections
from support.step_traces import STEP, Span


@dataclass
class LearnedOnTraces:
    """All ranks of a run. Rank 0 learns every five minutes of the trace's time, and the others hear of it five minutes
    later, as they do who ask just before."""

    by_hand: SectionLimits = field(default_factory=SectionLimits)
    least_s = FLOOR_S
    state: LearnedState = field(default_factory=LearnedState)
    _ranks: list[Sections] = field(default_factory=list)
    _times: list[SpanTimes] = field(default_factory=list)
    _now: float = 0.0
    _next: float = 0.0
    _start: str = ""
    _awaited_s: float = 0.0

    def begin(self, attempt: int) -> None:
        """All processes are new; what is kept is read at once."""
        self._start = f"attempt {attempt}"
        self._ranks, self._times = [], []
        self._next = self._now + EVERY_S

    def limit_s(self, span: Span, rank: int) -> float | None:
        """What that rank would tell of itself; and what rank 0 has spent on its own, in time, does not count for it."""
        limit_s = self._told(span, rank).limit_s
        waits = rank > 0 and span.name in {"", STEP}
        return limit_s + self._awaited_s if limit_s is not None and waits else limit_s

    def _told(self, span: Span, rank: int) -> OpenSpan:
        sections = self._rank(span, rank)
        if span.kind == "section":
            one = Section(sections, span.name)
            sections.open[one] = self._now
            told = sections.spans(self._now)
            del sections.open[one]
        else:
            sections.marked = self._now
            told = sections.spans(self._now)
        return told[0] if told else OpenSpan(None, 0.0)

    def saw(self, span: Span) -> None:
        """Ranks count it, and learn if it is time."""
        self._rank(span, 0)
        key = (span.kind, span.name)
        alone = len(span.seconds) < len(self._ranks)
        if alone:
            told = self._told(span, 0)
            limit_s = told.awaited_s if told.limit_s is None else told.limit_s
            self._awaited_s = span.seconds[0] if limit_s is not None and span.seconds[0] <= limit_s else 0.0
        elif span.name == STEP:
            self._awaited_s = 0.0
        for times, seconds in zip(self._times, span.seconds, strict=False):
            times.add(key, seconds)
        if not self._ranks[0].stepped and span.kind == "starting":
            for sections in self._ranks:
                sections.stepped = True
        self._now += max(span.seconds)
        while self._now >= self._next:
            self._next += EVERY_S
            self._learn()

    def end(self, *, clean: bool) -> None:
        """Who is killed learns no more."""
        if clean:
            self._learn()

    def _rank(self, span: Span, rank: int) -> Sections:
        while len(self._ranks) < len(span.seconds):
            one = Sections()
            one.times = SpanTimes()
            one.limits = with_learned(self.by_hand, self.state.learned)
            self._ranks.append(one)
            self._times.append(one.times)
        if span.name and span.name not in self._ranks[0].names:
            for each in self._ranks:
                each.names.add(span.name)
        return self._ranks[rank]

    def _learn(self) -> None:
        known: Learned = self.state.learned
        for rank in self._ranks[1:]:
            rank.limits = with_learned(self.by_hand, known)
        taken = together([each.taken() for each in self._times])
        self.state = self.state.with_attempt(self._start, taken)
        self._ranks[0].limits = with_learned(self.by_hand, self.state.learned)
