"""Our scores and flags beside those of NVIDIA's resiliency extension, on the same recorded step times."""

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")
pytest.importorskip("nvidia_resiliency_ext", reason="nvidia-resiliency-ext is not installed: see .ci/run")

from frameworks.trained import ROOT, SCRIPTS, train
from lastbeat.model.stragglers import RankWindow, flags, scores

RANKS, WINDOWS = 4, 8
SLOW = range(WINDOWS // 2, WINDOWS)


def recorded(slowed: Callable[[int, int], float], seed: int = 5) -> list[list[float]]:
    """Medians of windows of each rank, which differ by some per cent."""
    draw = random.Random(seed)
    return [
        [0.4 * draw.uniform(0.98, 1.02) * slowed(rank, window) for rank in range(RANKS)] for window in range(WINDOWS)
    ]


def ours(trace: list[list[float]]) -> list[dict[str, list[float] | list[int]]]:
    found, best = list[dict[str, list[float] | list[int]]](), trace[0]
    for number, times in enumerate(trace, 1):
        best = [min(each) for each in zip(best, times, strict=True)]
        windows = [
            RankWindow(rank, number, 100, max(times), own_s, max(times), best[rank]) for rank, own_s in enumerate(times)
        ]
        scored, flagged = scores(windows), flags(windows)
        found.append(
            {
                "relative": [scored.relative[rank] for rank in range(RANKS)],
                "individual": [scored.individual[rank] for rank in range(RANKS)],
                "worse": sorted(flagged.relative),
                "dropped": sorted(flagged.individual),
            }
        )
    return found


def theirs(folder: Path, trace: list[list[float]]) -> list[dict[str, list[float] | list[int]]]:
    (folder / "trace.json").write_text(json.dumps(trace), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    paths = (str(ROOT / "core"), *(str(Path(each).parent) for each in sys.modules["nvidia_resiliency_ext"].__path__))
    command = [*launcher, str(SCRIPTS / "nvrx_scores.py"), str(folder / "trace.json")]
    trained = train(folder, command, {"PYTHONPATH": os.pathsep.join(paths)})
    assert trained.status == 0, trained.output
    found: list[dict[str, list[float] | list[int]]] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return found


SAME = [
    pytest.param(lambda _rank, _window: 1.0, id="nobody is slow"),
    pytest.param(lambda rank, _window: 1.6 if rank == 2 else 1.0, id="one is slow from the start"),
    pytest.param(lambda rank, window: 1.8 if rank == 3 and window in SLOW else 1.0, id="one becomes slow"),
    pytest.param(lambda rank, _window: 2.0 if rank > 1 else 1.0, id="two of four are slow"),
]


@pytest.mark.parametrize("slowed", SAME)
def test_the_same_scores_and_the_same_flags(slowed: Callable[[int, int], float], tmp_path: Path) -> None:
    trace = recorded(slowed)
    for mine, other in zip(ours(trace), theirs(tmp_path, trace), strict=True):
        for name in ("relative", "individual"):
            assert mine[name] == pytest.approx(other[name], abs=1e-5)
        assert (mine["worse"], mine["dropped"]) == (other["worse"], other["dropped"])


def test_a_rank_that_is_20_per_cent_slow_is_flagged_here_alone(tmp_path: Path) -> None:
    trace = recorded(lambda rank, _window: 1.25 if rank == 1 else 1.0)
    trace = [[0.4, each[1], 0.401, 0.399] for each in trace]
    assert all(each["worse"] == [1] for each in ours(trace))
    assert all(each["worse"] == [] for each in theirs(tmp_path, trace))


def test_all_slow_together_are_flagged_there_and_here_the_job_is_slow(tmp_path: Path) -> None:
    trace = recorded(lambda _rank, window: 1.8 if window in SLOW else 1.0)
    assert all(each["dropped"] == [] for each in ours(trace))
    assert theirs(tmp_path, trace)[-1]["dropped"] == [0, 1, 2, 3]
