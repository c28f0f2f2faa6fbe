"""Limits by hand, ours that are learned, and those of nvidia-resiliency-ext, on the same traces: false alarms, and how
soon a true hang is told of. Nothing here waits: time is in the traces."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bench.sdk import PEERS
from bench.server import CHECKOUT

if TYPE_CHECKING:
    from support.judged_traces import Judged

_NVRX = "nvidia-resiliency-ext 0.4.1, `TimeoutsCalc`"
_SPANS = {
    "step": "a step",
    "checkpointing": "a save",
    "evaluation": "an evaluation",
    "between two steps": "steps alone",
}


def tables(progress: Callable[[str], None]) -> Iterator[str]:
    """One of all traces, and one of each."""
    sys.path.insert(0, str(CHECKOUT / "tests"))
    from bench.timeouts_fixed import FixedLimits  # noqa: PLC0415 - as above
    from support.judged_traces import judge  # noqa: PLC0415 - the tests' own traces
    from support.learned_on_traces import LearnedOnTraces  # noqa: PLC0415 - as above
    from support.step_traces import TRAININGS, trace  # noqa: PLC0415 - as above

    found: dict[str, list[Judged] | str] = {}
    progress("limits by hand")
    found["by hand, the numbers of Megatron's example"] = [judge(trace(each), FixedLimits()) for each in TRAININGS]
    progress("learned limits")
    found["lastbeat, learned"] = [judge(trace(each), LearnedOnTraces()) for each in TRAININGS]
    progress("timeouts of nvidia-resiliency-ext")
    found[_NVRX] = _nvrx()
    steps = sum(each.steps for each in TRAININGS)
    heads = " | ".join(f"hang in {each}" for each in _SPANS.values())
    yield f"| {steps:,} steps of {len(TRAININGS)} runs | false alarms | hangs found | {heads} |"
    yield "|---|---:|---:|" + "---:|" * len(_SPANS)
    for name, judged in found.items():
        yield f"| {name} | {judged if isinstance(judged, str) else _told(judged)} |"
    yield ""
    yield "| false alarms, and the delay of a hang in the middle | " + " | ".join(found) + " |"
    yield "|---|" + "---:|" * len(found)
    for number, training in enumerate(TRAININGS):
        told = [each if isinstance(each, str) else _short(each[number]) for each in found.values()]
        yield f"| {training.name} | " + " | ".join(told) + " |"


def _told(judged: "list[Judged]") -> str:
    from support.judged_traces import Judged  # noqa: PLC0415 - as above

    everything = sum(judged, Judged())
    parts = [f"{len(everything.false_alarms):,}", f"{len(everything.delays):,} of {everything.hangs:,}"]
    for name in _SPANS:
        ours = [each for each in everything.delays if each.name == name]
        parts.append(_delay([each.delay_s for each in ours], [each.delay_s / each.usual_s for each in ours]))
    return " | ".join(parts)


def _delay(seconds: list[float], times: list[float]) -> str:
    if not seconds:
        return ""
    middle_s, usual = statistics.median(seconds), statistics.median(times)
    return f"{middle_s:,.0f} s, {usual:,.0f} times the usual; most {max(seconds):,.0f} s"


def _short(judged: "Judged") -> str:
    delays = [each.delay_s for each in judged.delays]
    return f"{len(judged.false_alarms):,}; {statistics.median(delays):,.0f} s" if delays else "none found"


def _nvrx() -> "list[Judged] | str":
    """What came of each trace, or why there is nothing."""
    from support.judged_traces import Delay, Judged  # noqa: PLC0415 - as above

    python = PEERS / "bin" / "python"
    if not python.exists():
        return "not installed"
    places = os.pathsep.join((str(CHECKOUT / "tests"), str(CHECKOUT)))
    command = [str(python), "-m", "bench.timeouts_nvrx"]
    environment = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"did not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:80]}"
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [Judged(**{**row, "delays": [Delay(*each) for each in row["delays"]]}) for row in rows]
