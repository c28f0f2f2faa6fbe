"""``signals`` as users run it: what is looked for, signals of their own tried on a log, and catalogues scored."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, call

LOG = """\
[rank0]: step 1 loss 2.5
[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of \
79.15 GiB of which 1.36 GiB is free.
\x1b[31m[rank3]: seat denied for solver\x1b[0m
"""
OWN = """\
error_types:
  licence: {restartable: true, meaning: No seat is left., hint: lmstat -a}
signals:
  seat_denied:
    pattern: 'seat denied for (?P<product>\\w{1,40})'
    error_type: licence
    severity: critical
    hint: 'No seat for {product}: lmstat -a shows who holds them.'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    said = call(LASTBEAT, "signals", *arguments, cwd=folder, **settings)
    assert "Traceback" not in said.stderr
    return said


def read(folder: Path, *arguments: str, **settings: str) -> Any:
    said = run(folder, *arguments, "--json", **settings)
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("\n") == 1
    return json.loads(said.stdout)


def test_everything_that_is_looked_for_is_listed(folder: Path) -> None:
    said = run(folder, "list")
    assert said.returncode == 0, said.stderr
    first, empty, head, *rows = said.stdout.splitlines()
    assert first.startswith("Catalogue default: ")
    assert (empty, head.split()) == ("", ["signal", "means", "severity", "role", "catalogue"])
    assert any(row.split()[:2] == ["cuda_out_of_memory", "oom"] and row.endswith("  cuda") for row in rows)
    listed = read(folder, "list", "--signals", "megatron_basic")
    assert listed["catalogue"] == "megatron_basic"
    assert "megatron_iteration" in {each["name"] for each in listed["signals"]}
    assert len(rows) > len(listed["signals"])
    assert "megatron_production" in read(folder, "list", "--catalogues")["catalogues"]
    assert "Recommended for Megatron" in run(folder, "list", "--catalogues").stdout


def test_the_setting_says_which_catalogue_is_meant(folder: Path) -> None:
    listed = read(folder, "list", LASTBEAT_SIGNALS="own.yaml")
    assert listed["signals"][0]["name"] == "seat_denied"
    assert listed["signals"][0]["catalogue"] == "own.yaml"


def test_a_signal_is_shown(folder: Path) -> None:
    shown = read(folder, "show", "seat_denied", "--signals", "own.yaml")["signal"]
    assert shown["extract"] == {"product": "product"}
    assert shown["error_type"] == "licence"
    people = run(folder, "show", "seat_denied", "--signals", "own.yaml").stdout
    for words in ("seat denied for", "own.yaml", "licence: No seat is left.", "yes, it may well", "lmstat -a"):
        assert words in people


def test_an_error_type_is_shown_with_its_signals(folder: Path) -> None:
    shown = read(folder, "show", "oom")["error_type"]
    assert shown["restartable"] is False
    assert "cuda_out_of_memory" in shown["signals"]
    assert "no, not before something changed" in run(folder, "show", "oom").stdout


def test_a_catalogue_is_shown_with_its_limits(folder: Path) -> None:
    shown = read(folder, "show", "megatron_production")["catalogue"]
    assert shown["limits"] == {"inactivity_s": 1200, "inactivity_check_s": 120, "poll_s": 180}
    assert "base" in shown["extends"]


def test_what_a_log_matches(folder: Path) -> None:
    found = read(folder, "test", "train.log", "--signals", "own.yaml")
    assert found["lines"] == 3
    matches = {each["name"]: each for each in found["signals"]}
    assert matches["seat_denied"]["matches"] == [{"line": 3, "text": "[rank3]: seat denied for solver"}]
    assert matches["seat_denied"]["hint"] == "No seat for solver: lmstat -a shows who holds them."
    assert matches["cuda_out_of_memory"]["count"] == 1
    assert "2.00 GiB" in matches["cuda_out_of_memory"]["hint"]


def test_what_is_piped_in_is_read_as_well(folder: Path) -> None:
    command = f"cat train.log | {' '.join(LASTBEAT)} signals test - --signals own.yaml --only seat_denied"
    said = call(["sh", "-c", command], cwd=folder)
    assert said.returncode == 0, said.stderr
    assert "  3: [rank3]: seat denied for solver" in said.stdout
    assert "cuda_out_of_memory" not in said.stdout


def test_a_file_of_ones_own_is_checked(folder: Path) -> None:
    for arguments in (("check", "own.yaml"), ("test", "own.yaml")):
        said = run(folder, *arguments)
        assert said.returncode == 0, said.stderr
        assert "own.yaml can be used" in said.stdout
    assert read(folder, "check", "own.yaml")["own"] == ["seat_denied"]
    (folder / "own.yaml").write_text("signals:\n  s:\n    pattern: '(a+)+$'\n  t: {pattern: x, sevrity: 1}\n")
    said = run(folder, "check", "own.yaml")
    assert said.returncode == 3
    assert "own.yaml:3: signals.s.pattern: " in said.stderr
    assert "own.yaml:4: signals.t: unknown key 'sevrity' (did you mean 'severity'?)" in said.stderr


def test_an_absence_rule_is_no_signal_besides(folder: Path) -> None:
    rule = "absences:\n  saved: {pattern: 'saved at step', within_s: 600, every_s: 300}\n"
    (folder / "own.yaml").write_text(OWN + rule)
    plain = read(folder, "check", "own.yaml")
    assert (plain["own"], plain["absences"]) == (["seat_denied"], 1)
    assert run(folder, "check", "own.yaml").stdout.endswith("1 of them its own, 1 absence rule\n")
    (folder / "own.yaml").write_text(OWN)
    assert read(folder, "check", "own.yaml")["signals"] == plain["signals"]


MONITORS = ROOT / "tests" / "monitors"


def test_a_launchers_monitor_is_taken_over_and_used(folder: Path) -> None:
    """From its file to the lines of a log that it finds."""
    said = run(folder, "import", str(MONITORS / "log_signals.yaml"), "-o", "taken.yaml")
    assert (said.returncode, said.stdout) == (0, "")
    assert "log_signals.yaml:8: log_path_template: name logs with --log" in said.stderr
    assert "taken.yaml can be used" in run(folder, "check", "taken.yaml").stdout
    assert read(folder, "check", "taken.yaml")["own"][:2] == ["termination_string", "test_loss"]
    found = read(folder, "test", "train.log", "--signals", "taken.yaml", "--only", "oom")
    assert [each["matches"][0]["line"] for each in found["signals"]] == [2]


def test_without_a_place_for_it_the_catalogue_goes_to_stdout(folder: Path) -> None:
    said = run(folder, "import", str(MONITORS / "job.yaml"))
    assert said.returncode == 0
    assert said.stdout.startswith("# Taken over from job.yaml")
    assert "job.yaml: it also makes a restart policy, with 3 reactions under on:; --policy-out PATH writes it" in (
        said.stderr
    )
    (folder / "taken.yaml").write_text(said.stdout, encoding="utf-8")
    assert run(folder, "check", "taken.yaml").returncode == 0


EXPERIMENT = """\
defaults:
  - /monitoring: megatron_production
  - /restart: megatron_transient
monitoring:
  log_events:
    - name: seat_denied
      pattern: seat denied
      pattern_type: substring
      actions:
        - {class_name: ErrorNoteAction, note: 'no seat for {run_id}'}
        - {class_name: TerminationAction}
"""


def test_a_configuration_of_hydras_is_taken_over_and_used(folder: Path) -> None:
    """As a catalogue and a policy: the one knows the signals that the other reacts to."""
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    said = run(folder, "import", "experiment.yaml", "-o", "taken.yaml", "--policy-out", "restarts.yaml")
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    assert read(folder, "list", "--signals", "taken.yaml")["signals"][0]["name"] == "seat_denied"
    checked = call(LASTBEAT, "policy", "check", "restarts.yaml", cwd=folder, LASTBEAT_SIGNALS="taken.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "on seat_denied: note: no seat for {run_id}\n  on seat_denied: stop the job" in checked.stdout


def test_a_restart_policy_alone_goes_to_stdout(folder: Path) -> None:
    (folder / "theirs.yaml").write_text("class_name: AlwaysRestartPolicy\nmax_retries: 2\nreason: again\n")
    said = run(folder, "import", "theirs.yaml")
    assert said.returncode == 0
    assert "theirs.yaml:3: reason: left out; lastbeat says why in its own words" in said.stderr
    (folder / "restarts.yaml").write_text(said.stdout)
    assert call(LASTBEAT, "policy", "check", "restarts.yaml", cwd=folder).returncode == 0
    # And by itself.
    (folder / "top.yaml").write_text("class_name: AlwaysRestartPolicy\nmax_retries: 2\n")
    assert call(LASTBEAT, "policy", "check", "top.yaml", cwd=folder).returncode == 0


NO_MONITORS = [
    pytest.param(("none.yaml",), "none.yaml cannot be read: No such file", id="a file that is not there"),
    pytest.param(("own.yaml",), "own.yaml: neither it nor monitoring", id="a catalogue already"),
    pytest.param(("monitor.yaml", "-o", "monitor.yaml"), "is the file that is taken over", id="onto itself"),
    pytest.param(("theirs.yaml", "-o", "x.yaml"), "use --policy-out in place of --out", id="a policy as signals"),
    pytest.param(("monitor.yaml", "--policy-out", "x.yaml"), "leave --policy-out out", id="signals as a policy"),
    pytest.param(("both.yaml", "-o", "x", "--policy-out", "./x"), "x cannot be both files", id="both onto one"),
    pytest.param(("bad.yaml",), "bad.yaml:2: unknown key 'max_retry' (did you mean 'max_retries'?)", id="a bad policy"),
]


@pytest.mark.parametrize(("arguments", "message"), NO_MONITORS)
def test_what_cannot_be_taken_over_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe")
    (folder / "monitor.yaml").write_text("log_events: [{name: s, pattern: x}]")
    (folder / "theirs.yaml").write_text("class_name: AlwaysRestartPolicy")
    (folder / "bad.yaml").write_text("class_name: AlwaysRestartPolicy\nmax_retry: 2\n")
    (folder / "both.yaml").write_text(EXPERIMENT)
    said = run(folder, "import", *arguments)
    assert said.returncode == 3
    assert message in said.stderr
    assert (folder / "monitor.yaml").read_text() == "log_events: [{name: s, pattern: x}]"


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
LABELLED = {
    "a.log": f"step 1/9 loss 2.5\nstep 2/9 loss 2.5\n\nTraceback (most recent call last):\n{OOM}\n",
    "b.log": "step 1/9 loss 2.5\nKeyError: 'x'\n",
    "c.log": f"step 1/9 loss 2.5\nRetrying after {OOM}\nstep 2/9 loss 2.5\nstep 3/9 loss 2.4\nstep 4/9 loss 2.4\n",
}
ROWS: list[dict[str, object]] = [
    {"id": "right", "file": "a.log", "label": "oom", "first_cause_lineno": 5, "provenance": "local_run"},
    {"id": "wrong", "file": "a.log", "label": "nccl", "first_cause_lineno": 1, "cascade": True},
    {"id": "healthy", "file": "c.log", "label": "none"},
]


def labelled(folder: Path, *rows: Mapping[str, object]) -> Path:
    """A folder with the labelled logs, whose index has ``rows``."""
    folder.mkdir()
    for log, text in LABELLED.items():
        (folder / log).write_text(text)
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return labelled(tmp_path / "corpus", *ROWS)


def test_people_get_a_table_and_what_went_wrong(corpus: Path) -> None:
    done = call(LASTBEAT, "signals", "eval", "corpus", cwd=corpus.parent)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["oom"][1:5] == ["1", "1", "(100%)", "1"]
    assert rows["all failures"][2:5] == ["2", "1", "(50%)"]
    assert "  nccl → oom: wrong" in done.stdout
    assert "  wrong: line 1 → 5" in done.stdout
    assert "Healthy logs misread: 0 of 1; by any match 1 of 1" in done.stdout


def test_several_folders_are_scored_each_by_itself_and_all_together(corpus: Path) -> None:
    told: dict[str, object] = {"file": "d.log", "label": "oom", "first_cause_lineno": 1, "provenance": "public"}
    other = labelled(
        corpus.parent / "other", {"id": "right", **told}, {"id": "no failure", "file": "e.log", "label": "none"}
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
    own = labelled(corpus.parent / "other", *rows, {**ROWS[0], "id": "own", "file": "d.log", "source": "acme/c"})
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
    labelled(corpus.parent / "other", ROWS[0])
    labelled(corpus.parent / "copy", *ROWS)
    labelled(corpus.parent / "relabelled", ROWS[0] | {"id": "a", "label": "nccl"})
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
