"""One run on one screen: its curves, as large as there is room, and its figures. Pure."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final

from lastbeat.alerts import facts
from lastbeat.model import amounts
from lastbeat.model.amounts import size
from lastbeat.model.resources import Gpu
from lastbeat.model.status import Status, steps_done
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, format_time
from lastbeat.model.view import Point, RankLine, RunView
from lastbeat.views.lines import signs, state
from lastbeat.views.lines.paint import Line, cells, cut, line, sentence
from lastbeat.views.lines.signs import Signs, harmless
from lastbeat_cli.fleet import cells as fleet_cells
from lastbeat_cli.terminal.plot import Points, plot

_SIDE_BY_SIDE: Final = 120
"""Least number of columns for two curves."""
_LEAST_CURVE: Final = 6
_MOST_CURVE: Final = 24
_GAP: Final = 3
_SAME: Final = 60
_TALL: Final = 36
"""Least number of screen lines for sentences of two lines."""
_MOST_GPUS: Final = 16
_SPARK: Final = 24
_SILENT_S: Final = 600.0
_INDENT: Final = 10


def top_lines(
    view: RunView, columns: int, height: int, now: datetime, signs_of: Signs, *, whole_id: bool = False
) -> list[Line]:
    """The run as of ``view``, in at most ``height`` lines. Ages are as of ``now``, by the store's clock. ``whole_id``
    keeps a long run id whole."""
    head = [
        *_head(view, columns, now, signs_of, whole_id=whole_id),
        *_why(view, columns, now, 1 if height < _TALL else 2),
    ]
    below = [
        *_progress(view, columns, now, signs_of),
        *figures(view, columns, now, signs_of, short=height < _TALL),
    ]
    room = height - len(head) - len(below) - 2
    if room < _LEAST_CURVE:
        # A legible curve is worth more than the last figures.
        below = below[: max(2, len(below) - (_LEAST_CURVE - room))]
        room = height - len(head) - len(below) - 2
    curves = _curves(view, columns, min(room, _MOST_CURVE), signs_of)
    told = [*head, line(""), *curves, *([line("")] if curves else []), *below]
    first = 1 if whole_id else 0
    fitting = [*told[:first], *(signs.line_cut(each, columns) for each in told[first:height])]
    return [signs_of.line(each) for each in fitting]


def _head(view: RunView, columns: int, now: datetime, signs_of: Signs, *, whole_id: bool) -> Iterator[Line]:
    row = view.row
    word = signs.word(row)
    status = f"{signs_of.of(word)} {row.shown}{'?' if row.doubt else ''}"
    seen = format_time(view.at.replace(microsecond=0)) or ""
    rest = [f"attempt {row.attempt}", *([f"phase {harmless(row.phase, 60)}"] if row.phase else [])]
    if row.since is not None:
        rest.append(f"{row.status} for {format_duration(now - row.since)}")
    rest.append(f"seen {seen}")
    if row.owner or row.team:
        rest.append(f"of {harmless(facts.whose(row.owner, row.team) or '', 60)}")
    if row.host:
        rest.append(harmless(row.host, 60))
    room = columns - cells(status) - 2
    name = signs.name(row.run_id)
    name = name if whole_id else signs.middle_cut(name, max(room, 10))
    yield ((name, "heading"), ("  ", ""), (status, signs.style(word)))
    while len(rest) > 1 and cells(" · ".join(rest)) > columns:
        rest.pop()
    yield line(cut(" · ".join(rest), columns), "dim")


def _why(view: RunView, columns: int, now: datetime, most: int) -> Iterator[Line]:
    """Reason, evidence and advice, each in at most ``most`` lines."""
    row = view.row
    word = signs.word(row)
    if text := fleet_cells.reason(row, now):
        style = signs.style(word) if row.status is not Status.SUCCEEDED else ""
        yield from _sentence(text, columns, most, style)
    if view.explained is not None:
        evidence = view.explained.cause.evidence
        shown = harmless(evidence.text)
        # The reason of a failure often repeats the evidence.
        told = "" if shown and shown[:_SAME] in text else f": {shown}"
        yield from _sentence(f"Evidence: {harmless(facts.place(evidence), 200)}{told}", columns, most)
    if row.action:
        yield from _sentence(f"→ {harmless(row.action)}", columns, most)


def _sentence(text: str, columns: int, most: int, style: str = "") -> Iterator[Line]:
    yield from (line(part, style) for part in sentence(text, columns, most))


def _progress(view: RunView, columns: int, now: datetime, signs_of: Signs) -> Iterator[Line]:
    row = view.row
    if row.step is None:
        yield line("No step is known.", "dim")
        return
    if not row.total_steps or row.total_steps < 0:
        yield ((f"Step {row.step:,}", "heading"), (amounts.step_age(row, now), "mark" if row.stands_still else ""))
        return
    age = amounts.step_age(row, now)
    left = f"  ETA {format_duration(row.eta_s)}" if row.eta_s is not None else ""
    step = steps_done(row.step, row.total_steps, row.status)
    before = f"Step {step:,}/{row.total_steps:,}{age} "
    after = f" {amounts.percent(step, row.total_steps)}{left}"
    room = min(columns - len(before) - len(after), 60)
    bar = signs.bar(step, row.total_steps, room, signs_of) if room >= 5 else ""
    yield ((before, "heading"), (bar, ""), (cut(after, max(columns - len(before) - len(bar), 1)), ""))


def _curves(view: RunView, columns: int, height: int, signs_of: Signs) -> list[Line]:
    losses: Points = [(point.step, point.loss) for point in view.points]
    speeds: Points = speeds_at(view.points)
    two = columns >= _SIDE_BY_SIDE and sum(1 for _, speed in speeds if speed is not None) > 1
    left = (columns - _GAP) * 3 // 5 if two else columns
    first = _titled("Loss", losses, left, height, signs_of)
    if not first and any(_finite(loss) for _, loss in losses):
        return []
    if not first:
        return [line("No curve: progress.json has no loss in `recent`.", "dim")]
    if not two:
        return [line(text, style) for text, style in first]
    second = _titled("Steps/s", speeds, columns - _GAP - left, height, signs_of, 0.0)
    padding = [("", "")] * (len(first) - len(second))
    return [
        ((signs.padded(one, left), style), (" " * _GAP, ""), (other, style))
        for (one, style), (other, _) in zip(first, [*second, *padding], strict=False)
    ]


def _titled(
    name: str, points: Points, columns: int, height: int, signs_of: Signs, floor: float | None = None
) -> list[tuple[str, str]]:
    known = [value for _, value in points if value is not None]
    drawn = plot(points, columns, height - 1, signs_of, _step, lambda value: facts.number(value, 4), floor)
    if not drawn:
        return []
    finite = [value for value in known if _finite(value)]
    odd = f", {len(known) - len(finite)} no number" if len(known) > len(finite) else ""
    least, most, latest = min(finite), max(finite), known[-1]
    told = [facts.number(value, 4) for value in (latest, least, most)]
    title = f"{name} {told[0]} (least {told[1]}, most {told[2]}{odd})"
    return [(cut(title, columns), "heading"), *((text, "") for text in drawn)]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _step(value: float) -> str:
    return f"step {int(value):,}"


def figures(view: RunView, columns: int, now: datetime, signs_of: Signs, *, short: bool = False) -> Iterator[Line]:
    """One line for each known kind of figure. GPUs get a line each, or one line for all if ``short``."""
    for label, parts in (
        ("Speed", list(_speed(view, signs_of))),
        ("Training", [harmless(each, 100) for each in state.numbers(view)]),
        ("Beats", list(_beats(view, now))),
        ("Ranks", list(_ranks(view, now))),
        ("Uses", list(state.used_of(view.resources))),
    ):
        if parts:
            yield _labelled(label, parts, columns)
    if view.resources is not None and short and len(view.resources.gpus) > 2:
        yield _labelled("GPUs", [harmless(each, 100) for each in state.gpus(view.resources)], columns)
    elif view.resources is not None:
        for text in _gpus(view.resources.gpus, columns - _INDENT, signs_of):
            yield ((" " * _INDENT, ""), (text, ""))
    for note in view.notes[:2]:
        yield line(cut(f"Note: {harmless(note)}", columns), "dim")


def _labelled(label: str, parts: Sequence[str], columns: int) -> Line:
    return ((f"{label:<{_INDENT}}", "dim"), (cut("  ".join(parts), max(columns - _INDENT, 1)), ""))


def speeds_at(points: Sequence[Point]) -> list[tuple[float, float | None]]:
    """Step and steps per second, for each pair of neighbouring points at the later one's step."""
    found: list[tuple[float, float | None]] = []
    for before, here in pairwise(points):
        seconds = (here.at - before.at).total_seconds()
        steps = here.step - before.step
        if seconds > 0 and steps >= 0:
            found.append((here.step, steps / seconds))
        elif steps < 0:
            # The run restarted, so earlier speeds say nothing about the current ones.
            found.clear()
    return found


def _speed(view: RunView, signs_of: Signs) -> Iterator[str]:
    row = view.row
    if row.steps_per_s is not None and row.steps_per_s > 0:
        yield f"{facts.number(row.steps_per_s, 3)} steps/s"
        yield f"{_seconds(1 / row.steps_per_s)} a step"
    if row.tokens_per_s is not None:
        yield f"{fleet_cells.si(row.tokens_per_s)} tokens/s"
    known = row.steps_per_s is not None or row.tokens_per_s is not None
    drawn = signs.spark([speed for _, speed in speeds_at(view.points)], _SPARK, signs_of, 0.0) if known else ""
    if len(drawn) > 1:
        yield drawn


def _seconds(value: float) -> str:
    if not math.isfinite(value) or value >= 100:
        return format_duration(value) if math.isfinite(value) else facts.number(value)
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _beats(view: RunView, now: datetime) -> Iterator[str]:
    for beat in view.beats:
        fault = f" ({harmless(beat.fault, 80)})" if beat.fault else ""
        yield f"{harmless(beat.name, 40)} {format_duration(now - beat.modified)} ago{fault}"
    if not view.beats:
        yield "no heartbeat file"


def _ranks(view: RunView, now: datetime) -> Iterator[str]:
    if not view.ranks:
        return
    told = len(view.ranks) + view.ranks_left_out
    yield f"{told} of {view.world_size}" if view.world_size else str(told)
    last = max((rank for rank in view.ranks if rank.behind), key=_behind, default=None)
    yield f"rank {last.rank} is {counted(_behind(last), 'step')} behind" if last is not None else "none is behind"
    silent = [rank for rank in view.ranks if (now - rank.modified).total_seconds() > _SILENT_S]
    if silent and not view.row.status.finished:
        oldest = min(silent, key=lambda rank: rank.modified)
        yield f"{len(silent)} silent, rank {oldest.rank} for {format_duration(now - oldest.modified)}"
    if faults := sum(1 for rank in view.ranks if rank.fault):
        yield f"{faults} unreadable"


def _behind(rank: RankLine) -> int:
    return rank.behind or 0


def _gpus(gpus: Sequence[Gpu], columns: int, signs_of: Signs) -> Iterator[str]:
    told = [_gpu(index, gpu, signs_of) for index, gpu in enumerate(gpus[:_MOST_GPUS])]
    if len(gpus) > _MOST_GPUS:
        told.append(f"and {len(gpus) - _MOST_GPUS} more")
    used = ""
    for each in told:
        joined = f"{used}   {each}" if used else each
        if used and cells(joined) > columns:
            yield cut(used, columns)
            joined = each
        used = joined
    if used:
        yield cut(used, columns)


def _gpu(index: int, gpu: Gpu, signs_of: Signs) -> str:
    """``GPU 0 ████░ 81% 70/80 GiB``."""
    told = [f"GPU {index}"]
    if gpu.utilization is not None and math.isfinite(gpu.utilization):
        share = max(0, min(round(gpu.utilization * 100), 100))
        told += [signs.bar(share, 100, 5, signs_of), f"{share:>3}%"]
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    if used is not None:
        told.append(f"{used / 2**30:.3g}/{total / 2**30:.3g} GiB" if total else size(used))
    return " ".join(told)
