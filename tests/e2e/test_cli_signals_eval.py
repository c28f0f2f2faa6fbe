"""``lastbeat signals eval``: a catalogue scored on labelled logs."""

import json
import os
import re
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
LOGS = {
    "a.log": f"step 1/9 loss 2.5\nstep 2/9 loss 2.5\n\nTraceback (most recent call last):\n{OOM}\n",
    "b.log": "step 1/9 loss 2.5\nKeyError: 'x'\n",
    "c.log": f"step 1/9 loss 2.5\nRetrying after {OOM}\nstep 2/9 loss 2.5\nstep 3/9 loss 2.4\nstep 4/9 loss 2.4\n",
}
ROWS: list[dict[str, object]] = [
    {"id": "right", "file": "a.log", "label": "oom", "first_cause_lineno": 5, "provenance": "local_run"},
    {"id": "wrong", "file": "a.log", "label": "nccl", "first_cause_lineno": 1, "cascade": True},
    {"id": "healthy", "file": "c.log", "label": "none"},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, text in LOGS.items():
        (folder / name).write_text(text)
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return folder


def test_people_get_a_table_and_what_went_wrong(corpus: Path) -> None:
    done = call(LASTBEAT, "signals", "eval", "corpus", cwd=corpus.parent)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["oom"][1:5] == ["1", "1", "(100%)", "1"]
    assert rows["all failures"][2:5] == ["2", "1", "(50%)"]
    assert "  nccl → oom: wrong" in done.stdout
    assert "  wrong: line 1 → 5" in done.stdout
    assert "Healthy logs misread: 0 of 1; by any match 1 of 1" in done.stdout


def other_corpus(corpus: Path, name: str, *rows: dict[str, object]) -> Path:
    """A folder beside ``corpus`` with the same logs."""
    folder = corpus.parent / name
    folder.mkdir()
    for log, text in LOGS.items():
        (folder / log).write_text(text)
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_several_folders_are_scored_each_by_itself_and_all_together(corpus: Path) -> None:
    told: dict[str, object] = {"file": "d.log", "label": "oom", "first_cause_lineno": 1, "provenance": "public"}
    other = other_corpus(
        corpus, "other", {"id": "right", **told}, {"id": "no failure", "file": "e.log", "label": "none"}
    )
    (other / "d.log").write_text(f"Traceback (most recent call last):\n{OOM} Really.\n")
    (other / "e.log").write_text("step 1/9 loss 2.5\n")
    done = call(LASTBEAT, "signals", "eval", "corpus", "other", cwd=corpus.parent)
    assert (done.returncode, done.stderr) == (0, "")
    blocks = done.stdout.split("Catalogue default on the ")
    assert [block.splitlines()[0] for block in blocks[1:]] == ["3 logs of corpus", "2 logs of other"]
    assert "All 5 logs of 2 folders" in blocks[2]
    failures = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("all failures")]
    assert failures == ["2", "1", "3"]
    found = json.loads(call(LASTBEAT, "signals", "eval", "corpus", "other", "--json", cwd=corpus.parent).stdout)
    assert [(each["folder"], each["logs"]) for each in found["folders"]] == [("corpus", 3), ("other", 2)]
    assert found["groups"]["all failures"] == {"logs": 3, "right": 2, "accepted": 2, "near": 2}
    assert found["groups"]["public"] == {"logs": 1, "right": 1, "accepted": 1, "near": 1}
    assert (found["logs"], found["healthy"], found["notes"]) == (5, 2, [])


def test_each_repository_as_if_nobody_had_seen_it_and_the_rules_that_only_one_needs(corpus: Path) -> None:
    rows = [{**row, "id": f"{row['id']}-{name}", "source": f"acme/{name}"} for name in "ab" for row in ROWS[::2]]
    own = other_corpus(corpus, "other", *rows, {**ROWS[0], "id": "own", "file": "d.log", "source": "acme/c"})
    (own / "d.log").write_text("step 1/9 loss 2.5\n\n\n\nOSError: [Errno 28] No space left on device\n")
    done = call(LASTBEAT, "signals", "eval", "other", "--unseen", "--rules", cwd=corpus.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "By repository (3)" in done.stdout
    assert re.search(r"^healthy, not misread +2 of 2 \(\d+-100%\) +2 of 2 \(\d+-100%\)$", done.stdout, re.MULTILINE)
    listed = re.findall(r"^(\w+) +(\d+) logs? of (\d+) repositor(?:y|ies) ", done.stdout, re.MULTILINE)
    assert listed == [("no_space", "1", "1"), ("cuda_out_of_memory", "2", "2")]
    told = json.loads(
        call(LASTBEAT, "signals", "eval", "other", "--unseen", "--rules", "--json", cwd=corpus.parent).stdout
    )
    assert told["unseen"]["right type"]["all_signals"]["count"] == 3
    assert told["rules"][0]["repositories"] == ["acme/c"]


TWICE = [
    pytest.param(["corpus", "corpus"], "corpus counts once", id="named twice"),
    pytest.param(
        ["corpus", "copy"],
        "the 3 logs of copy are in corpus too, byte by byte, and count once",
        id="another folder with the same logs",
    ),
    pytest.param(
        ["corpus", "relabelled"],
        "relabelled labels some of them otherwise, which counts for nothing: a (oom there, nccl here)",
        id="the same log with another label",
    ),
]


@pytest.mark.parametrize(("named", "note"), TWICE)
def test_the_same_logs_count_once(corpus: Path, named: list[str], note: str) -> None:
    (corpus.parent / "link").symlink_to(corpus)
    other_corpus(corpus, "other", ROWS[0])
    other_corpus(corpus, "copy", *ROWS)
    other_corpus(corpus, "relabelled", ROWS[0] | {"id": "a", "label": "nccl"})
    done = call(LASTBEAT, "signals", "eval", *named, cwd=corpus.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Note: {note}" in done.stdout.splitlines()
    found = json.loads(call(LASTBEAT, "signals", "eval", *named, "--json", cwd=corpus.parent).stdout)
    assert (found["logs"], found["groups"]["all failures"]["logs"]) == (3, 2)
    assert note in found["notes"]


def test_a_folder_that_cannot_be_read_keeps_no_other_from_being_scored(corpus: Path) -> None:
    done = call(LASTBEAT, "signals", "eval", "gone", "corpus", cwd=corpus.parent)
    assert done.returncode == 3
    assert "Catalogue default on the 3 logs of corpus" in done.stdout
    assert "Note: gone could not be read, so its logs count nowhere" in done.stdout
    assert "gone/index.jsonl: No such file or directory; DIR needs index.jsonl" in done.stderr


BAD = [
    pytest.param('{"id": "a"}\n[]\n', "index.jsonl:2: it is no JSON object", id="rows that are wrong"),
    pytest.param(json.dumps(ROWS[0] | {"file": "no.log"}), "no.log: No such file", id="a log that is not there"),
    pytest.param(json.dumps(ROWS[0] | {"file": "pipe"}), "pipe is no file", id="a log that is a pipe"),
    pytest.param(None, "DIR needs index.jsonl", id="no index"),
]


def test_of_many_faults_some_are_told_and_the_rest_is_counted(corpus: Path) -> None:
    rows = [{**ROWS[0], "id": str(number), "file": f"gone-{number}.log"} for number in range(25)]
    (corpus / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call(LASTBEAT, "signals", "eval", "corpus", cwd=corpus.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert ("gone-19.log" in done.stderr, "gone-20.log" in done.stderr, "and 5 more" in done.stderr) == (
        True,
        False,
        True,
    )


@pytest.mark.parametrize(("index", "fault"), BAD)
def test_an_index_that_cannot_be_used_is_refused(corpus: Path, index: str | None, fault: str) -> None:
    (corpus / "index.jsonl").unlink()
    os.mkfifo(corpus / "pipe")
    if index is not None:
        (corpus / "index.jsonl").write_bytes(index.encode("latin-1"))
    done = call(LASTBEAT, "signals", "eval", "corpus", cwd=corpus.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert fault in done.stderr
    assert "Traceback" not in done.stderr
