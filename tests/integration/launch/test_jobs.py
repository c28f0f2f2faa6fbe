"""Jobs of a real Ray, by both ways to it."""

import logging
from collections.abc import Callable

import pytest

from integration.launch.conftest import Head
from lastbeat.launch.ray import (
    JobNotFoundError,
    NotReachedError,
    NotSetUpError,
    NotSubmittedError,
    check_job_status,
    detect_stall,
    get_current_step,
    get_progress,
    monitor_job,
    stop_job,
    submit_job_with_resume,
)
from support.waiting import until

LONG = "sh -c 'i=0; while :; do i=$((i+1)); echo step $i/9000 loss 2.5; sleep 0.2; done'"
STUCK = "sh -c 'echo step 7/9000 loss 2.5; sleep 3600'"


def begun(head: Head, job: str, step: int = 1) -> None:
    until(lambda: get_current_step(head.head_pod, job), lambda found: found is not None and found >= step, 120)


def test_a_job_that_ends_well_is_followed_to_its_end(by_dashboard: Head, training: Callable[[str], str]) -> None:
    head = by_dashboard
    job = head.submit(training("well"))

    result = monitor_job(head.head_pod, job, check_interval=head.pace_s)

    assert (result.status, result["final_step"]) == ("SUCCEEDED", 30)
    assert result.duration > 0
    assert check_job_status(head.head_pod, job) == "SUCCEEDED"
    progress = get_progress(head.head_pod, job)
    assert (progress.step, progress.total_steps, progress.loss) == (30, 30, 0.33)
    assert (progress.throughput, progress.throughput_unit) == (512.5, "tokens/s")


def test_a_job_that_fails_and_one_that_is_stopped_are_failed(head: Head) -> None:
    bad, stopped = head.submit("sh -c 'exit 7'"), head.submit(LONG)
    begun(head, stopped)
    assert check_job_status(head.head_pod, stopped) == "RUNNING"

    assert stop_job(head.head_pod, stopped) == "FAILED"
    assert monitor_job(head.head_pod, bad, check_interval=head.pace_s).status == "FAILED"
    assert check_job_status(head.head_pod, stopped) == "FAILED"


def test_watching_ends_when_its_time_is_over(by_dashboard: Head) -> None:
    job = by_dashboard.submit(LONG)
    begun(by_dashboard, job)

    result = monitor_job(by_dashboard.head_pod, job, check_interval=0.2, timeout=1)

    assert result.status == "RUNNING"
    assert result.duration >= 1
    assert result.final_step is not None
    stop_job(by_dashboard.head_pod, job)


def test_a_job_resumes_from_its_checkpoint_in_its_own_environment(head: Head) -> None:
    said = "sh -c 'echo \"from $LASTBEAT_RESUME_FROM at $LASTBEAT_RESUME_STEP with $MINE\"'"
    path = "/check points/it's/checkpoint-1200"

    job = head.submit(
        said, checkpoint=path, runtime_env={"env_vars": {"MINE": 'é "q" $(x) {y}: #'}}, metadata={"a": "b"}
    )

    assert monitor_job(head.head_pod, job, check_interval=head.pace_s).status == "SUCCEEDED"
    known = head.jobs(job)[0]
    assert known["runtime_env"]["env_vars"] == {
        "MINE": 'é "q" $(x) {y}: #',
        "LASTBEAT_RESUME_FROM": path,
        "LASTBEAT_RESUME_STEP": "1200",
    }
    assert known["entrypoint"] == said
    assert known["metadata"]["a"] == "b"


SHELL_TEXTS = ("cd / && echo a | cat; true", "echo 'a  b' \"c\"", "exec python3 -c 'print(1)'", "echo $HOME")


def test_a_shells_text_stays_one_by_way_of_a_pod(by_pod: Head) -> None:
    def known(job: str) -> str:
        return str(by_pod.jobs(job)[0]["entrypoint"])

    first = [by_pod.submit(text) for text in SHELL_TEXTS]
    again = [by_pod.submit(known(job)) for job in first]

    assert [known(job) for job in first] == [known(job) for job in again]
    until(lambda: [by_pod.jobs(job)[0]["status"] for job in again], lambda seen: seen == ["SUCCEEDED"] * 4, 120)


def test_what_a_job_is_given_stands_in_no_list_of_arguments(by_pod: Head) -> None:
    by_pod.submit("true", runtime_env={"env_vars": {"HF_TOKEN": "hf_abcdefghijklmnop"}})

    assert by_pod.kubectl is not None
    assert "hf_abcdefghijklmnop" not in str(by_pod.kubectl.calls())


def test_a_job_stands_still_that_makes_no_step(by_dashboard: Head) -> None:
    stuck, running, ended = by_dashboard.submit(STUCK), by_dashboard.submit(LONG), by_dashboard.submit("true")
    begun(by_dashboard, stuck)
    begun(by_dashboard, running)
    monitor_job(by_dashboard.head_pod, ended, check_interval=0.2)

    assert detect_stall(by_dashboard.head_pod, stuck, stagnation_threshold=2, check_interval=0.3)
    assert not detect_stall(by_dashboard.head_pod, running, stagnation_threshold=60, check_interval=0.3)
    assert not detect_stall(by_dashboard.head_pod, ended, stagnation_threshold=60)
    for each in (stuck, running):
        stop_job(by_dashboard.head_pod, each)


def test_what_a_cluster_does_not_know_is_unknown_and_told(head: Head, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert check_job_status(head.head_pod, "no-such-job") == "UNKNOWN"
        assert get_current_step(head.head_pod, "no-such-job") is None

    assert "ray job list" in caplog.text
    with pytest.raises(JobNotFoundError, match="ray job list"):
        monitor_job(head.head_pod, "no-such-job")


def test_a_hostile_id_is_only_a_name(head: Head, tmp_path: object) -> None:
    for name in ("--help", "x; touch pwned", "$(reboot)", "a/../../b", "-", "é\n"):
        assert check_job_status(head.head_pod, name) == "UNKNOWN"


def test_a_cluster_that_does_not_answer_is_unknown() -> None:
    address = "http://127.0.0.1:1"

    assert check_job_status(address, "job") == "UNKNOWN"
    assert get_current_step(address, "job") is None
    with pytest.raises(NotReachedError, match="refused"):
        monitor_job(address, "job")
    assert not detect_stall(address, "job", stagnation_threshold=0.2, check_interval=0.1)
    with pytest.raises(NotSubmittedError, match="refused"):
        submit_job_with_resume(address, None, {"entrypoint": "true"})


@pytest.mark.parametrize(
    ("head_pod", "said"),
    [
        ("ray://10.0.0.7:10001", "http://HOST:8265"),
        ("--kubeconfig=x", "no name of a pod"),
        ("a b", "no name of a pod"),
        ("", "no name of a pod"),
        ("http://", "no address"),
    ],
)
def test_what_is_neither_a_pod_nor_an_address_is_refused(head_pod: str, said: str) -> None:
    with pytest.raises(NotSetUpError, match=said):
        check_job_status(head_pod, "job")


def test_a_pod_that_is_not_there_is_refused_with_what_to_do(by_pod: Head) -> None:
    with pytest.raises(NotSetUpError, match="kubectl get pods"):
        check_job_status("other-head", "job")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no 'entrypoint'"),
        ({"entrypoint": "  "}, "no 'entrypoint'"),
        ({"entrypoint": "true", "runtime_env": "x"}, "runtime_env"),
        ({"entrypoint": "true", "runtime_env": {"env_vars": ["A"]}}, "env_vars"),
        ({"entrypoint": "true", "entry_point": "x"}, "'entry_point', which is unknown"),
    ],
)
def test_a_config_of_which_nothing_can_come_is_refused(config: dict[str, object], said: str) -> None:
    with pytest.raises(NotSubmittedError, match=said):
        submit_job_with_resume("http://127.0.0.1:1", None, config)
