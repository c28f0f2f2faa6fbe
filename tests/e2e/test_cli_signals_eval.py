"""``lastbeat signals eval``: a catalogue scored on labelled logs."""

import json
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


def test_programs_get_one_object(corpus: Path) -> None:
    told = json.loads(call(LASTBEAT, "signals", "eval", "corpus", "--json", cwd=corpus.parent).stdout)
    assert told["groups"]["all failures"] == {"logs": 2, "right": 1, "accepted": 1, "near": 1}
    assert [row["id"] for row in told["wrong"]] == ["wrong"]
    assert told["any_match"]["misread"] == ["healthy"]


BAD = [
    pytest.param('{"id": "a"}\n[]\n', "index.jsonl:2: it is no JSON object", id="rows that are wrong"),
    pytest.param("\xff", "is not UTF-8 text", id="no text"),
    pytest.param(json.dumps(ROWS[0] | {"file": "no.log"}), "no.log: No such file", id="a log that is not there"),
    pytest.param(None, "DIR needs index.jsonl", id="no index"),
]


@pytest.mark.parametrize(("index", "fault"), BAD)
def test_an_index_that_cannot_be_used_is_refused(corpus: Path, index: str | None, fault: str) -> None:
    (corpus / "index.jsonl").unlink()
    if index is not None:
        (corpus / "index.jsonl").write_bytes(index.encode("latin-1"))
    done = call(LASTBEAT, "signals", "eval", "corpus", cwd=corpus.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert fault in done.stderr
    assert "Traceback" not in done.stderr
