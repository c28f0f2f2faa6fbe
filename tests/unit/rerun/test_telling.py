"""What a training with an open run tells of its verdicts: in metadata.json, as an alert, and in its last words."""

import json
import math
import platform
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastbeat
from lastbeat.model.rerun import MOST_FINDINGS, RerunFinding, RerunReport, RerunVerdict, read_rerun
from lastbeat.rerun import RerunStateMachine
from lastbeat.rerun.state_machine import tell
from support.rerun_steps import resumed, run_step
from support.waiting import until

NAN = math.nan


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path / "runs"))
    monkeypatch.setenv("LASTBEAT_GUARDIAN", "off")
    monkeypatch.setenv("LASTBEAT_BEAT_SECONDS", "0.1")
    return tmp_path / "runs" / "llama"


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def machine(device: str) -> RerunStateMachine:
    return RerunStateMachine(mode="validate_results", device=device)


def test_a_transient_error_is_in_the_heartbeat_and_raised_as_an_alert(root: Path) -> None:
    with lastbeat.run("llama"):
        run_step(machine("GPU-5c8e"), [NAN, 2.5])
        told = until(lambda: document(root / "metadata.json").get("rerun"))
        alerts = until(lambda: document(root / "_alerts.json").get("alerts", []))
    here = platform.node()
    assert told == {
        "exit_code": None,
        "findings": [
            {
                "verdict": "transient_error",
                "rank": 0,
                "host": here,
                "device": "GPU-5c8e",
                "iteration": 0,
                "what": "loss is NaN (nan, then 2.5)",
            }
        ],
    }
    assert (alerts[0]["title"], alerts[0]["level"]) == ("Possible transient error!", "warning")
    assert f"node {here}, device GPU-5c8e" in alerts[0]["text"]
    assert (root / "_complete").exists()


@pytest.mark.parametrize(
    ("elsewhere", "status", "first"),
    [
        pytest.param(None, 16, "Need to rerun on a different GPU to verify correctness", id="to be resumed elsewhere"),
        pytest.param("GPU-0000", 17, "Possible persistent error!", id="the hardware's for good"),
        pytest.param("GPU-5c8e", 16, "Got rescheduled on the same GPU", id="resumed on the same device"),
    ],
)
def test_a_training_that_ends_because_of_it_says_so_with_its_last_words(
    elsewhere: str | None, status: int, first: str, root: Path
) -> None:
    training = machine("GPU-5c8e")
    if elsewhere is not None:
        run_step(training, [NAN, NAN])
        training = resumed(training.state_dict(), elsewhere)

    def train() -> None:
        with lastbeat.run("llama"):
            leaves = run_step(training, [NAN, NAN] if elsewhere is None else [2.5]).leaves
            raise SystemExit(leaves[2])

    with pytest.raises(SystemExit, match=str(status)):
        train()
    said = (root / "_error").read_text(encoding="utf-8").splitlines()
    assert said[0].startswith(f"Rank 0, node {platform.node()}, device GPU-5c8e, iteration #0: {first} loss is NaN")
    assert f"exit status {status}" in said
    assert document(root / "metadata.json")["rerun"]["exit_code"] == status


def test_an_end_that_training_ignored_is_taken_back(root: Path) -> None:
    training = machine("GPU-5c8e")
    with lastbeat.run("llama"):
        run_step(training, [NAN, NAN])
        run_step(training, [2.5])
    told = document(root / "metadata.json")["rerun"]
    assert (told["exit_code"], [each["verdict"] for each in told["findings"]]) == (None, ["reproduced"])


def test_a_training_that_ends_for_another_reason_says_that(root: Path) -> None:
    def train() -> None:
        with lastbeat.run("llama"):
            run_step(machine("GPU-5c8e"), [NAN, 2.5])
            raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        train()
    assert (root / "_error").read_text(encoding="utf-8").startswith("SystemExit: training ended with exit status 3")


def test_without_a_run_nothing_is_told_and_nothing_fails() -> None:
    assert run_step(machine("GPU-5c8e"), [NAN, 2.5]).verdicts == ("transient_error",)


FINDINGS = st.builds(
    RerunFinding,
    st.sampled_from(RerunVerdict),
    st.integers(0, 10**6),
    st.sampled_from(["", "n1", "n2"]),
    st.just("GPU-1"),
    st.integers(0, 5),
    st.just("loss is NaN"),
)
REPORTS = st.builds(RerunReport, st.lists(FINDINGS, max_size=MOST_FINDINGS).map(tuple), st.sampled_from([None, 16, 17]))


@given(REPORTS)
def test_what_is_written_is_read_again(report: RerunReport) -> None:
    assert read_rerun(json.loads(json.dumps(report.fields()))["rerun"]) == report


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["transient_error", 16]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["exit_code", "findings", "verdict", "rank", "iteration", "host"]), inner, max_size=4
            )
        ),
    )
)
def test_whatever_a_document_says_reading_it_never_raises(value: Any) -> None:
    found = read_rerun(value)
    assert found is None or len(found.findings) <= MOST_FINDINGS


@pytest.mark.parametrize(
    ("verdicts", "status", "expected"),
    [
        pytest.param([("reproduced", 7, "n1"), ("reproduced", 7, "n2")], 16, ("n1", "n2"), id="all of the last step"),
        pytest.param([("reproduced", 3, "n1"), ("reproduced", 7, "n2")], 16, ("n2",), id="none that was judged since"),
        pytest.param([("transient_error", 7, "n1"), ("same_device", 7, "n2")], 16, ("n2",), id="none that is well"),
        pytest.param([("persistent_error", 7, "n1")], 17, (), id="none where nothing is to be resumed"),
        pytest.param([("reproduced", 7, "n1,n2 --all")], 16, (), id="nothing that is no host's name"),
        pytest.param([("reproduced", 7, f"n{each}") for each in range(8)], 16, (), id="none where there may be more"),
        pytest.param([], 16, (), id="none of which nobody knows"),
    ],
)
def test_which_hosts_a_resume_is_to_keep_off(
    verdicts: list[tuple[str, int, str]], status: int, expected: tuple[str, ...]
) -> None:
    findings = tuple(
        RerunFinding(RerunVerdict(verdict), 0, host, "GPU-1", step, "") for verdict, step, host in verdicts
    )
    assert RerunReport(findings, status).suspect_hosts == expected


def test_what_many_ranks_found_is_one_alert(root: Path) -> None:
    found = [
        RerunFinding(RerunVerdict.TRANSIENT_ERROR, rank, f"n{rank}", f"GPU-{rank}", 7, "loss is NaN (nan, then 2.5)")
        for rank in range(1000)
    ]
    with lastbeat.run("llama"):
        tell(RerunReport(tuple(found[-MOST_FINDINGS:])), found, leads=True)
        alerts = until(lambda: document(root / "_alerts.json").get("alerts", []))
    (alert,) = alerts
    assert alert["text"].startswith("Rank 0, node n0, device GPU-0, iteration #7: Possible transient error!")
    assert alert["text"].endswith("; the same on 999 other ranks")


def test_a_process_that_decides_alone_tells_by_itself_whatever_its_rank(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LASTBEAT_BEAT_SECONDS", "0.1,ranks:0.1")
    with lastbeat.run("llama"):
        run_step(machine("GPU-5c8e"), [NAN, 2.5])
        alerts = until(lambda: document(root / "_alerts.json").get("alerts", []))
    assert "Rank 3, " in alerts[0]["text"]
