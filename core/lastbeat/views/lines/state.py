"""One run as lines for people: its heartbeats, limits, progress and ranks."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from lastbeat.alerts.facts import number
from lastbeat.model.amounts import age, cores, percent, size, step_age
from lastbeat.model.resources import Resources
from lastbeat.model.status import Status, steps_done
from lastbeat.model.times import format_duration
from lastbeat.model.view import HeartbeatFile, RankLine, RunView
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import Line, cells, cut, line, paragraph, wrapped

MOST_RANKS: Final = 8
"""Most ranks shown one by one, the worst first."""
_MOST_METRICS: Final = 12
_BAR_WIDTH: Final = 20
_INDENT: Final = "  "
_ALIKE: Final = 1.5
"""A rank is late if its heartbeat is this many times as old as the median rank's, and :data:`_LATE_S` older."""
_LATE_S: Final = 60.0
_PLAIN: Final = frozenset({"instance", "host", "zone", "instance_type"})
"""Facts that are shown without their name."""
_ELSEWHERE: Final = frozenset(
    {
        "phase",
        "owner",
        "team",
        "step",
        "total_steps",
        "attempt",
        "status",
        "process",
        "lastbeat",
        "begun",
        "world_size",
        "process_mark",
        "stop_seconds",
        "raised_at",
        "wraps",
    }
)
"""Facts that stand under another heading, or are of no use on a screen; --json has all."""
_WELL: Final = frozenset({None, "running", "completed", "preempted"})


def heartbeats(view: RunView, columns: int) -> Iterator[Line]:
    """The heartbeat files, their ages and their facts."""
    yield line("Heartbeats", "heading")
    if not view.beats:
        yield line(f"{_INDENT}none was ever written")
        return
    for beat in view.beats:
        yield from _beat(beat, view.at, columns)


def _beat(beat: HeartbeatFile, at: datetime, columns: int) -> Iterator[Line]:
    told = [text if name in _PLAIN else f"{name} {text}" for name, text in beat.facts.items() if name not in _ELSEWHERE]
    start = f"{_INDENT}{beat.name:<14} {age(at, beat.modified):<13} "
    if beat.own_time is not None and abs((beat.own_time - beat.modified).total_seconds()) >= _LATE_S:
        off = beat.own_time - beat.modified
        ahead = "ahead of" if off.total_seconds() > 0 else "behind"
        told.insert(0, f"its own time is {format_duration(abs(off))} {ahead} the store's")
    rows = list(wrapped(", ".join(told), max(20, columns - len(start)), ""))
    for index, row in enumerate(rows):
        yield line(cut((start if index == 0 else " " * len(start)) + row, columns).rstrip())
    if beat.fault:
        yield from paragraph(f"! {beat.fault}", columns, " " * 17, style="mark")


def limits(view: RunView, columns: int) -> Iterator[Line]:
    """The limits in force with their sources, and the limit that made the run TIMED_OUT."""
    if not view.limits:
        return
    yield line("Limits", "heading")
    yield from _listed((each.text for each in view.limits), columns)
    if view.exceeded is not None:
        yield from _listed([f"TIMED_OUT by: {view.exceeded.text}"], columns)


def progress(view: RunView, columns: int) -> Iterator[Line]:
    """Step, loss, speed, time left, and other metrics of training."""
    told = [*_pace(view), *numbers(view)]
    used = [*used_of(view.resources), *gpus(view.resources)]
    row = view.row
    if not told and not used and not view.phases and row.step is None:
        return
    yield line("Progress", "heading")
    if row.step is not None and row.total_steps and row.total_steps > 0:
        step = steps_done(row.step, row.total_steps, row.status)
        bar = signs.bar(step, row.total_steps, _BAR_WIDTH, signs.of(sys.stdout))
        done = percent(step, row.total_steps)
        yield line(f"{_INDENT}{bar} {step:,} of {row.total_steps:,} ({done}){step_age(row, view.at)}")
    yield from _listed(told, columns)
    yield from _listed(used, columns)
    if view.phases:
        latest = [f"{each.phase} {age(view.at, each.since)}" for each in view.phases[-4:]]
        yield from _listed([f"phases: {', then '.join(latest)}"], columns)


def _pace(view: RunView) -> Iterator[str]:
    row = view.row
    if row.phase:
        yield f"phase {row.phase}"
    if row.step is not None and not row.total_steps:
        yield f"step {row.step:,}{step_age(row, view.at)}"
    if row.loss is not None:
        yield f"loss {number(row.loss)}"
    if row.steps_per_s is not None:
        yield f"{number(row.steps_per_s)} steps/s"
    if row.tokens_per_s is not None:
        yield f"{row.tokens_per_s:,.0f} tokens/s"
    if row.eta_s is not None and row.status is Status.RUNNING:
        yield f"about {format_duration(row.eta_s)} left"


def numbers(view: RunView) -> Iterator[str]:
    """Learning rate, epoch and metrics, as training names them."""
    if view.learning_rate is not None:
        yield f"learning rate {number(view.learning_rate)}"
    if view.epoch is not None:
        yield f"epoch {number(view.epoch)}"
    known = [f"{name} {number(value)}" for name, value in view.metrics.items() if value is not None]
    yield from known[:_MOST_METRICS]
    if len(known) > _MOST_METRICS:
        yield f"and {len(known) - _MOST_METRICS} more (--json has all)"


def used_of(found: Resources | None) -> Iterator[str]:
    """What training uses of its machine besides GPUs."""
    if found is None:
        return
    if found.cpu is not None:
        yield f"{cores(found.cpu)} CPU cores"
    if found.rss_bytes is not None:
        yield f"{size(found.rss_bytes)} resident"
    if found.memory_available_bytes is not None:
        of = f" of {size(found.memory_total_bytes)}" if found.memory_total_bytes is not None else ""
        yield f"{size(found.memory_available_bytes)}{of} memory free"


def gpus(found: Resources | None) -> Iterator[str]:
    """One text for all GPUs of a model, with the lowest and highest value of each figure."""
    known = found.gpus if found is not None else ()
    for name, count in Counter(gpu.name for gpu in known).most_common():
        alike = [gpu for gpu in known if gpu.name == name]
        text = f"{count} x {name}" if count > 1 else name
        busy = [gpu.utilization for gpu in alike if gpu.utilization is not None]
        if busy:
            least, most = f"{min(busy):.0%}", f"{max(busy):.0%}"
            text += f" {least} busy" if least == most else f" {least} to {most} busy"
        held = [gpu.memory_used_bytes for gpu in alike if gpu.memory_used_bytes is not None]
        room = [gpu.memory_total_bytes for gpu in alike if gpu.memory_total_bytes is not None]
        if held:
            of = f" of {size(max(room))}" if room else ""
            text += f" with up to {size(max(held))}{of}" + (" each" if count > 1 else "")
        yield text


def _listed(told: Iterable[str], columns: int) -> Iterator[Line]:
    text = ", ".join(told)
    if text:
        yield from paragraph(text, columns, _INDENT)


def ranks(view: RunView, columns: int) -> Iterator[Line]:
    """One line if all ranks are well, else also the worst ranks one by one."""
    lines = view.ranks
    if not lines and not view.ranks_left_out:
        return
    worst = [each for each in worst_first(lines, view.at) if _trouble(each, lines, view.at)]
    well = (
        ""
        if worst
        else ", none behind or silent"
        if not view.ranks_left_out
        else ", of those read none behind or silent"
    )
    first, *rest = wrapped(_summary(view) + well, columns - 7, "")
    yield (("Ranks", "heading"), (f"  {first}", ""))
    yield from (line(" " * 7 + row) for row in rest)
    if view.suspects is not None:
        yield from ((((f"{_INDENT}{row}"), "mark"),) for row in wrapped(view.suspects, columns - len(_INDENT), ""))
    for each in worst[:MOST_RANKS]:
        yield line(cut(f"{_INDENT}{_rank(each, lines, view.at)}", columns), "mark")
    if len(worst) > MOST_RANKS:
        yield line(f"{_INDENT}… and {len(worst) - MOST_RANKS} more (--json has all)")


def _summary(view: RunView) -> str:
    lines = view.ranks
    of = f" of {view.world_size:,}" if view.world_size is not None else ""
    told = f"{len(lines) + view.ranks_left_out:,}{of} have told of themselves"
    steps = [each.step for each in lines if each.step is not None]
    if steps:
        told += (
            f", at step {max(steps):,}" if min(steps) == max(steps) else f", at steps {min(steps):,} to {max(steps):,}"
        )
    counted = Counter(each.status or "no status" for each in lines)
    if len(counted) > 1 or "running" not in counted:
        told += "".join(f", {count:,} {status}" for status, count in counted.most_common(4))
    if view.ranks_left_out:
        told += f"; {view.ranks_left_out:,} of them were not read"
    return told


def worst_first(lines: Sequence[RankLine], at: datetime) -> list[RankLine]:
    """``lines`` with failed and unreadable ranks first, then the furthest behind, then the longest silent."""

    def badness(each: RankLine) -> tuple[bool, bool, int, float, int]:
        silent_s = (at - each.modified).total_seconds()
        return each.status in _WELL, each.fault is None, -(each.behind or 0), -silent_s, each.rank

    return sorted(lines, key=badness)


def _trouble(each: RankLine, lines: Sequence[RankLine], at: datetime) -> bool:
    return bool(each.status not in _WELL or each.fault or _is_behind(each, lines) or _is_late(each, lines, at))


def _is_behind(each: RankLine, lines: Sequence[RankLine]) -> bool:
    # Heartbeats are not written at the same moment, so all but one are behind. Failed ranks do not count: they stopped.
    behind = sorted(other.behind for other in lines if other.behind is not None and other.status in _WELL)
    usual = behind[(len(behind) - 1) // 2] if behind else 0
    return each.behind is not None and each.behind > max(1, 2 * usual)


def _is_late(each: RankLine, lines: Sequence[RankLine], at: datetime) -> bool:
    ages = sorted((at - other.modified).total_seconds() for other in lines)
    usual_s = ages[len(ages) // 2]
    return (at - each.modified).total_seconds() > max(_ALIKE * usual_s, usual_s + _LATE_S)


def _rank(each: RankLine, lines: Sequence[RankLine], at: datetime) -> str:
    digits = max(cells(str(other.rank)) for other in lines)
    told = [f"rank {each.rank:>{digits}}"]
    if each.step is not None:
        told.append(f"step {each.step:,}" + (f" ({each.behind:,} behind)" if each.behind else ""))
    told.append(age(at, each.modified))
    told += [text for text in (each.status, each.phase, each.host) if text]
    if each.loss is not None:
        told.append(f"loss {number(each.loss)}")
    if each.fault:
        told.append(each.fault)
    return "  ".join(told)
