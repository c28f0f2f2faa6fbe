"""A job of a real Ray that is restarted as long as that helps, by both ways to it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.launch.conftest import Head
from lastbeat.launch.ray import (
    JobNotFoundError,
    NotReachedError,
    RestartResult,
    auto_restart,
    check_job_status,
    find_latest_checkpoint,
    get_current_step,
)
from support.waiting import LIMIT_S, until

TOKEN = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
PACE = {"retry_delay": 0.5, "stagnation_threshold": 60}


def restarted(head: Head, job: str, checkpoints: Path, **more: float) -> RestartResult:
    pace = {**PACE, "check_interval": head.pace_s, **more}
    return auto_restart(head.head_pod, job, str(checkpoints), **pace)  # type: ignore[arg-type]


def test_a_job_that_fails_goes_on_from_its_last_checkpoint(
    by_pod: Head, training: Callable[[str], str], checkpoints: Path, own_state: Path
) -> None:
    head = by_pod
    secret = {"env_vars": {"HF_TOKEN": TOKEN}}
    job = head.submit(f"{training('crash')} {TOKEN}", runtime_env=secret, metadata={"team": "nlp"})

    result = restarted(head, job, checkpoints)

    assert (result.success, result["final_step"], result.total_retries) == (True, 30, 1), result.reason
    first, second = head.jobs(job)
    assert (first["status"], second["status"]) == ("FAILED", "SUCCEEDED")
    given = second["runtime_env"]["env_vars"]
    assert given["LASTBEAT_RESUME_FROM"] == str(checkpoints / "checkpoint-10")
    assert given["LASTBEAT_RESUME_STEP"] == "10"
    assert given["HF_TOKEN"] == TOKEN
    assert TOKEN in second["entrypoint"]
    assert "MONITORING_ROOT" not in given
    assert second["metadata"]["team"] == "nlp"
    assert find_latest_checkpoint(str(checkpoints)) == str(checkpoints / "checkpoint-30")
    kept = b"".join(path.read_bytes() for path in own_state.rglob("*") if path.is_file())
    assert TOKEN.encode() not in kept


def test_a_job_that_stands_still_is_stopped_and_goes_on(
    by_dashboard: Head, training: Callable[[str], str], checkpoints: Path
) -> None:
    job = by_dashboard.submit(training("hang"))

    result = restarted(by_dashboard, job, checkpoints, stagnation_threshold=6)

    assert (result.success, result.final_step, result.total_retries) == (True, 30, 1), result.reason
    first, second = by_dashboard.jobs(job)
    assert (first["status"], second["status"]) == ("STOPPED", "SUCCEEDED")
    assert second["start_time"] >= first["end_time"], "two trainings wrote into one folder"


def test_a_job_that_always_fails_is_given_up(
    by_dashboard: Head, training: Callable[[str], str], checkpoints: Path
) -> None:
    job = by_dashboard.submit(training("always"))

    result = restarted(by_dashboard, job, checkpoints, max_retries=1)

    assert (result.success, result.final_step, result.total_retries) == (False, 1, 1)
    assert "max_retries=1 is used up" in result.reason
    assert [each["status"] for each in by_dashboard.jobs(job)] == ["FAILED", "FAILED"]


def test_several_scripts_for_one_job_make_one_restart(
    by_dashboard: Head, training: Callable[[str], str], checkpoints: Path
) -> None:
    job = by_dashboard.submit(training("crash"))
    results: list[RestartResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(restarted(by_dashboard, job, checkpoints))) for _ in range(3)
    ]

    for each in threads:
        each.start()
    for each in threads:
        each.join(LIMIT_S)

    assert [each.success for each in results] == [True] * 3
    assert [each["status"] for each in by_dashboard.jobs(job)] == ["FAILED", "SUCCEEDED"]


SCRIPT = """
import sys
from lastbeat.launch.ray import auto_restart
pace = {"retry_delay": 0.5, "stagnation_threshold": 60, "check_interval": 0.5}
result = auto_restart(*sys.argv[1:4], **pace)
print(result.success, result["total_retries"])
"""


@pytest.mark.parametrize("keeps", [True, False], ids=["with its record", "whose record is lost"])
def test_a_script_that_was_killed_goes_on_with_the_job_that_it_had_started(
    by_dashboard: Head, checkpoints: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    slow = (
        f'sh -c \'if [ -z "$LASTBEAT_ATTEMPT" ]; then echo step 1/9 loss 2; exit 7; fi; '
        f"echo step 2/9 loss 2; while [ ! -e {checkpoints}/go ]; do sleep 0.2; done; echo step 9/9 loss 1'"
    )
    job = by_dashboard.submit(slow)
    command = [sys.executable, "-c", SCRIPT, by_dashboard.head_pod, job, str(checkpoints)]
    first = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL)
    try:
        until(
            lambda: [each["status"] for each in by_dashboard.jobs(job)], lambda seen: seen == ["FAILED", "RUNNING"], 120
        )
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    if not keeps:
        monkeypatch.setenv("LASTBEAT_STATE_DIR", str(own_state.parent / "another"))

    with subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, text=True) as second:
        newest = by_dashboard.jobs(job)[-1]["submission_id"]
        until(lambda: get_current_step(by_dashboard.head_pod, newest), lambda step: step == 2)
        (checkpoints / "go").touch()
        said, _ = second.communicate(timeout=LIMIT_S)

    assert said.split()[0] == "True"
    assert [each["status"] for each in by_dashboard.jobs(job)] == ["FAILED", "SUCCEEDED"]


def test_a_cluster_that_does_not_answer_is_no_failure(by_pod: Head, checkpoints: Path, own_state: Path) -> None:
    assert by_pod.kubectl is not None
    job = by_pod.submit(f"sh -c 'echo step 1/9 loss 2; while [ ! -e {checkpoints}/go ]; do sleep 0.2; done'")
    until(lambda: check_job_status(by_pod.head_pod, job), lambda status: status == "RUNNING", 60)
    results: list[RestartResult] = []
    # It stands still for less long than that; what is not known is no standstill.
    watching = threading.Thread(
        target=lambda: results.append(restarted(by_pod, job, checkpoints, stagnation_threshold=600, check_interval=0.5))
    )
    watching.start()
    # What cannot be asked at the beginning would be an error: the job's log says that it has been.
    until(lambda: list(own_state.rglob("*.log")), bool, 120)

    by_pod.kubectl.fail("refused")
    asked = len(by_pod.kubectl.calls())
    until(lambda: len(by_pod.kubectl.calls()) - asked if by_pod.kubectl else 0, lambda calls: calls > 5, 120)
    assert not results
    by_pod.kubectl.heal()
    (checkpoints / "go").touch()
    watching.join(LIMIT_S)

    assert [(each.success, each.total_retries) for each in results] == [(True, 0)]
    assert len(by_pod.jobs(job)) == 1


def test_what_cannot_be_looked_after_is_refused_at_once(by_dashboard: Head, checkpoints: Path) -> None:
    with pytest.raises(JobNotFoundError, match="ray job list"):
        restarted(by_dashboard, "no-such-job", checkpoints)
    with pytest.raises(NotReachedError, match="checkpoints cannot be looked for"):
        restarted(by_dashboard, "no-such-job", checkpoints / "not-there")
    with pytest.raises(NotReachedError, match="refused"):
        auto_restart("http://127.0.0.1:1", "job", str(checkpoints))
