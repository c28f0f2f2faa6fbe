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

Scored = list[dict[str, list[float] | list[int]]]
"""Scores and flags of ranks, of each window."""

RANKS, WINDOWS = 4, 8
SLOW = range(WINDOWS // 2, WINDOWS)


def recorded(slowed: Callable[[int, int], float], seed: int = 5) -> list[list[float]]:
    """Medians of windows of each rank, which differ by some per cent."""
    draw = random.Random(seed)
    return [
        [0.4 * draw.uniform(0.98, 1.02) * slowed(rank, window) for rank in range(RANKS)] for window in range(WINDOWS)
    ]


def ours(trace: list[list[float]]) -> Scored:
    found, best = Scored(), trace[0]
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


SAME = {
    "nobody is slow": lambda _rank, _window: 1.0,
    "one is slow from the start": lambda rank, _window: 1.6 if rank == 2 else 1.0,
    "one becomes slow": lambda rank, window: 1.8 if rank == 3 and window in SLOW else 1.0,
    "two of four are slow": lambda rank, _window: 2.0 if rank > 1 else 1.0,
}
TRACES = {
    **{name: recorded(slowed) for name, slowed in SAME.items()},
    "one is 20 per cent slow": [
        [0.4, each[1], 0.401, 0.399] for each in recorded(lambda rank, _window: 1.25 if rank == 1 else 1.0)
    ],
    "all become slow": recorded(lambda _rank, window: 1.8 if window in SLOW else 1.0),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    """What the extension says of each trace; four ranks that load it say it of all of them."""
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "traces.json").write_text(json.dumps(TRACES), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    paths = (str(ROOT / "core"), *(str(Path(each).parent) for each in sys.modules["nvidia_resiliency_ext"].__path__))
    command = [*launcher, str(SCRIPTS / "nvrx_scores.py"), str(folder / "traces.json")]
    trained = train(folder, command, {"PYTHONPATH": os.pathsep.join(paths)})
    assert trained.status == 0, trained.output
    found: dict[str, Scored] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", SAME)
def test_the_same_scores_and_the_same_flags(name: str, theirs: dict[str, Scored]) -> None:
    for mine, other in zip(ours(TRACES[name]), theirs[name], strict=True):
        for kind in ("relative", "individual"):
            assert mine[kind] == pytest.approx(other[kind], abs=1e-5)
        assert (mine["worse"], mine["dropped"]) == (other["worse"], other["dropped"])


def test_a_rank_that_is_20_per_cent_slow_is_flagged_here_alone(theirs: dict[str, Scored]) -> None:
    name = "one is 20 per cent slow"
    assert all(each["worse"] == [1] for each in ours(TRACES[name]))
    assert all(each["worse"] == [] for each in theirs[name])


def test_all_slow_together_are_flagged_there_and_here_the_job_is_slow(theirs: dict[str, Scored]) -> None:
    name = "all become slow"
    assert all(each["dropped"] == [] for each in ours(TRACES[name]))
    assert theirs[name][-1]["dropped"] == [0, 1, 2, 3]
