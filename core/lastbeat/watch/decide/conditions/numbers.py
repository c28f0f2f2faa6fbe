"""Conditions of a run's numbers: it slows down, its loss or gradients leave their level, a number stands still.

They compare a run with itself: with its own last hours, and with the attempt before. A condition that stands keeps the
text of the check that raised it, which knows best when it began.
"""

import math
from collections.abc import Callable
from datetime import timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from lastbeat.model import status as names
from lastbeat.model.curve import CurvePoint
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.watch.decide.conditions.condition import Check, Condition, Source
from lastbeat.watch.decide.conditions.nodes import said_by_nodes
from lastbeat.watch.decide.numbers import Numbers

if TYPE_CHECKING:
    from lastbeat.watch.decide.levels import Level
    from lastbeat.watch.decide.pace import Slowdown

_FLAT_STEPS: Final = 200
"""The loss is flat after this many steps with the same one."""
_FLAT_TIMES: Final = 5
"""It is flat after this many times the longest time that it stayed the same before: some report it rarely."""
_FLAT_FROM_START: Final = 5000
"""Steps after which a loss that has never changed is flat."""
_DIGITS: Final = 4
"""A loss with fewer digits may be rounded, and seem flat for that."""
_ZERO_STEPS: Final = 50
"""Steps with a learning rate of zero that are no accident."""
_LAST: Final = 0.99
"""Share of all steps after which the learning rate may be zero."""
_NEAR: Final = timedelta(minutes=15)
"""A checkpoint this close to the beginning of a slowdown may explain it."""
_PLAIN_PHASES: Final = frozenset({"train", "training"})
_WORD_CHARS: Final = 60


def _slowdown(check: Check) -> str | None:
    found = check.evidence.numbers.pace
    slow = found.slow if found is not None else None
    if slow is None:
        return None
    told = f"{_time(slow.step_s)} a step since step {slow.step} ({format_duration(slow.lasts_s)}), usually "
    return check.stood.get(names.SLOWDOWN) or "; ".join([told + _time(slow.usual_s), *_changes(check, slow)])


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _changes(check: Check, slow: "Slowdown") -> list[str]:
    """What is known to have changed about when the run became slow."""
    evidence, found = check.evidence, list[str]()
    numbers, metadata, saved = evidence.numbers, evidence.seen.metadata, evidence.before.checkpoint
    began = check.now - timedelta(seconds=slow.lasts_s)
    then = numbers.earlier.node if numbers.earlier is not None else None
    now = numbers.usual.node if numbers.usual is not None else None
    if then is not None and now is not None and then != now and slow.step <= numbers.points[0].step:
        found.append(f"node {now}, before {then}")
    throttled = said_by_nodes(names.GPU_THROTTLED, check)
    if throttled is not None:
        found.append(throttled)
    if saved is not None and saved.saved_at is not None and abs(saved.saved_at - began) <= _NEAR:
        found.append("a checkpoint was saved" if saved.step is None else f"a checkpoint was saved at step {saved.step}")
    if metadata is not None and metadata.phase and metadata.phase.lower() not in _PLAIN_PHASES:
        found.append(f"in phase {fit(one_line(metadata.phase), _WORD_CHARS)}")
    return found


def _risen(
    what: str, level: Callable[[Numbers], "Level | None"], name: str, other: str
) -> Callable[[Check], str | None]:
    """A function that finds a risen number under ``name``; ``other`` is the name of the other way to rise."""
    steady = name in {names.LOSS_DIVERGING, names.GRAD_NORM_DIVERGING}

    def find(check: Check) -> str | None:
        found = level(check.evidence.numbers)
        rise = found.rise if found is not None else None
        if rise is None or other in check.stood:
            return None
        if name in check.stood:
            return check.stood[name]
        if rise.steady is not steady:
            return None
        moved = "has risen" if steady else "jumped"
        return (
            f"{what} {moved} from {rise.before:.4g} to {rise.now:.4g} since step {rise.step}; {_good(check, rise.step)}"
        )

    return find


def _good(check: Check, step: int) -> str:
    saved = check.evidence.before.checkpoint
    known = saved.step if saved is not None else None
    if known is None or known > step:
        return "no earlier checkpoint is known"
    return f"the last checkpoint before that is of step {known}"


def _flat(check: Check) -> str | None:
    known = [point for point in check.evidence.numbers.points if not math.isnan(point.loss)]
    spans = [_steps(list(group)) for _, group in groupby(known, lambda point: point.loss)]
    if not spans or len(f"{known[-1].loss:.17g}".split("e")[0].replace(".", "").lstrip("-0")) < _DIGITS:
        return None
    *earlier, (begun, steps) = spans
    longest = max((later - first for (first, _), (later, _) in pairwise(spans)), default=0)
    least = max(_FLAT_STEPS, _FLAT_TIMES * longest) if earlier else _FLAT_FROM_START
    if steps < least:
        return None
    return check.stood.get(names.LOSS_FLAT) or f"the loss has been exactly {known[-1].loss:.6g} since step {begun}"


def _steps(points: list[CurvePoint]) -> tuple[int, int]:
    """The first step of ``points``, and how many there are to the last."""
    return points[0].step, points[-1].step - points[0].step


def _without_rate(check: Check) -> str | None:
    known = [point for point in check.evidence.numbers.points if not math.isnan(point.rate)]
    shown = check.evidence.seen.knows_step
    total = shown.total_steps if shown is not None else None
    if not known or known[-1].rate != 0 or (total is not None and known[-1].step >= _LAST * total):
        return None
    zeros = next(list(group) for _, group in groupby(reversed(known), lambda point: point.rate))
    begun, steps = _steps(zeros[::-1])
    if steps < _ZERO_STEPS:
        return None
    return check.stood.get(names.LR_ZERO) or f"the learning rate has been 0 since step {begun}"


_POINTS: Final = Source("points of its curve", lambda check: not check.evidence.numbers.points)
_PACE: Final = Source("its pace", lambda check: check.evidence.numbers.pace is None)
_LOSS: Final = Source("the level of its loss", lambda check: check.evidence.numbers.loss is None)
_NORM: Final = Source("the level of its gradients", lambda check: check.evidence.numbers.norm is None)
_GO_BACK: Final = (
    "Compare the curve with the data and the learning rate around that step; lower the learning rate or clip "
    "gradients, and start again from the last good checkpoint (lastbeat stop RUN ends it)."
)
_GRADIENTS: Final = (
    "Look at the loss beside it (lastbeat show RUN): gradients often grow before the loss does. Clip them, lower the "
    "learning rate, check the data around that step."
)


def _of_loss(name: str, other: str, meaning: str) -> Condition:
    find = _risen("the loss", lambda numbers: numbers.loss, name, other)
    return Condition(name, meaning, find, (_LOSS,), hint=_GO_BACK)


def _of_norm(name: str, other: str, meaning: str) -> Condition:
    find = _risen("the gradient norm", lambda numbers: numbers.norm, name, other)
    return Condition(name, meaning, find, (_NORM,), hint=_GRADIENTS)


CONDITIONS: Final = (
    Condition(
        names.SLOWDOWN,
        "for ten minutes a step has taken a third longer than in the run's last day, or in the attempt before "
        "([numbers](known-limits.md#numbers))",
        _slowdown,
        needs=(_PACE,),
        hint="Find what changed at that step: nvidia-smi -q -d CLOCK,PERFORMANCE on its nodes (a throttled GPU), the "
        "data loader and its storage, other jobs on the node (top), longer sequences.",
    ),
    _of_loss(
        names.LOSS_DIVERGING, names.LOSS_SPIKE, "the loss rises steadily, by a quarter and well above its own noise"
    ),
    _of_loss(
        names.LOSS_SPIKE, names.LOSS_DIVERGING, "the loss jumped as far, and has not come back for a hundred steps"
    ),
    _of_norm(
        names.GRAD_NORM_DIVERGING, names.GRAD_NORM_SPIKE, "the reported gradient norm rises steadily, to four times"
    ),
    _of_norm(
        names.GRAD_NORM_SPIKE, names.GRAD_NORM_DIVERGING, "it jumped as far, and has not come back for a hundred steps"
    ),
    Condition(
        names.LOSS_FLAT,
        "the loss has been exactly the same for two hundred steps, and for five times as long as ever before",
        _flat,
        needs=(_POINTS,),
        hint="Nothing is learned: check that batches differ and that the learning rate, the optimizer's parameters and "
        "the gradients are not zero. lastbeat show RUN has the curve.",
    ),
    Condition(
        names.LR_ZERO,
        "the learning rate has been 0 for fifty steps before the last hundredth of the run",
        _without_rate,
        needs=(_POINTS,),
        hint="The schedule has ended before the run: compare its number of steps with the run's; lastbeat stop RUN "
        "ends it, or go on with a new schedule.",
    ),
)
