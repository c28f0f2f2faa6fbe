"""What Kubernetes' own documents say of a job, in our words."""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.launchers.kubernetes import wait_reason
from lastbeat.jobs.launchers.kubernetes import reports
from lastbeat.jobs.launchers.kubernetes.kinds import KINDS, kind_of
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.status import Status
from lastbeat.watch.decide.jobs import judge
from support.kubernetes_documents import (
    AT,
    BACKOFF,
    COMPLETE,
    FAILED,
    condition,
    disrupted,
    failed,
    job,
    jobset,
    pod,
    pytorchjob,
    rayjob,
    terminated,
    unschedulable,
    waiting,
)
from support.row_by_row import labelled


def told(value: dict[str, Any] | None, *pods: dict[str, Any], kind: str = "job") -> JobReport:
    found = KINDS[kind] if value is None else kind_of(value)
    assert found is not None
    return reports.report(found, value, reports.pods_of(pods))


def judged(report: JobReport) -> tuple[str | None, str]:
    """The error type, and what to do."""
    memory = JobMemory("kubernetes", "job/llama", "llama-r0", 0, datetime(2026, 3, 1, tzinfo=timezone.utc))
    found = judge(JobSight(memory, report), beats=True, says_done=None, lives=False)
    assert found is not None
    assert found.status is Status.FAILED
    return found.cause, str(found.action)


LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 51Mi. Container train was using 61Gi"
DISK = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi."
EMPTY_DIR = 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". '
ENDS: list[tuple[str, dict[str, Any], JobState, str, str | None, str]] = [
    ("a program's own exit status", failed(terminated(7)), JobState.FAILED, "Error", None, "ended by itself with exit"),
    ("a crash of native code", failed(terminated(139)), JobState.FAILED, "Error", None, "It was killed by SIGSEGV"),
    ("the container's memory was full", failed(terminated(137, "OOMKilled")), JobState.FAILED, "OOMKilled", "oom",
     "The container needed more memory"),
    ("a command that is not in the image", failed(terminated(128, "StartError", message="exec: not found")),
     JobState.FAILED, "StartError", "environment", "The container did not start"),
    ("told to end by nobody that Kubernetes knows", failed(terminated(143)), JobState.FAILED, "Error", "cancelled",
     "It was killed by SIGTERM"),
    ("evicted, the node short of memory", failed(reason="Evicted", message=LOW), JobState.FAILED, "Evicted (memory)",
     "oom", "The container needed more memory"),
    ("evicted, the node short of disk", failed(reason="Evicted", message=DISK), JobState.FAILED,
     "Evicted (ephemeral-storage)", "storage", "The pod wrote more to its node's disk"),
    ("evicted for an emptyDir", failed(reason="Evicted", message=EMPTY_DIR), JobState.FAILED, "Evicted (limit)",
     "storage", "The pod wrote more to its node's disk"),
    ("evicted, for the kubelet says so in a condition, too",
     disrupted("TerminationByKubelet", LOW, reason="Evicted", message=LOW), JobState.FAILED, "Evicted (memory)", "oom",
     "The container needed more memory"),
    ("a higher priority took its place", disrupted("PreemptionByScheduler", "default-scheduler: preempting to "
     "accommodate a higher priority pod", containers=[terminated(143)]), JobState.PREEMPTED, "PreemptionByScheduler",
     "cancelled", "A pod of higher priority took its place"),
    ("its node was drained", disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), JobState.PREEMPTED,
     "EvictionByEvictionAPI", "cancelled", "Kubernetes took the pod away"),
    ("its node was shut down", failed(reason="Terminated", message="Pod was terminated in response to imminent node "
     "shutdown."), JobState.PREEMPTED, "Terminated", "cancelled", "Kubernetes took the pod away"),
    ("its node did not answer", disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
     JobState.NODE_LOST, "DeletionByTaintManager", "hardware", "Its node is gone or did not answer"),
    ("no healthy GPU was left on its node", failed(reason="UnexpectedAdmissionError", message="Allocate failed due to "
     "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"), JobState.FAILED,
     "UnexpectedAdmissionError", "hardware", "Its node could not give it the devices"),
    ("the deadline of the pod", failed(reason="DeadlineExceeded", message="Pod was active on the node longer than the "
     "specified deadline"), JobState.TIMEOUT, "DeadlineExceeded", "time_limit", "Nothing is broken"),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "state", "said", "cause", "advice"), labelled(ENDS))
def test_why_a_job_failed_is_what_its_pod_says(
    pods: dict[str, Any], state: JobState, said: str, cause: str | None, advice: str
) -> None:
    report = told(job(*FAILED, failed=1), pods)
    assert (report.state, report.said) == (state, said)
    assert report.reason.startswith("pod p0")
    assert report.ended_at == datetime(2026, 3, 1, 12, 0, 50, tzinfo=timezone.utc)
    assert report.failed_node == ("n1" if state is JobState.NODE_LOST else None)
    found, action = judged(report)
    assert found == cause
    assert advice in action


def test_exit_statuses_and_signals_are_told_apart() -> None:
    assert told(job(*FAILED), failed(terminated(7))).exit_code == 7
    killed = told(job(*FAILED), failed(terminated(137)))
    assert (killed.exit_code, killed.signal) == (None, 9)
    made_up = told(job(*FAILED), failed(terminated(137, "ContainerStatusUnknown")))
    assert (made_up.exit_code, made_up.signal) == (None, None)


OBJECTS: list[tuple[str, dict[str, Any], JobState, str]] = [
    ("a Job that is done", job(*COMPLETE, succeeded=1, completionTime=AT.format(50)), JobState.SUCCEEDED,
     "CompletionsReached"),
    ("a Job that is done, as 1.27 says it", job(condition("Complete", "")), JobState.SUCCEEDED, "Complete"),
    ("a Job whose pods are gone", job(*FAILED), JobState.FAILED, "BackoffLimitExceeded"),
    ("a Job's deadline", job(condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")),
     JobState.TIMEOUT, "DeadlineExceeded"),
    ("a JobSet that is done", jobset(condition("Completed", "AllJobsCompleted"), terminalState="Completed"),
     JobState.SUCCEEDED, "AllJobsCompleted"),
    ("a JobSet that failed", jobset(condition("Failed", "FailedJobs", "jobset failed due to one or more job failures")),
     JobState.FAILED, "FailedJobs"),
    ("a JobSet, by its last word", jobset(terminalState="Failed"), JobState.FAILED, "Failed"),
    ("a PyTorchJob that is done", pytorchjob(condition("Running", "PyTorchJobRunning", status="False"),
     condition("Succeeded", "PyTorchJobSucceeded")), JobState.SUCCEEDED, "PyTorchJobSucceeded"),
    ("a PyTorchJob's deadline, which it says in words", pytorchjob(condition("Failed", "PyTorchJobFailed", "PyTorchJob "
     "llama-r0-1 has failed because it was active longer than specified deadline")), JobState.TIMEOUT,
     "DeadlineExceeded"),
    ("a RayJob that is done", rayjob("SUCCEEDED", "Complete", endTime=AT.format(50)), JobState.SUCCEEDED, "SUCCEEDED"),
    ("a RayJob that was stopped", rayjob("STOPPED", "Complete", endTime=AT.format(50)), JobState.CANCELLED, "STOPPED"),
    ("a RayJob that failed", rayjob("FAILED", "Failed", reason="AppFailed", message="Job entrypoint command failed "
     "with exit code 3, last available logs (truncated to 20,000 chars):"), JobState.FAILED, "FAILED"),
    ("a RayJob's deadline", rayjob("RUNNING", "Failed", reason="DeadlineExceeded", message="The RayJob has passed the "
     "activeDeadlineSeconds"), JobState.TIMEOUT, "DeadlineExceeded"),
    ("a RayJob that KubeRay could not submit", rayjob("", "Failed", reason="SubmissionFailed"), JobState.FAILED,
     "SubmissionFailed"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "state", "said"), labelled(OBJECTS))
def test_that_a_job_is_over_is_what_its_object_says(value: dict[str, Any], state: JobState, said: str) -> None:
    report = told(value)
    assert (report.state, report.said) == (state, said)


def test_the_exit_status_of_a_ray_job_stands_in_its_message() -> None:
    found = told(rayjob("FAILED", "Failed", message="Job entrypoint command failed with exit code 3, last"))
    assert (found.exit_code, found.signal) == (3, None)
    found = told(rayjob("FAILED", "Failed", message="Job entrypoint command failed with exit code -9, last"))
    assert (found.exit_code, found.signal) == (None, 9)


def test_a_ray_job_fails_by_the_pod_that_was_taken_from_it() -> None:
    value = rayjob("FAILED", "Failed", message="Job supervisor actor died")
    report = told(value, failed(terminated(137, "OOMKilled"), name="head"), failed(terminated(1), name="submitter"))
    assert (report.said, judged(report)[0]) == ("OOMKilled", "oom")
    assert told(value, failed(terminated(1), name="submitter")).said == "FAILED"


RANK = "batch.kubernetes.io/job-completion-index"


def test_a_pod_that_was_replaced_is_not_the_cause() -> None:
    first = failed(terminated(137, "OOMKilled", second=10), name="a", created=1)
    second = failed(terminated(3, second=40), name="b", created=20)
    report = told(job(*FAILED), first, second)
    assert (report.exit_code, report.restarts) == (3, 1)
    ranked = [failed(terminated(9, second=9 + number), name=f"r{number}", labels={RANK: "0"}, created=number)
              for number in range(3)]  # fmt: skip
    report = told(job(*FAILED, spec={"parallelism": 2}), *ranked, failed(terminated(4), name="x", labels={RANK: "1"}))
    assert (report.reason, report.restarts) == ("pod r2", 2)


WAITS = [
    ("no node has what it asks for", [unschedulable("0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")],
     "Unschedulable: pod p0: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", "no node has what it asks for",
     False),
    ("a queue has not admitted it", [pod("p0", "Pending", conditions=[condition("PodScheduled", "SchedulingGated",
     "Scheduling is blocked due to non-empty scheduling gates", status="False")], node="")],
     "SchedulingGated: pod p0: Scheduling is blocked", "a queue has not admitted its pods", False),
    ("an image that cannot be pulled",
     [pod("p0", "Pending", [waiting("ImagePullBackOff", 'Back-off pulling image "x:1"')])],
     'ImagePullBackOff: pod p0: Back-off pulling image "x:1"', "its image cannot be pulled", True),
    ("an init container", [pod("p0", "Pending", [waiting("PodInitializing")], initContainerStatuses=[
     {"name": "fetch", **waiting("ErrImagePull", "not found")}])], "ErrImagePull: pod p0: not found",
     "its image cannot be pulled", True),
    ("it fails again and again", [pod("p0", "Running", [waiting("CrashLoopBackOff", "back-off 5m0s", restartCount=4,
     lastState=terminated(1)["state"])])], "CrashLoopBackOff: pod p0: it ended 4 times, last as Error, exit status 1",
     "it fails again and again", True),
    ("one of several pods is missing", [pod("a"), pod("b", "Pending", [waiting("ImagePullBackOff", "x")]),
     pod("c", "Pending", [waiting("ContainerCreating")])], "ImagePullBackOff: 2 of 3 pods, as b: x",
     "its image cannot be pulled", True),
    ("what does not pass by itself comes first", [unschedulable("0/4 nodes"), pod("p1", "Pending",
     [waiting("ErrImagePull", "x")])], "ErrImagePull: 2 of 2 pods, as p1: x", "its image cannot be pulled", True),
    ("there is no pod yet", [], "NoPods: it has no pod yet", "its controller has made no pod", False),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "reason", "means", "hopeless"), labelled(WAITS))
def test_why_a_job_waits_is_what_its_pods_say(
    pods: list[dict[str, Any]], reason: str, means: str, hopeless: bool
) -> None:
    report = told(job(active=len(pods), spec={"parallelism": 3}), *pods)
    assert report.state is JobState.PENDING
    assert report.reason.startswith(reason)
    assert report.started_at is None
    found = wait_reason(report.reason)
    assert found.means.startswith(means)
    assert found.hopeless is hopeless
    assert found.remedy or not hopeless


def test_a_job_runs_when_all_of_its_pods_do() -> None:
    report = told(job(active=2, spec={"parallelism": 2}), pod("a", node="n1"), pod("b", node="n2"))
    assert (report.state, report.nodes) == (JobState.RUNNING, ("n1", "n2"))
    assert report.started_at == datetime(2026, 3, 1, 12, 0, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(("status", "deployment", "state"), [
    ("RUNNING", "Running", JobState.RUNNING),
    ("PENDING", "Running", JobState.PENDING),
    ("", "Initializing", JobState.PENDING),
    ("", "Waiting", JobState.PENDING),
])  # fmt: skip
def test_a_ray_job_runs_when_ray_says_so(status: str, deployment: str, state: JobState) -> None:
    spare = pod("worker-2", "Pending", [waiting("ContainerCreating")])
    assert told(rayjob(status, deployment), pod("head"), spare).state is state


def test_a_suspended_job_waits() -> None:
    held = job(condition("Suspended", "JobSuspended"), spec={"suspend": True})
    assert told(held).state is JobState.PENDING
    assert wait_reason(told(held).reason).means.startswith("it is suspended")
    assert told(jobset(suspend=True)).reason == "Suspended: it is held back"


SILENT = [condition("Ready", "NodeStatusUnknown", "Kubelet stopped posting node status.", status="False")]


def test_a_job_has_not_ended_while_a_pod_of_it_may_live() -> None:
    report = told(job(*FAILED), failed(terminated(1), name="a"), pod("b", deleting=True))
    assert report.state is JobState.RUNNING
    assert report.reason == "BackoffLimitExceeded; 1 pod of it is still being ended"
    # What is being deleted on a node that does not answer may write for hours.
    report = told(job(*FAILED), pod("b", deleting=True, conditions=SILENT))
    assert report.state is JobState.RUNNING
    assert "node n1 does not answer" in report.reason
    assert "kubectl delete node n1, or kubectl delete pod b --force" in report.reason
    assert told(job(condition("FailureTarget", "BackoffLimitExceeded", BACKOFF)), pod("b")).state is JobState.RUNNING


CANCELLED = {"lastbeat.dev/cancelled": "2026-03-01T12:00:30+00:00"}
HELD = [
    ("job", job(condition("Suspended", "JobSuspended"), spec={"suspend": True})),
    ("jobset", jobset(condition("Suspended", "SuspendedJobs"), suspend=True)),
    ("pytorchjob", pytorchjob(condition("Suspended", "PyTorchJobSuspended"))),
    ("rayjob", rayjob("", "Suspended")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "held"), HELD, ids=[row[0] for row in HELD])
def test_a_job_is_cancelled_when_its_controller_has_heard_it_and_no_pod_lives(kind: str, held: dict[str, Any]) -> None:
    value = {**held, "metadata": {**held["metadata"], "annotations": CANCELLED}}
    assert told(value).state is JobState.CANCELLED
    assert told(value, pod("a", deleting=True)).state is JobState.RUNNING
    unheard = {**value, "status": {}}
    assert told(unheard).state is JobState.RUNNING, f"a {kind} whose controller may still make pods"


def test_an_object_that_is_gone_is_gone_once_its_pods_are() -> None:
    assert told(None).state is JobState.GONE
    assert told(None, pod("a", deleting=True)).state is JobState.RUNNING
    deleting = job(active=1)
    deleting["metadata"]["deletionTimestamp"] = AT.format(45)
    assert told(deleting).state is JobState.RUNNING


def test_pods_that_are_gone_are_remembered_by_whoever_saw_them_go() -> None:
    seen = reports.pods_of([disrupted("PreemptionByScheduler", phase="Running", deleting=True)])
    assert reports.report(KINDS["job"], job(active=1), seen).state is JobState.RUNNING
    later = reports.report(KINDS["job"], job(*FAILED), [reports.gone(each) for each in seen])
    assert (later.state, later.said) == (JobState.PREEMPTED, "PreemptionByScheduler")


def event(reason: str, about: str, second: int = 40, kind: str = "Normal") -> dict[str, Any]:
    return {
        "involvedObject": {"kind": "Pod", "name": about},
        "reason": reason,
        "type": kind,
        "message": f"{reason} of {about}",
        "lastTimestamp": AT.format(second),
    }


def test_of_pods_that_nobody_saw_go_events_tell() -> None:
    report = told(job(*FAILED))
    assert reports.unexplained(report)
    others = [event("Preempted", "other-r0-1-abcde"), event("Scheduled", "llama-r0-1-abcde")]
    assert reports.with_disruption(report, others, "llama-r0-1") == report
    found = reports.with_disruption(report, [*others, event("Preempted", "llama-r0-1-abcde")], "llama-r0-1")
    assert (found.state, found.said) == (JobState.PREEMPTED, "PreemptionByScheduler")
    found = reports.with_disruption(report, [event("TaintManagerEviction", "llama-r0-1-abcde")], "llama-r0-1")
    assert found.state is JobState.NODE_LOST
    assert not reports.unexplained(told(job(*FAILED), failed(terminated(1))))


def test_why_a_job_has_no_pod_or_stands_still_before_it_begins_events_tell() -> None:
    report = told(job())
    assert reports.needs_word(report)
    refused = [event("FailedCreate", "llama-r0-1", 10, "Warning"), event("SuccessfulCreate", "llama-r0-1", 50)]
    found = reports.with_warning(report, refused)
    assert found.reason == "FailedCreate: FailedCreate of llama-r0-1"
    assert wait_reason(found.reason).hopeless
    assert reports.needs_word(told(job(active=1), pod("p0", "Pending", [waiting("ContainerCreating")])))
    assert not reports.needs_word(told(job(active=1), unschedulable("0/4 nodes")))


def test_what_pods_and_messages_say_is_harmless_and_bounded() -> None:
    evil = "\x1b[31m" + "x" * 100_000 + "\n\u202e<@U1>"
    report = told(job(*FAILED), failed(terminated(1, message=evil), name="p\n0"))
    assert len(report.reason) < 1000
    assert "\x1b" not in report.reason
    assert "\n" not in report.reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "metadata", "name", "spec", "status", "phase", "conditions", "type", "reason", "containerStatuses", "state",
            "terminated", "waiting", "exitCode", "finishedAt", "parallelism", "labels", "annotations", "restartCount",
        ]),
        inner | st.sampled_from(["True", "Failed", "Running", "Complete", "DisruptionTarget", AT.format(1)]),
        max_size=5,
    ),
)  # fmt: skip


@given(st.sampled_from(list(KINDS)), st.none() | st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON),
       st.lists(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON), max_size=3))  # fmt: skip
def test_whatever_a_cluster_answers_there_is_a_report(
    kind: str, value: dict[str, Any] | None, pods: Sequence[dict[str, Any]]
) -> None:
    its = reports.pods_of(pods)
    found = reports.report(KINDS[kind], value, its)
    # Of a Ray job Ray's own word counts; of no other one anything new begins while a pod may live.
    assert kind == "rayjob" or not (found.state.ended and any(each.lives for each in its))
