"""What a look shows of a run's numbers: its pace, and the levels of its loss and gradients. Pure.

Nothing is said in the first 5 % of a run, nor before 200 steps of its attempt. A look that shows too little, for
example because its watcher has just begun, shows nothing about them.
"""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lastbeat.model import status as names
from lastbeat.model.curve import Curve, CurvePoint
from lastbeat.model.data import dataclass
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt, Record, UsualNumbers
from lastbeat.model.text import fit, one_line
from lastbeat.watch import decide

if TYPE_CHECKING:
    from lastbeat.watch.decide.levels import Level
    from lastbeat.watch.decide.pace import StepPace

LEAST_STEPS: Final = 200
"""Steps of the attempt without which its numbers are not judged."""
_FIRST: Final = 0.05
"""Share of all steps in which nothing is judged: warm-up, compilation."""
LOSS_RISE: Final = math.log(1.25)
"""A smaller rise of the loss does not count."""
_NORM_RISE: Final = math.log(4)
"""The same for the norm of the gradients, which grows in many healthy runs."""
_NODE_CHARS: Final = 100
_MOST_LOGARITHM: Final = 800.0
_MOST_TOKENS: Final = 1e12
"""Most tokens of a step. More are no batch, and larger numbers cannot be kept in the record."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What this look shows; None where it shows too little."""

    points: tuple[CurvePoint, ...] = ()
    """Of this attempt. Empty: too few, or too early."""
    pace: "StepPace | None" = None
    loss: "Level | None" = None
    norm: "Level | None" = None
    usual: UsualNumbers | None = None
    """For the record: the usual numbers of this attempt."""
    earlier: UsualNumbers | None = None
    """Those of the attempt before."""


def judged(before: Record, attempt: Attempt, seen: Seen, *, is_new: bool) -> Numbers:
    """The numbers in ``seen``, which is of ``attempt``; ``before`` is the record."""
    usual = before.numbers if before.numbers is not None and before.numbers.attempt == attempt.number else None
    earlier = before.earlier_numbers if usual is not None or not is_new else before.numbers or before.earlier_numbers
    known, shown = Numbers(usual=usual, earlier=earlier), seen.knows_step
    curve = _of_attempt(seen.curve, before, attempt, is_new=is_new)
    points = curve.points
    if shown is None or shown.fault is not None or not points or _is_early(points, shown.total_steps):
        return known
    stood = {} if is_new else before.conditions
    same = earlier if earlier is not None and earlier.world_size == _world_size(seen) else None
    last = points[-1].step
    pace = decide.pace.pace(points, same.step_s if same is not None else None, stood=names.SLOWDOWN in stood)
    reached = earlier is not None and earlier.step <= points[0].step
    found = replace(
        known,
        points=tuple(points),
        pace=_by_tokens(pace, _tokens(shown), usual, same, stood=names.SLOWDOWN in stood),
        loss=decide.levels.level(
            points,
            LOSS_RISE,
            earlier.loss if earlier is not None and reached else None,
            stood=not {names.LOSS_SPIKE, names.LOSS_DIVERGING}.isdisjoint(stood),
        ),
        norm=decide.levels.level(
            curve.norms,
            _NORM_RISE,
            None,
            stood=not {names.GRAD_NORM_SPIKE, names.GRAD_NORM_DIVERGING}.isdisjoint(stood),
        ),
    )
    return replace(found, usual=_usual(found, attempt.number, seen, last))


def _of_attempt(curve: Curve, before: Record, attempt: Attempt, *, is_new: bool) -> Curve:
    """The part of ``curve`` that belongs to the attempt. Without a start time its first sight is its beginning."""
    if attempt.start_time is not None:
        return curve.since(attempt.start_time.timestamp())
    if is_new:
        return Curve()
    first = next((each for each in before.history if each.attempt == attempt.number), None)
    return curve if first is None or first.before is None else curve.since(first.at.timestamp())


def _is_early(points: list[CurvePoint], total: int | None) -> bool:
    steps = [point.step for point in points]
    too_few = max(steps) - min(steps) < LEAST_STEPS
    return too_few or (total is not None and steps[-1] < _FIRST * total)


def _by_tokens(
    pace: "StepPace | None",
    tokens: float | None,
    usual: UsualNumbers | None,
    same: UsualNumbers | None,
    *,
    stood: bool,
) -> "StepPace | None":
    """``pace`` without its slowdown if a step takes longer only because it has more tokens: a batch that grew.

    ``same``: the numbers of the attempt before, which the slowdown may be one against.
    """
    if pace is None or pace.slow is None:
        return pace
    against = usual or same if pace.slow.usual_s == pace.usual_s else same
    if not tokens or against is None or not against.tokens or tokens <= against.tokens:
        return pace
    share = pace.slow.usual_s / pace.slow.step_s * tokens / against.tokens
    return pace if share <= (decide.pace.FAST if stood else decide.pace.SLOW) else pace._replace(slow=None)


def _tokens(beat: Heartbeat) -> float | None:
    """Tokens of a step in the last minutes, by the document's own speeds."""
    if beat.tokens_per_s is None or not beat.steps_per_s:
        return None
    tokens = beat.tokens_per_s / beat.steps_per_s
    return tokens if tokens <= _MOST_TOKENS else None


def _usual(found: Numbers, number: int, seen: Seen, step: int) -> UsualNumbers | None:
    """What the next attempt is compared with. While the run is slow or its loss high, what was usual before stays."""
    known, metadata, shown = found.usual, seen.metadata, seen.knows_step
    step_s = found.pace.usual_s if found.pace is not None and found.pace.slow is None else None
    tokens = None
    if step_s is not None and shown is not None and (shown.steps_per_s or 0.0) * step_s >= decide.pace.FAST:
        # At another pace a step may have another number of tokens than usual.
        tokens = _tokens(shown)
    loss = found.loss.usual if found.loss is not None and found.loss.rise is None else None
    if loss is not None and abs(loss) > _MOST_LOGARITHM:
        loss = None
    if known is None and step_s is None and loss is None:
        return None
    fresh = known or UsualNumbers(number, step)
    return replace(
        fresh,
        step=step if loss is not None else fresh.step,
        step_s=fresh.step_s if step_s is None else float(f"{step_s:.4g}"),
        loss=fresh.loss if loss is None else round(loss, 4),
        world_size=_world_size(seen) or fresh.world_size,
        tokens=fresh.tokens if tokens is None else float(f"{tokens:.2g}"),
        node=_node(metadata) or fresh.node,
    )


def _world_size(seen: Seen) -> int | None:
    return seen.metadata.world_size if seen.metadata is not None else None


def _node(metadata: Heartbeat | None) -> str | None:
    name = None if metadata is None else metadata.host or metadata.instance_id
    return None if name is None else fit(one_line(name), _NODE_CHARS)
