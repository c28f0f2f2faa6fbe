"""Sections: named parts of training's work, with a time limit each.

A section is open while training is inside its block. Entering and leaving one sets an entry of a dictionary and removes
it; the beat thread copies that dictionary. All times are of this process's monotonic clock.
"""

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from lastbeat.training.sdk.learning import SpanTimes
    from lastbeat.training.sdk.step_times import StepTimes

STEP: Final = "step"
"""Name of the section for a step. Without such a section, the time since the last :meth:`Run.step` stands for it."""
MOST_OPEN: Final = 64
"""Most open sections that are tracked. Training that opens more does not leave them."""
MOST_NAMES: Final = 256
"""Most names of sections that are remembered."""
MOST_TOLD: Final = 8
"""Most open sections in a heartbeat, the oldest first."""
LONGEST_LIMIT_MINUTES: Final = 30 * 24 * 60
"""Largest plausible limit of a section or a stall, in minutes."""
_NAME_CHARS: Final = 60
_MOST_LEFT: Final = 8
_LONG_S: Final = 1.0
"""A section longer than this many s counts as one that other ranks wait for."""
_LATELY_S: Final = 900.0
"""Rank 0's heartbeat lists such a section for this many s after its end."""
_COMPUTE: Final = "compute"
CHECKPOINTING: Final = "checkpointing"
EVALUATION: Final = "evaluation"
_ASIDES: Final = {
    **dict.fromkeys(("save", "saving", "checkpoint", CHECKPOINTING), CHECKPOINTING),
    **dict.fromkeys(("eval", "evaluate", "evaluating", EVALUATION), EVALUATION),
    **dict.fromkeys(("val", "validate", "validating", "validation", "test", "testing"), EVALUATION),
}
"""Names of phases and sections outside of steps → the section whose limit applies to the phase."""
_ASIDE_VERBS: Final = ("saving ", "save ", "evaluating ", "validating ")
"""A phase with one of these prefixes is outside of steps too: ``saving checkpoint-400``."""
_PATIENCE_S: Final = 1800.0
"""Least limit in s of the first steps while limits are learned, because they compile. Other ranks also wait this long
for a section without a limit yet."""
_STARTING: Final = ("starting", "")
_BETWEEN: Final = ("between", "")
_OUTSIDE: Final = ("outside", "")
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SectionLimits:
    """Time limits in s of training's sections, and of the time outside of all sections."""

    sections: Mapping[str, float] = field(default_factory=dict)
    outside_s: float | None = None
    """Limit of the time since the last step or section; None for no limit."""
    starting_s: float | None = None
    """Limit of the time outside of sections before the first step; None for no limit."""
    without: frozenset[str] = frozenset()
    """Sections that training has declared unlimited."""
    outside_by_hand: bool = False
    """Whether training or its settings set ``outside_s``, including to no limit."""
    usual_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """``model.learned_limits.SpanKey`` → longest usual duration in s, for learned limits."""

    @property
    def any(self) -> bool:
        """Whether any limit is set."""
        return bool(self.sections) or self.outside_s is not None


@dataclass(frozen=True, slots=True)
class OpenSpan:
    """The section that training is in now, open for ``open_s``."""

    name: str | None
    """Name of the section; None for the time outside of all sections."""
    open_s: float
    limit_s: float | None = None
    usual_s: float | None = None
    """Longest usual duration, if the limit was learned."""
    awaited_s: float | None = None
    """Time in s that other ranks may wait for it, while its limit is not learned yet."""

    @property
    def is_late(self) -> bool:
        """Whether it has overrun its limit."""
        return self.limit_s is not None and self.open_s > self.limit_s

    @property
    def left_s(self) -> float | None:
        """Seconds until it overruns its limit; None if it has, or has no limit."""
        return None if self.limit_s is None or self.is_late else self.limit_s - self.open_s


class Sections:
    """The sections of one run. :class:`Section` and ``Run.step`` may change it from any thread."""

    __slots__ = (
        "_limits",
        "_phase",
        "_phase_name",
        "_step",
        "_steps",
        "_times",
        "left",
        "marked",
        "names",
        "open",
        "stepped",
        "watched",
    )

    def __init__(self) -> None:
        self.open: dict[Section, float] = {}
        """Open section → the time when it was entered."""
        self.left: deque[tuple[str, float, float]] = deque(maxlen=_MOST_LEFT)
        """The latest sections that took long: name, and the times of entering and leaving."""
        self.marked = monotonic()
        """When training last left a section, or made a step while :attr:`watched`."""
        self.watched = False
        """Whether anything uses the time of each step: a limit, learning, stragglers, or training's own sections.
        Otherwise a step reads no clock."""
        self.stepped = False
        self.names: set[str] = set()
        """Some names of sections, STEP among them if that is one."""
        self._limits = SectionLimits()
        self._times: SpanTimes | None = None
        self._steps: StepTimes | None = None
        self._phase: Section | None = None
        """The section that the phase has opened."""
        self._phase_name: object = None
        self._step: object = None
        """The latest step while :attr:`watched`."""

    @property
    def limits(self) -> SectionLimits:
        """The time limits in force."""
        return self._limits

    @limits.setter
    def limits(self, limits: SectionLimits) -> None:
        self._limits = limits
        if limits.any or limits.starting_s is not None:
            self.watch()
        self._resume_phase()

    @property
    def times(self) -> "SpanTimes | None":
        """Durations of ended sections; None if limits are not learned."""
        return self._times

    @times.setter
    def times(self, times: "SpanTimes | None") -> None:
        self._times = times
        self.watch()
        self._resume_phase()

    @property
    def steps(self) -> "StepTimes | None":
        """Durations of steps; None if stragglers are not detected."""
        return self._steps

    @steps.setter
    def steps(self, steps: "StepTimes | None") -> None:
        self._steps = steps
        self.watch()

    def watch(self) -> None:
        """Note the time of each step from now on."""
        if not self.watched:
            if self.stepped:
                self.marked = monotonic()
            self.watched = True

    def step(self, step: object) -> None:
        """Note a step of training. It ends the section of a phase, unless ``step`` repeats the last one: frameworks
        report a step once more while they save or evaluate."""
        now = monotonic()
        again = type(step) is int and type(self._step) is int and step == self._step
        if self._phase_name is not None and not again:
            # The phase is over, so no limit that is set later opens its section again.
            self._phase_name = None
            self._leave_phase()
        self._step = step
        self.mark(now)
        if self._steps is not None:
            self._steps.step(now)

    def mark(self, now: float) -> None:
        """Note that training has made a step, or logged something."""
        if self._times is not None and not self.open:
            self._times.add(self._idle_key(), now - self.marked)
        self.marked = now

    def set_phase(self, name: object) -> None:
        """Leave the section of the previous phase and open that of the phase ``name``. Most phases have none, and so
        has every phase of a run without limits and sections."""
        self._phase_name = name
        self._open_phase(name)

    def _resume_phase(self) -> None:
        """Open the section of the current phase after a change of limits. Training may be saving already by then."""
        name = self._phase_name
        self._open_phase(name)
        if self._phase_name is not name:
            # Training went on meanwhile.
            self._open_phase(self._phase_name)

    def _open_phase(self, name: object) -> None:
        aside, now_open = self._aside(name), self._phase
        if now_open is not None:
            if now_open.name == aside:
                return
            self._leave_phase()
        if aside is not None and self._is_used(aside):
            self._phase = phase = PhaseSection(self, aside)
            phase.__enter__()
            if self._phase is not phase:
                # A step of another thread has ended it before it was entered.
                phase.__exit__(None, None, None)

    def _aside(self, name: object) -> str | None:
        if type(name) is not str:
            return None
        aside = _ASIDES.get(name.lower())
        if aside is None and name.lower().startswith(_ASIDE_VERBS):
            aside = _ASIDES[name.lower().partition(" ")[0]]
        # A limit for exactly this name takes precedence.
        return name if aside is not None and name in self._limits.sections else aside

    def _is_used(self, aside: str) -> bool:
        """Whether a phase opens the section ``aside``. Before the first step only one with a limit of its own does; the
        limit for starting covers the others."""
        used = self._limits.any or self._times is not None or bool(self.names)
        return used and (self.stepped or aside in self._limits.sections)

    def _leave_phase(self) -> None:
        self._phase = None
        # Two threads that change the phase at once may have opened one each, so leave all of them.
        for one in self.open.copy():
            if isinstance(one, PhaseSection):
                one.__exit__(None, None, None)

    def _idle_key(self) -> tuple[str, str]:
        """The key that counts time without an open section."""
        if not self.stepped:
            return _STARTING
        return _OUTSIDE if STEP in self.names else _BETWEEN

    def spans(self, now: float | None = None) -> list[OpenSpan]:
        """The open sections, late ones first and then the oldest. Without one, the time since the last step or section.
        Empty if neither sections nor limits are in use."""
        held, limits, marked = self.open.copy(), self.limits, self.marked
        now = monotonic() if now is None else now
        if held:
            oldest = sorted(held.items(), key=lambda each: each[1])
            named = [self._open_span(one, max(0.0, now - max(at, one.resumed)), held) for one, at in oldest]
            late = [span for span in named if span.is_late]
            # A late one is reported whatever else is open.
            return [*late, *(span for span in named if not span.is_late)][:MOST_TOLD]
        idle_s = max(0.0, now - marked)
        if self.stepped and STEP in limits.sections and STEP not in self.names:
            return [self._named(STEP, idle_s, _BETWEEN)]
        limit_s = limits.outside_s if self.stepped else limits.starting_s
        key = _OUTSIDE if self.stepped else _STARTING
        usual_s = limits.usual_s.get(key)
        limit_s = self._in_force(key, limit_s)
        return [OpenSpan(None, idle_s, limit_s, usual_s)] if self.names or limit_s is not None else []

    def _open_span(self, one: "Section", open_s: float, held: Iterable["Section"]) -> OpenSpan:
        if one.name == STEP and any(other.suspends(one) for other in held):
            return OpenSpan(STEP, open_s)
        return self._named(one.name, open_s, ("section", one.name))

    def _named(self, name: str, open_s: float, key: tuple[str, str]) -> OpenSpan:
        limits = self.limits
        limit_s = self._in_force(key, limits.sections.get(name))
        learns = self.times is not None and limit_s is None and name not in limits.without
        return OpenSpan(name, open_s, limit_s, limits.usual_s.get(key), _PATIENCE_S if learns else None)

    def _in_force(self, key: tuple[str, str], limit_s: float | None) -> float | None:
        """``limit_s``, raised during warm-up if it was learned: the first steps of an attempt compile."""
        if limit_s is None or key not in self.limits.usual_s or self.times is None or not self.times.warms_up(key):
            return limit_s
        return max(limit_s, _PATIENCE_S)


class Section:
    """One section of a run, for a ``with`` block or as a decorator. It may be entered again while it is open, and stays
    open until it was left as often."""

    __slots__ = ("_depth", "_sections", "name", "resumed", "thread")

    def __init__(self, sections: Sections, name: str) -> None:
        self._sections = sections
        self.name = name
        self._depth = 0
        self.resumed = 0.0
        """End of the last section that suspended this one, whose time counts from then."""
        self.thread = 0
        """The thread that entered it last."""

    def suspends(self, step: "Section") -> bool:
        """Whether this section, while open, suspends the time of the open section ``step``."""
        return self.name in _ASIDES and self.thread == step.thread

    def is_of(self, sections: Sections) -> bool:
        """Whether this section belongs to ``sections``."""
        return self._sections is sections

    def __enter__(self) -> None:
        sections = self._sections
        held = sections.open
        if self in held:
            self._depth += 1
        elif len(held) < MOST_OPEN:
            now = monotonic()
            if sections.times is not None and not held:
                sections.mark(now)
            self.thread = get_ident()
            held[self] = now
            if sections.steps is not None and self.name == _COMPUTE:
                sections.steps.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._depth:
            self._depth -= 1
            return
        sections = self._sections
        entered = sections.open.pop(self, None)
        sections.marked = now = monotonic()
        if entered is None:
            return
        if self.name in _ASIDES:
            for one in sections.open.copy():
                if one.name == STEP and self.suspends(one):
                    one.resumed = now
        entered = max(entered, self.resumed)
        if sections.steps is not None and self.name == _COMPUTE:
            sections.steps.leave(now - entered)
        if now - entered > _LONG_S and self.name != STEP:
            sections.left.append((self.name, entered, now))
        if sections.times is not None:
            sections.times.add(("section", self.name), now - entered)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """``function``, wrapped so that each call is in a section of this name. The section lasts until an ``async``
        function returns, or a generator is at its end."""
        sections, name = self._sections, self.name
        called: Any = function
        if inspect.iscoroutinefunction(called):

            @functools.wraps(called)
            async def awaiting(*args: Any, **kwargs: Any) -> Any:
                with Section(sections, name):
                    return await called(*args, **kwargs)

            return cast("Callable[P, T]", awaiting)
        if inspect.isgeneratorfunction(called):

            @functools.wraps(called)
            def yielding(*args: Any, **kwargs: Any) -> Any:
                with Section(sections, name):
                    return (yield from called(*args, **kwargs))

            return cast("Callable[P, T]", yielding)

        @functools.wraps(function)
        def within(*args: P.args, **kwargs: P.kwargs) -> T:
            with Section(sections, name):
                return function(*args, **kwargs)

        return within


class PhaseSection(Section):
    """The section of a phase, such as ``saving``. It suspends the step of every thread."""

    __slots__ = ()

    def suspends(self, step: Section) -> bool:  # noqa: ARG002 - see the other
        """True: a phase suspends the step of every thread."""
        return True


def time_fields(sections: Sections) -> dict[str, Any]:
    """The field ``section_times`` of a heartbeat; empty if limits are not learned."""
    times = sections.times.fields() if sections.times is not None else []
    return {"section_times": times} if times else {}


def left_fields(sections: Sections) -> dict[str, Any]:
    """The field ``left_sections`` of rank 0's heartbeat: the limited sections that it left lately. Other ranks may have
    waited for them. A section whose limit is not learned yet has one of half an hour here."""
    now, limits = monotonic(), sections.limits
    patience_s = _PATIENCE_S if sections.times is not None else None
    fields = [
        {
            "name": name[:_NAME_CHARS],
            "took_s": round(left - entered, 3),
            "ago_s": round(now - left, 3),
            "limit_s": limit_s,
        }
        for name, entered, left in sections.left.copy()
        if (limit_s := limits.sections.get(name, None if name in limits.without else patience_s)) is not None
        and now - left <= _LATELY_S
    ]
    return {"left_sections": fields} if fields else {}


def reports_late(document: Mapping[str, Any]) -> bool:
    """Whether a heartbeat with these fields reports an overrun section."""
    return any(each["open_s"] > each["limit_s"] for each in document.get("sections", ()) if "limit_s" in each)


def section_fields(spans: Sequence[OpenSpan]) -> dict[str, Any]:
    """The field ``sections`` of a heartbeat, with names cut to a bounded length."""
    fields: list[dict[str, Any]] = []
    for span in spans:
        each: dict[str, Any] = {} if span.name is None else {"name": span.name[:_NAME_CHARS]}
        each["open_s"] = round(span.open_s, 3)
        if span.limit_s is not None:
            each["limit_s"] = span.limit_s
        if span.usual_s is not None:
            each["usual_s"] = round(span.usual_s, 3)
        if span.awaited_s is not None:
            each["awaited_s"] = span.awaited_s
        fields.append(each)
    return {"sections": fields} if fields else {}
