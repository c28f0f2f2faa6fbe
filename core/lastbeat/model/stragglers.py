"""Finds ranks that are slower than they should be, by scores and flags from a window of each rank's steps. Pure.

A score is a time that should be possible divided by the time that was taken: 1 is as fast as can be, 0.5 takes twice as
long. *Relative* compares a rank's median with the best rank's, *individual* with the rank's own best window. Both, and
their thresholds of 0.7, are those of the straggler detection of NVIDIA's resiliency extension.

A rank that takes 20 % longer scores 0.83 and passes such a threshold. So a rank is flagged, too, where it is an outlier
among the ranks of the same window: its modified z-score (B. Iglewicz and D. Hoaglin, "How to Detect and Handle
Outliers", 1993: 0.6745 times the distance from the median, in median absolute deviations) is over :data:`OUTLIER`, and
it takes at least :data:`WORTH` longer than the median rank. They recommend 3.5 for one sample; hundreds of ranks in
hundreds of windows a day need more.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, Literal, TypeVar

from lastbeat.model.data import dataclass
from lastbeat.model.json_values import finite, median, whole

THRESHOLD: Final = 0.7
OUTLIER: Final = 6.0
"""Modified z-score above which a rank is an outlier; healthy ranks stay below."""
WORTH: Final = 0.1
"""Least excess over the median rank's time, as a part of it, for a flag: healthy GPUs of one kind differ by a few
per cent."""
LEAST_RANKS: Final = 4
"""Fewest ranks for an outlier: with fewer, the usual spread is unknown."""
LEAST_STEPS: Final = 3
"""A window with fewer steps is not scored."""
OF_WINDOWS: Final = 3
TIMES: Final = 2
"""Number of the last :data:`OF_WINDOWS` windows in which a straggler is flagged."""
_Z: Final = 0.6745
_MOST_S: Final = 10 * 365 * 86400.0
_NODE_CHARS: Final = 100
Basis = Literal["compute", "outside_collectives", "step"]
"""What counts as a rank's own time in a step: its section ``compute``; all but its collectives; the whole step."""
_BASES: Final[Mapping[str, Basis]] = {
    "compute": "compute", "outside_collectives": "outside_collectives", "step": "step",
}  # fmt: skip
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Scores below these are flagged. None: that score is not computed."""

    relative: float | None = THRESHOLD
    individual: float | None = THRESHOLD


@dataclass(frozen=True, slots=True)
class RankWindow:
    """One rank's last window. All times are medians over its steps, in s, by its monotonic clock."""

    rank: int
    number: int
    """Number of the window in this attempt, from 1."""
    steps: int
    step_s: float
    """From one step to the next."""
    own_s: float
    """The rank's own part of ``step_s``."""
    best_step_s: float
    best_own_s: float
    """The same of the best window so far, this one included."""
    basis: Basis = "step"
    node: str = ""


@dataclass(frozen=True, slots=True)
class Scores:
    """Rank → score, above 0, at most 1."""

    relative: Mapping[int, float] = field(default_factory=dict)
    individual: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flags:
    """What one window shows."""

    relative: frozenset[int] = frozenset()
    """Slower than the other ranks: below the threshold, or an outlier."""
    individual: frozenset[int] = frozenset()
    """Slower than they were themselves, and than the others have become."""
    slow: bool = False
    """Steps take longer than they did, on most ranks alike, and no rank stands out."""


def comparable(windows: Sequence[RankWindow]) -> list[RankWindow]:
    """The windows with enough steps and the most frequent basis."""
    enough = [each for each in windows if each.steps >= LEAST_STEPS]
    found = {basis: [each for each in enough if each.basis == basis] for basis in _BASES.values()}
    return max(found.values(), key=len)


def scores(windows: Sequence[RankWindow], thresholds: Thresholds = Thresholds()) -> Scores:
    """The scores of those that are comparable, one window of each rank."""
    compared = comparable(windows)
    best_s = min((each.own_s for each in compared), default=0.0)
    return Scores(
        {each.rank: best_s / each.own_s for each in compared} if thresholds.relative is not None else {},
        {each.rank: each.best_own_s / each.own_s for each in compared} if thresholds.individual is not None else {},
    )


def flags(windows: Sequence[RankWindow], thresholds: Thresholds = Thresholds()) -> Flags:
    """The flags from one window of each rank.

    1. Relative: below the threshold or an outlier, and in any case :data:`WORTH` slower than the median rank: where
       most ranks are as slow, it is the best one that stands out.
    2. Individual: below the threshold, and :data:`WORTH` below the median rank's individual score: what has become slow
       everywhere is the job.
    3. Slow: the median rank's steps are below the individual threshold, and no rank is flagged that would explain it.
    """
    compared, found = comparable(windows), scores(windows, thresholds)
    relative, individual = frozenset[int](), frozenset[int]()
    if thresholds.relative is not None and compared:
        middle_s = median(each.own_s for each in compared)
        limit_s = _outlier_limit_s([each.own_s for each in compared])
        relative = frozenset(
            each.rank
            for each in compared
            if each.own_s > middle_s * (1 + WORTH)
            and (found.relative[each.rank] < thresholds.relative or each.own_s > limit_s)
        )
    if thresholds.individual is None or not compared:
        return Flags(relative)
    usual = median(found.individual.values())
    individual = frozenset(
        rank
        for rank, score in found.individual.items()
        if score < thresholds.individual and score < usual * (1 - WORTH)
    )
    of_steps = median(each.best_step_s / each.step_s for each in compared)
    return Flags(relative, individual, slow=of_steps < thresholds.individual and not relative | individual)


def _outlier_limit_s(times_s: Sequence[float]) -> float:
    """A rank's own time in s above which it is an outlier."""
    if len(times_s) < LEAST_RANKS:
        return float("inf")
    middle_s = median(times_s)
    spread_s = median(abs(each - middle_s) for each in times_s)
    return middle_s + OUTLIER / _Z * spread_s


@dataclass(frozen=True)
class Repeated(Generic[K]):
    """What was flagged in the last windows. A key without a window keeps its flags for as many windows."""

    _lately: Mapping[K, tuple[bool, ...]] = field(default_factory=dict)
    """The last windows that were judged, oldest first."""
    _missed: Mapping[K, int] = field(default_factory=dict)
    """Key → number of latest windows in a row that were missing."""

    def after(self, judged: Collection[K], flagged: Collection[K]) -> "Repeated[K]":
        """With one more window, in which those of ``judged`` were scored, and those of ``flagged`` were flagged."""
        lately = {each: (*self._lately.get(each, ()), each in flagged)[-OF_WINDOWS:] for each in judged}
        missed = dict[K, int]()
        for each, known in self._lately.items():
            if each not in lately and self._missed.get(each, 0) + 1 < OF_WINDOWS:
                lately[each], missed[each] = known, self._missed.get(each, 0) + 1
        return Repeated(lately, missed)

    @property
    def standing(self) -> frozenset[K]:
        """Those that were flagged often enough."""
        return frozenset(each for each, known in self._lately.items() if sum(known) >= TIMES)


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that is slow, and by which scores."""

    rank: int
    node: str = ""
    relative: float | None = None
    individual: float | None = None

    @property
    def worst(self) -> float:
        """The lower of its scores."""
        return min((each for each in (self.relative, self.individual) if each is not None), default=1.0)


@dataclass(frozen=True, slots=True)
class StragglerReport:
    """What is known after a window."""

    number: int
    """Number of the report, from 1."""
    world: int
    scores: Scores = field(default_factory=Scores)
    nodes: Mapping[int, str] = field(default_factory=dict)
    """Rank → its node, for every rank that ever reported one."""
    basis: Basis = "step"
    worse: tuple[int, ...] = ()
    """Ranks that are slower than others, the worst first."""
    dropped: tuple[int, ...] = ()
    """Ranks that are slower than they were, the worst first."""
    slow: float | None = None
    """Score of a slow job; None if the job is not slow."""

    @property
    def stragglers(self) -> tuple[Straggler, ...]:
        """Both, the worst first."""
        found = [
            Straggler(
                rank,
                self.nodes.get(rank, ""),
                self.scores.relative.get(rank) if rank in self.worse else None,
                self.scores.individual.get(rank) if rank in self.dropped else None,
            )
            for rank in {*self.worse, *self.dropped}
        ]
        return tuple(sorted(found, key=lambda each: (each.worst, each.rank)))

    @property
    def slow_nodes(self) -> dict[str, tuple[int, int]]:
        """Node → how many of its ranks are stragglers, and how many it has; the worst first."""
        hit: dict[str, int] = {}
        for each in self.stragglers:
            if each.node:
                hit[each.node] = hit.get(each.node, 0) + 1
        ranks: dict[str, int] = {}
        for node in self.nodes.values():
            ranks[node] = ranks.get(node, 0) + 1
        order = sorted(hit, key=lambda node: -hit[node] / ranks[node])
        return {node: (hit[node], ranks[node]) for node in order}


@dataclass(frozen=True)
class Detector:
    """Judges the windows of one run, one after the other."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    reports: int = 0
    _told: Mapping[int, int] = field(default_factory=dict)
    """Rank → the number of its last window that was judged."""
    _nodes: Mapping[int, str] = field(default_factory=dict)
    _worse: Repeated[int] = field(default_factory=Repeated[int])
    _dropped: Repeated[int] = field(default_factory=Repeated[int])
    _slow: Repeated[str] = field(default_factory=Repeated[str])

    def judge(self, windows: Sequence[RankWindow], world: int) -> "tuple[Detector, StragglerReport]":
        """The detector after ``windows``, and its report.

        A window counts once. Ranks that restart begin with number 1. Ranks from ``world`` on belong to an earlier,
        larger world.
        """
        fresh = [each for each in windows if each.rank < world and each.number != self._told.get(each.rank)]
        compared = comparable(fresh)
        found, shown = scores(fresh, self.thresholds), flags(fresh, self.thresholds)
        judged = [each.rank for each in compared]
        nodes = {**self._nodes, **{each.rank: each.node for each in fresh if each.node}}
        after = Detector(
            self.thresholds,
            self.reports + 1,
            {**self._told, **{each.rank: each.number for each in fresh}},
            nodes,
            self._worse.after(judged, shown.relative),
            self._dropped.after(judged, shown.individual),
            self._slow.after(["job"] if compared else [], ["job"] if shown.slow else []),
        )
        slow = None
        if after._slow.standing and shown.slow:
            slow = median(each.best_step_s / each.step_s for each in compared)
        return after, StragglerReport(
            after.reports,
            world,
            found,
            nodes,
            compared[0].basis if compared else "step",
            _worst_first(after._worse.standing, found.relative),
            _worst_first(after._dropped.standing, found.individual),
            slow,
        )


def _worst_first(ranks: Collection[int], by: Mapping[int, float]) -> tuple[int, ...]:
    return tuple(sorted(ranks, key=lambda rank: (by.get(rank, 1.0), rank)))


def window_fields(window: RankWindow) -> dict[str, Any]:
    """The fields of ``window`` in a heartbeat, which has rank and node already."""
    return {
        "number": window.number,
        "steps": window.steps,
        "of": window.basis,
        "step_s": _short(window.step_s),
        "own_s": _short(window.own_s),
        "best_step_s": _short(window.best_step_s),
        "best_own_s": _short(window.best_own_s),
    }


def read_window(value: object, rank: int, node: object) -> RankWindow | None:
    """The window in a heartbeat; None if there is none that can be used."""
    told = value if isinstance(value, dict) else {}
    number, steps = whole(told.get("number")), whole(told.get("steps"))
    of = told.get("of")
    basis = _BASES.get(of) if isinstance(of, str) else None
    step_s, own_s, best_step_s, best_own_s = (
        _seconds(told.get(name)) for name in ("step_s", "own_s", "best_step_s", "best_own_s")
    )
    if number is None or number < 1 or steps is None or steps < 1 or basis is None:
        return None
    if step_s is None or own_s is None or best_step_s is None or best_own_s is None:
        return None
    # The best is never worse than what it is the best of.
    best_step_s, best_own_s = min(best_step_s, step_s), min(best_own_s, own_s)
    where = node[:_NODE_CHARS] if isinstance(node, str) else ""
    return RankWindow(rank, number, steps, step_s, own_s, best_step_s, best_own_s, basis, where)


def _short(seconds: float) -> float:
    return float(f"{seconds:.6g}")


def _seconds(value: object) -> float | None:
    told = finite(value)
    return told if told is not None and 0 < told < _MOST_S else None
