"""Looking for stragglers: what it costs a step, beside what else people time steps with; and on simulated clusters how
many healthy ranks it flags, and how soon it names a slow one. There nothing waits: time is in the traces."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.sdk import PEERS
from bench.server import CHECKOUT
from lastbeat.model.straggler_lines import report_lines
from lastbeat.model.stragglers import Detector, RankWindow, scores

_STEP_S = 0.02
_SECONDS = 9.0
_WAYS = {
    "lastbeat": '`run.section("compute")` and `run.step` with three metrics, without the search for stragglers',
    "stragglers": "the same with `stragglers=True`",
    "watched": "the same with `watch_steps(run)`, and a wait for a collective that is over",
    "torchtitan": "timers as TorchTitan has them: two readings of the clock, a mean in the log each ten steps",
    "nvrx": "nvidia-resiliency-ext 0.4.1 `Detector.detection_section`, without CUPTI, which needs a GPU",
}
_OURS = {"lastbeat", "stragglers", "torchtitan"}
_DAYS, _DELAYS, _RANKS, _ONSET = 7, 20, 512, 3
_THRESHOLD = 0.7
_LOOKED_FOR = 12
"""Windows after a rank became slow."""


def tables(progress: Callable[[str], None]) -> Iterator[str]:
    """Cost, then what is found."""
    yield "| a step, median | tight loop | of 20 ms | after 20 ms of work | of such a step | after a sleep of 20 ms |"
    yield "|---|---:|---:|---:|---:|---:|"
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
        for way, name in _WAYS.items():
            progress(f"steps: {way}")
            found = _child(way, Path(folder))
            if isinstance(found, str):
                yield f"| {name} | {found} | | | | |"
                continue
            tight, later, slept = (found[key] * 1e6 for key in ("tight", "after_work", "after_sleep"))
            first, second = (f"{each / _STEP_S / 1e4:.3f} %" for each in (tight, later))
            yield f"| {name} | {tight:.2f} µs | {first} | {later:.1f} µs | {second} | {slept:.1f} µs |"
    yield ""
    yield from _found(progress)


def _child(way: str, folder: Path) -> Mapping[str, float] | str:
    """What the child measured, or why it could not."""
    python = sys.executable if way in _OURS else str(PEERS / "bin" / "python")
    if not Path(python).exists():
        return "not installed"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    told = {
        "MONITORING_ROOT": str(folder / "runs"),
        "LASTBEAT_BEAT_SECONDS": "1",
        "LASTBEAT_STRAGGLERS": "off,seconds:2",
    }
    places = os.pathsep.join((str(CHECKOUT / "core"), str(CHECKOUT)))
    command = [python, "-m", "bench.stragglers_child", way, str(folder), str(_SECONDS)]
    environment = {**kept, **told, "PYTHONPATH": places}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found: Mapping[str, float] = json.loads(line)
            return found
    return f"did not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:80]}"


def _found(progress: Callable[[str], None]) -> Iterator[str]:
    sys.path.insert(0, str(CHECKOUT / "tests"))
    from support.straggler_traces import windows  # noqa: PLC0415 - the tests' own traces

    progress(f"{_DAYS} simulated days")
    ours, alone, reports, spent = 0, 0, 0, list[float]()
    for day in range(_DAYS):
        detector = Detector()
        for each in windows(_RANKS, 288, 1000 + day):
            began = time.perf_counter()
            detector, report = detector.judge(each, _RANKS)
            list(report_lines(report, 5, 0.0))
            spent.append(time.perf_counter() - began)
            reports += 1
            ours += len(report.stragglers) + (report.slow is not None)
            alone += len(_below(each))
    yield f"| {reports:,} reports of {_RANKS} healthy ranks, {_DAYS} days | false flags |"
    yield "|---|---:|"
    yield f"| lastbeat | {ours} |"
    yield f"| a score below {_THRESHOLD}, as nvidia-resiliency-ext flags | {alone} |"
    yield ""
    yield f"To compare {_RANKS} ranks took {statistics.median(spent) * 1e3:.1f} ms, in rank 0's beat thread."
    yield ""
    yield f"| one of {_RANKS} ranks becomes | named after reports, median | most | never | a score below {_THRESHOLD} |"
    yield "|---|---:|---:|---:|---:|"
    slow: dict[str, Callable[[int], float]] = {
        "15 % slower": lambda _since: 1.15,
        "20 % slower": lambda _since: 1.2,
        "twice as slow": lambda _since: 2.0,
        "5 % more with each window": lambda since: 1 + 0.05 * since,
    }
    for name, times in slow.items():
        progress(f"delays: {name}")
        named, below = list[int | None](), list[int | None]()
        for seed in range(_DELAYS):
            who = (seed * 97) % _RANKS
            trace = windows(
                _RANKS,
                _ONSET + _LOOKED_FOR,
                seed,
                lambda rank, window, who=who, times=times: (
                    times(window - _ONSET + 1)  # type: ignore[misc]
                    if rank == who and window >= _ONSET
                    else 1.0
                ),
            )
            mine, other = _delays(trace, who)
            named.append(mine)
            below.append(other)
        yield f"| {name} | {_told(named)} | {_few(below)} |"


def _delays(trace: Iterator[list[RankWindow]], who: int) -> tuple[int | None, int | None]:
    """After how many reports ``who`` is named, and after how many its score is below the threshold."""
    detector, named, below = Detector(), None, None
    for number, each in enumerate(trace, 1 - _ONSET):
        detector, report = detector.judge(each, _RANKS)
        if named is None and any(one.rank == who for one in report.stragglers):
            named = number
        if below is None and who in _below(each):
            below = number
    return named, below


def _below(windows: list[RankWindow]) -> set[int]:
    found = scores(windows)
    return {
        rank for scored in (found.relative, found.individual) for rank, score in scored.items() if score < _THRESHOLD
    }


def _told(delays: list[int | None]) -> str:
    known = [each for each in delays if each is not None]
    never = len(delays) - len(known)
    return f"{statistics.median(known):g} | {max(known)} | {never} of {len(delays)}" if known else f" | | {never}"


def _few(delays: list[int | None]) -> str:
    known = [each for each in delays if each is not None]
    never = len(delays) - len(known)
    after = f"{statistics.median(known):g}" if known else ""
    return after if not never else f"{after}{', ' if after else ''}never {never} of {len(delays)}"
