"""Dumps of gloo's own flight recorder, of ranks that get stuck in each way: the odd rank is named."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import LIMIT_S, SCRIPTS
from lastbeat.watch.observe.flight_recorders import read_dumps
from lastbeat.watch.observe.local_dumps import below
from support.row_by_row import check_each
from support.there import there

ODD = 2
STUCK = "all_reduce #7 of group default_pg (0): rank 2"
SAYS = {
    "sleeps": f"{STUCK} never joined; ranks 0-1, 3 wait since",
    "leaves": f"{STUCK} never joined; ranks 0-1, 3 wait since",
    "leaves_one_out": f"{STUCK} joined broadcast #7 [8] Float instead; ranks",
    "another_order": f"{STUCK} joined broadcast #7 [8] Float instead; ranks",
    "other_sizes": f"{STUCK} joined with other sizes ([32] Float); ranks",
    "other_types": f"{STUCK} joined with other types ([64] Half); ranks",
    "sleeps_in_a_pair": f"{STUCK} never joined; rank 3 joined all_reduce #1 [64] Float of tp (1) instead; ranks",
}
# Gloo names neither the members of its groups nor what has completed, and torch's analyzer takes NCCL's dumps alone.
ANALYZES = """\
import pickle, sys
from pathlib import Path
from torch.distributed.flight_recorder import fr_trace
groups = {"0": ("default_pg", "[0, 1, 2, 3]"), "1": ("tp", "[2, 3]")}
for way in sys.argv[2:]:
    folder = Path(sys.argv[1], way)
    target = folder / "nccl"
    target.mkdir()
    for path in folder.glob("rank_*"):
        dump = pickle.loads(path.read_bytes())
        dump["version"] = "2.9"
        dump["pg_config"] = {
            name: {"name": name, "desc": about, "ranks": ranks} for name, (about, ranks) in groups.items()
        }
        for entry in dump["entries"]:
            entry["profiling_name"] = entry["profiling_name"].replace("gloo", "nccl")
            entry["state"] = "completed" if entry["retired"] else "scheduled"
        (target / path.name).write_bytes(pickle.dumps(dump, 2))
    print(f"way {way}", flush=True)
    fr_trace.main(["-p", "rank_", str(target)])
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flight")
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "flight_recorder.py"), str(folder)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def test_the_odd_rank_is_named_from_pickles_and_from_json(dumps: Path) -> None:
    def is_named(way: str, sentence: str) -> None:
        for form in ("rank_*", "trace_*"):
            names = [path.name for path in (dumps / way).iterdir()]
            found = read_dumps(below(dumps / way, names, [form]))
            assert (found.number, found.notes) == (4, ())
            stuck = there(found.stuck)
            assert stuck.root == ODD
            assert stuck.sentence.startswith(sentence), stuck.sentence
            if form == "rank_*":
                assert "rank 2 was last at flight_recorder.py:" in stuck.places

    check_each(((way, (way, says)) for way, says in SAYS.items()), is_named)


def test_explain_says_so_of_their_folder(dumps: Path) -> None:
    command = [sys.executable, "-m", "lastbeat_cli", "explain", str(dumps / "sleeps"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    cause = json.loads(done.stdout)["cause"]
    assert (cause["error_type"], cause["evidence"]["rank"]) == ("hang", ODD)


def test_torchs_own_analyzer_names_the_same_rank(dumps: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ANALYZES, str(dumps), *SAYS],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for told in done.stdout.split("way ")[1:]:
        # States only say whose dump was written before it saw the end of a collective.
        culprit = r"Culprit rank (\d+); Error type: (?!COLLECTIVE_STATE_MISMATCH)"
        named = re.findall(rf"{culprit}|missing ranks: {{([\d, ]+)}}", told)
        ranks = {int(rank) for found in named for each in found if each for rank in each.split(", ")}
        # In the pair's case it names rank 3 too, which waits for rank 2.
        assert ranks == ({2, 3} if told.startswith("sleeps_in_a_pair") else {ODD}), told
