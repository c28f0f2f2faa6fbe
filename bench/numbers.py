"""Conditions of a run's numbers on simulated runs, and on curves in a folder. Nothing here waits."""

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from bench.server import CHECKOUT

_HOURS = 1000.0
_EACH = 60
"""Slow and diverging runs."""
_REPORT_S = 30.0
"""Time between two reports of a curve in a folder."""


class Judged(NamedTuple):
    """One run: its hours, and when and at which height of its loss each condition was raised."""

    hours: float
    raised: tuple[tuple[str, float, float], ...]
    noise: float = 0.0
    after: float = 0.0
    """When something was done to it, in hours."""


def tables(progress: Callable[[str], None], folder: Path | None) -> Iterator[str]:
    """False warnings, what is found how soon, and the curves in ``folder``."""
    sys.path.insert(0, str(CHECKOUT / "tests"))
    with ProcessPoolExecutor() as pool:
        progress("healthy runs")
        healthy, seed = list[Judged](), 0
        while sum(each.hours for each in healthy) < _HOURS:
            healthy += pool.map(healthy_run, range(seed, seed + 8))
            seed += 8
        progress("slow runs")
        slow = list(pool.map(slow_run, range(_EACH)))
        progress("diverging runs")
        diverging = list(pool.map(diverging_run, range(_EACH)))
    yield "| simulated | | |"
    yield "|---|---:|---|"
    false = sum(len(each.raised) for each in healthy)
    yield f"| healthy | {sum(each.hours for each in healthy):,.0f} run-hours | {false} false warnings |"
    yield _slow_line("a doubled step time", slow)
    for name, quiet in (("at most 0.1", True), ("above 0.1", False)):
        runs = [each for each in diverging if (each.noise <= 0.1) is quiet]
        yield _height_line(f"a loss that doubles in 15 to 120 minutes, noise {name}", runs)
    if folder is not None:
        yield ""
        yield from curves(progress, folder)


def _slow_line(name: str, runs: list[Judged]) -> str:
    found = [_first(each, {"slowdown"}) for each in runs]
    minutes = [60 * (hit[1] - run.after) for hit, run in zip(found, runs, strict=True) if hit is not None]
    told = f"after {statistics.median(minutes):.0f} minutes, most {max(minutes):.0f}"
    late = sum(each > 15 for each in minutes)
    return f"| {name} | {len(minutes)} of {len(runs)} found | {told}; {late} after more than 15 |"


def _height_line(name: str, runs: list[Judged]) -> str:
    found = [_first(each, {"loss_spike", "loss_diverging"}) for each in runs]
    heights = [hit[2] for hit in found if hit is not None]
    told = f"at {statistics.median(heights):.2f} times the loss, most {max(heights):.2f}"
    return f"| {name} | {len(heights)} of {len(runs)} found | {told}; {sum(h >= 2 for h in heights)} at 2 or more |"


def _first(run: Judged, names: set[str]) -> tuple[str, float, float] | None:
    return next((each for each in run.raised if each[0] in names and each[1] >= run.after), None)


def healthy_run(seed: int) -> Judged:
    """A healthy run."""
    from support.numbered import healthy  # noqa: PLC0415 - the tests' own runs

    run = healthy(seed)
    return Judged(run.hours, _raised(run), run.noise)


def slow_run(seed: int) -> Judged:
    """A run whose steps take twice as long from some time on."""
    from support.numbered import healthy  # noqa: PLC0415 - as above

    run, after = healthy(seed), Random(seed).uniform(1.0, 3.5)
    # Evaluations of a quarter of an hour show no pace.
    run = replace(run, hours=4.5, pause_minutes=min(run.pause_minutes, 3.0))
    slower = run.slower
    run = replace(run, slower=lambda hours: slower(hours) * (2.0 if hours >= after else 1.0))
    return Judged(run.hours, _raised(run), run.noise, after)


def diverging_run(seed: int) -> Judged:
    """A run whose loss grows from some time on."""
    from support.numbered import healthy  # noqa: PLC0415 - as above

    chance, run = Random(seed), replace(healthy(seed), hours=5.5)
    after, doubled = chance.uniform(1.5, 3.0), chance.uniform(0.25, 2.0)
    run = replace(run, higher=lambda hours: 2 ** max(0.0, (hours - after) / doubled))
    return Judged(run.hours, _raised(run), run.noise, after)


def _raised(run: "SimulatedRun") -> tuple[tuple[str, float, float], ...]:  # type: ignore[name-defined]  # noqa: F821
    from support.numbered import watched  # noqa: PLC0415 - as above

    found, before = list[tuple[str, float, float]](), set[str]()
    for hours, height, conditions in watched(run):
        found += [(name, hours, height) for name in conditions if name not in before]
        before = set(conditions)
        if height > 16:
            break
    return tuple(found)


def curves(progress: Callable[[str], None], folder: Path) -> Iterator[str]:
    """What is said of each log or ``trainer_state.json`` in ``folder``, as if each report came half a minute after
    the one before. Of their pace nothing follows."""
    yield "| curve | reports | last step | conditions |"
    yield "|---|---:|---:|---|"
    for path in sorted(each for each in folder.iterdir() if each.is_file()):
        progress(path.name)
        reports = list(_reports(path))
        if reports:
            raised = "; ".join(_raised_by(reports)) or "none"
            yield f"| {path.name} | {len(reports):,} | {reports[-1][0]:,} | {raised} |"


Report = tuple[int, float, float | None, float | None]


def _reports(path: Path) -> Iterator[Report]:
    """Step, loss, learning rate and gradient norm."""
    from lastbeat.model.progress_lines import Progress  # noqa: PLC0415 - only for folders

    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".json":
        for row in json.loads(text)["log_history"]:
            if "loss" in row:
                yield row["step"], float(row["loss"]), row.get("learning_rate"), row.get("grad_norm")
        return
    progress, last = Progress(), -1
    for line in text.replace("\r", "\n").split("\n"):
        progress.loss = None
        if progress.read(line) and progress.loss is not None and progress.step is not None and progress.step != last:
            last = progress.step
            yield last, progress.loss, progress.learning_rate, None


def _raised_by(reports: list[Report]) -> list[str]:
    from lastbeat.model.curve import read_curve  # noqa: PLC0415 - as above
    from lastbeat.model.document_field import Reading  # noqa: PLC0415 - as above
    from lastbeat.training.sdk.curves import RecentPoints  # noqa: PLC0415 - as above
    from support.numbered import START, Looks  # noqa: PLC0415 - as above

    recent, norms, looks, found, before = RecentPoints(), RecentPoints(60), Looks(), list[str](), set[str]()
    for number, (step, loss, rate, norm) in enumerate(reports):
        at = START.timestamp() + _REPORT_S * number
        recent.add((at, step, loss if math.isfinite(loss) else "NaN", rate))
        if norm is not None and math.isfinite(float(norm)):
            norms.add((at, step, float(norm), None))
        document: dict[str, object] = {"recent": [list(point) for point in recent.points]}
        document["metric_points"] = {"grad_norm": [list(point[:3]) for point in norms.points]}
        conditions = looks.look(read_curve(document, Reading(START, str), 0.0), at, reports[-1][0])
        found += [
            f"`{name}` at step {step}: {text}" for name, text in conditions.items() if name not in {*before, "slowdown"}
        ]
        before = set(conditions)
    return found
