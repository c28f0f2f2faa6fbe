"""The launcher kubernetes where things go wrong: refusals, answers that are lost, other clusters, long logs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat.jobs.launchers.asking import MOST_BYTES, Answer
from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.kubernetes import launcher as kubernetes
from lastbeat.jobs.launchers.kubernetes.launcher import KubernetesLauncher, adoption
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.fake_kubectl import FAULTS
from support.fake_kubernetes import NO_SUCH_IMAGE, FakeKubernetes
from support.row_by_row import labelled
from support.waiting import until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
NAME = "llama-r0"
ENVIRONMENT = {"LASTBEAT_RUN_ID": "llama"}


def manifest(script: str = "sleep 300", **more: Any) -> dict[str, Any]:
    container = {"name": "train", "image": "training:1", "command": ["sh", "-c", script], **more.pop("container", {})}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", **more.pop("metadata", {})},
        "spec": {"template": template, **more},
    }


def spec(value: dict[str, Any]) -> JobSpec:
    return JobSpec(("train.yaml",), "", ENVIRONMENT, manifest=json.dumps(value))


@pytest.fixture
def launcher(fake_kubernetes: FakeKubernetes) -> KubernetesLauncher:
    assert fake_kubernetes.objects() == []
    return KubernetesLauncher(Kubectl())


def in_state(launcher: KubernetesLauncher, job: str, state: JobState) -> JobReport:
    return until(lambda: launcher.state(job), lambda report: report.state is state)


QUOTA = (
    'Error from server (Forbidden): error when creating "STDIN": jobs.batch "x" is forbidden: exceeded quota: compute, '
    "requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8"
)
RIGHTS = (
    'Error from server (Forbidden): error when creating "STDIN": jobs.batch is forbidden: User "bob" cannot create '
    'resource "jobs" in API group "batch" in the namespace "ml"'
)
WEBHOOK = (
    'Error from server: error when creating "STDIN": admission webhook "validate.kyverno.svc-fail" denied the request: '
    "resource limits are required"
)
NO_OPERATOR = (
    'error: resource mapping not found for name: "x" namespace: "" from "STDIN": no matches for kind "JobSet" in '
    'version "jobset.x-k8s.io/v1alpha2"'
)
FIELD = 'The Job "x" is invalid: spec.template.spec.restartPolicy: Unsupported value: "Always"'
SILENT_WEBHOOK = (
    'Error from server (InternalError): Internal error occurred: failed calling webhook "mjob.kueue.x-k8s.io": '
    "connect: connection refused"
)
OPENAPI = (
    'error: error validating "STDIN": error validating data: failed to download openapi: Get '
    '"https://10.1.2.3:6443/openapi/v2?timeout=13s": dial tcp 10.1.2.3:6443: i/o timeout; if you choose to ignore '
    "these errors, turn validation off with --validate=false"
)
DIAL = "Unable to connect to the server: dial tcp 10.1.2.3:6443: i/o timeout"
STORE = (
    'Error from server: error when creating "STDIN": rpc error: code = Unavailable desc = connection error: desc = '
    '"transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection refused"'
)
STILL = (
    'Error from server (Timeout): error when creating "STDIN": the server was unable to return a response in the time '
    "allotted, but may still be processing the request (post jobs.batch)"
)
POST = 'error when creating "STDIN": Post "https://10.1.2.3:6443/apis/batch/v1/namespaces/default/jobs?timeout=13s"'
LATE = f"{POST}: net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
LOGGED = (
    'E1123 02:11:10.014964    5133 memcache.go:287] "Unhandled Error" err="couldn\'t get resource list for '
    'metrics.k8s.io/v1beta1: Get \\"https://10.1.2.3:6443/apis\\": dial tcp 10.1.2.3:6443: connect: connection refused"'
)
REFUSALS = [
    ("a quota is used up", QUOTA, NotLaunchedError, "kubectl describe resourcequota shows what is used"),
    ("no right to create it", RIGHTS, JobRefusedError, "kubectl auth can-i create jobs.batch -n ml"),
    ("a webhook's own rule", WEBHOOK, JobRefusedError, "denied the request: resource limits are required"),
    ("whatever else it says", f"{WEBHOOK}: no context exists, timed out", JobRefusedError, "denied the request"),
    ("a field that is wrong", FIELD, JobRefusedError, 'Unsupported value: "Always"'),
    ("an operator that is not installed", NO_OPERATOR, JobRefusedError, "is not installed"),
    ("nobody was reached", "refused", NotLaunchedError, "was refused"),
    ("a webhook that does not answer", SILENT_WEBHOOK, NotLaunchedError, "failed calling webhook"),
    ("the server's rules could not be had first", OPENAPI, NotLaunchedError, "failed to download openapi"),
    ("no connection was made", DIAL, NotLaunchedError, "i/o timeout"),
    ("the server cannot reach its store", STORE, LauncherError, "Error while dialing"),
    ("the server may still be at it", STILL, LauncherError, "may still be processing the request"),
    ("the answer did not come in time", LATE, LauncherError, "Client.Timeout exceeded"),
    ("whatever kubectl logged before it", f"{LOGGED}\n{POST}: EOF", LauncherError, "EOF"),
]  # fmt: skip


@dataclass(frozen=True)
class Refusing(Kubectl):
    """A cluster that tells which one it is, and creates nothing."""

    said: str = ""

    def run(self, arguments: Sequence[str], *, stdin: str = "", most: int = MOST_BYTES) -> Answer:
        if arguments[0] == "create":
            return Answer("kubectl", 1, "", self.said)
        return Answer("kubectl", 0, json.dumps({"metadata": {"uid": "1", "namespace": "default"}}), "")


@pytest.mark.parametrize(("said", "error", "told"), labelled(REFUSALS))
def test_what_cannot_be_created_is_told_in_the_servers_words_with_what_to_do(
    said: str, error: type[LauncherError], told: str
) -> None:
    launcher = KubernetesLauncher(Refusing(said=FAULTS.get(said, said)))
    with pytest.raises(LauncherError) as refused:
        launcher.submit(spec(manifest()), NAME, SINCE)
    assert type(refused.value) is error
    assert told in refused.value.told


def test_what_was_refused_is_not_there(fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher) -> None:
    fake_kubernetes.fail(QUOTA, verb="create", times=1)
    with pytest.raises(NotLaunchedError):
        launcher.submit(spec(manifest()), NAME, SINCE)
    assert launcher.find(NAME, SINCE) is None
    assert launcher.submit(spec(manifest()), NAME, SINCE) == launcher.find(NAME, SINCE)


def test_an_object_whose_creation_nobody_heard_of_is_found_and_not_created_again(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    fake_kubernetes.fail(LATE, verb="create", times=1, after=True)
    with pytest.raises(LauncherError) as unclear:
        launcher.submit(spec(manifest()), NAME, SINCE)
    assert not isinstance(unclear.value, NotLaunchedError | JobRefusedError)
    job = launcher.find(NAME, SINCE)
    assert job is not None
    assert KubernetesLauncher(Kubectl()).submit(spec(manifest()), NAME, SINCE) == job
    assert [f"job/{each['metadata']['name']}" for each in fake_kubernetes.objects()] == [job]


def test_while_the_cluster_does_not_answer_nothing_is_known(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest()), NAME, SINCE)
    fake_kubernetes.fail("no such host")
    report = launcher.state(job)
    assert report.state is JobState.UNKNOWN
    assert "no such host" in report.reason
    assert "kubectl cluster-info" in report.reason
    for ask in (lambda: launcher.find(NAME, SINCE), lambda: launcher.cancel(job), lambda: launcher.output(job, 100)):
        with pytest.raises(LauncherError):
            ask()


def test_a_list_of_pods_that_could_not_be_had_is_no_list_without_pods(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest("exit 3")), NAME, SINCE)
    in_state(launcher, job, JobState.FAILED)
    # The object has ended, and nobody knows of its pods.
    fake_kubernetes.fail("busy", verb="get pods")
    assert launcher.state(job).state is JobState.UNKNOWN


def test_a_job_that_waits_is_cancelled_too(fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher) -> None:
    job = launcher.submit(spec(manifest(container={"image": NO_SUCH_IMAGE})), NAME, SINCE)
    assert in_state(launcher, job, JobState.PENDING).said == "ImagePullBackOff"
    launcher.cancel(job)
    in_state(launcher, job, JobState.CANCELLED)
    assert fake_kubernetes.pods() == []


def test_what_a_queue_manages_is_deleted_for_it_would_start_it_again(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    value = manifest(metadata={"labels": {"kueue.x-k8s.io/queue-name": "gpus"}})
    job = launcher.submit(spec(value), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    launcher.cancel(job)
    assert in_state(launcher, job, JobState.CANCELLED).said == "deleted"
    assert KubernetesLauncher(Kubectl()).state(job).state is JobState.GONE, "nobody else knows why"
    assert fake_kubernetes.pods() == []


def test_a_pod_that_nobody_can_end_is_told_of(fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher) -> None:
    job = launcher.submit(spec(manifest()), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    silent = {"type": "Ready", "status": "False", "reason": "NodeStatusUnknown"}
    fake_kubernetes.freeze(fake_kubernetes.pods()[0], silent)
    launcher.cancel(job)
    assert launcher.state(job).state is JobState.RUNNING
    with pytest.raises(LauncherError, match="node node-7 does not answer, so it is unknown whether pod"):
        launcher.cancel(job)


def test_a_node_that_goes_with_its_pod_is_blamed_whoever_looks(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest()), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    fake_kubernetes.take_away(fake_kubernetes.pods()[0], "DeletionByTaintManager")
    assert in_state(launcher, job, JobState.NODE_LOST).said == "DeletionByTaintManager"
    assert KubernetesLauncher(Kubectl()).state(job).state is JobState.NODE_LOST


def test_a_job_without_pods_has_the_word_of_its_events(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest(parallelism=0)), NAME, SINCE)
    assert launcher.state(job).reason == "NoPods: it has no pod yet"
    message = 'pods "x" is forbidden: exceeded quota: compute'
    fake_kubernetes.warn(job.removeprefix("job/"), "FailedCreate", message)
    assert launcher.state(job).reason == f"FailedCreate: {message}"
    fake_kubernetes.fail("forbidden", verb="get", times=1)
    assert launcher.state(job).state is JobState.UNKNOWN


TEMPLATE = manifest()["spec"]
PATCHED = [
    ("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"template": {"spec": TEMPLATE}}]}, {"suspend": True}),
    ("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Master": TEMPLATE}},
     {"runPolicy": {"cleanPodPolicy": "Running", "suspend": True}}),
    ("RayJob", "ray.io/v1", {"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": TEMPLATE}},
     {"suspend": True, "shutdownAfterJobFinishes": True}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "api", "of_kind", "held"), PATCHED, ids=[row[0] for row in PATCHED])
def test_objects_of_other_kinds_are_created_found_and_held_still(
    fake_kubernetes: FakeKubernetes,
    launcher: KubernetesLauncher,
    kind: str,
    api: str,
    of_kind: dict[str, Any],
    held: dict[str, Any],
) -> None:
    value = {"apiVersion": api, "kind": kind, "metadata": {"name": "mine"}, "spec": of_kind}
    job = launcher.submit(spec(value), NAME, SINCE)
    assert job.startswith(f"{kind.lower()}/llama-r0-")
    assert launcher.find(NAME, SINCE) == job
    assert launcher.state(job).state is JobState.PENDING
    launcher.cancel(job)
    # Its controller has not heard it.
    assert launcher.state(job).state is JobState.RUNNING
    found = next(each for each in fake_kubernetes.everything() if each["kind"] == kind)
    assert held.items() <= found["spec"].items()
    suspended = {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
    word = {"conditions": [suspended]} if kind != "RayJob" else {"jobDeploymentStatus": "Suspended"}
    fake_kubernetes.change(found, lambda each: each.update(status=word))
    assert launcher.state(job).state is JobState.CANCELLED
    launcher.cancel(job)  # of a job that has ended: nothing


@pytest.mark.parametrize("told", [True, False], ids=["a place that is recorded", "no place told"])
def test_a_kubectl_that_is_set_to_another_cluster_in_mid_run_learns_nothing_and_begins_nothing_there(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher, told: bool
) -> None:
    if told:
        launcher = KubernetesLauncher(Kubectl(), launcher.place())
    job = launcher.submit(spec(manifest("exit 0")), NAME, SINCE)
    in_state(launcher, job, JobState.SUCCEEDED)
    # The other cluster has no such object.
    fake_kubernetes.remove(fake_kubernetes.objects()[0])
    mark = {"metadata": {"uid": "another", "namespace": "ml"}}
    fake_kubernetes.put("configmap", "kube-root-ca.crt", mark)
    report = launcher.state(job)
    assert report.state is JobState.UNKNOWN
    assert "and this is namespace ml of the cluster with kube-root-ca.crt another" in report.reason
    with pytest.raises(LauncherError, match="its jobs are in namespace default of"):
        launcher.find(NAME, SINCE)
    with pytest.raises(LauncherError, match="its jobs are in namespace default of"):
        launcher.cancel(job)
    with pytest.raises(NotLaunchedError, match="its jobs are in namespace default of"):
        launcher.submit(spec(manifest()), "llama-r1", SINCE)
    assert fake_kubernetes.objects() == []


def test_while_the_cluster_does_not_say_which_one_it_is_no_job_is_gone(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest("exit 0")), NAME, SINCE)
    in_state(launcher, job, JobState.SUCCEEDED)
    fake_kubernetes.remove(fake_kubernetes.objects()[0])
    fake_kubernetes.fail("tls timeout", verb="get configmap")
    assert launcher.state(job).state is JobState.UNKNOWN
    fake_kubernetes.heal()
    report = launcher.state(job)
    assert report.state is JobState.GONE
    assert "it was deleted, or its ttlSecondsAfterFinished was over" in report.reason


def test_a_cluster_that_does_not_say_which_one_it_is_is_known_by_its_address(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    fake_kubernetes.fail("forbidden", verb="get")
    address = launcher.place()
    assert address == "namespace default of https://10.1.2.3:6443", "without the password in it"
    fake_kubernetes.heal()
    # Somebody who may do more goes on with such a run.
    assert launcher.place() != address
    assert kubernetes.launcher(Path(), (), address).find(NAME, SINCE) is None


def test_a_manifest_for_another_namespace_is_refused(launcher: KubernetesLauncher) -> None:
    with pytest.raises(JobRefusedError) as refused:
        launcher.submit(spec(manifest(metadata={"namespace": "ml"})), NAME, SINCE)
    assert refused.value.told == (
        "the manifest is for namespace ml, and this launcher for kubectl's own; give --namespace ml"
    )


@pytest.mark.parametrize("option", ["--partition=gpu", "--namespace=Ml"])
def test_options_of_which_nothing_can_come_are_refused(option: str) -> None:
    with pytest.raises(JobRefusedError):
        kubernetes.launcher(Path(), (option,))


LOGS = [
    ("of a long one the end", "seq 1 100000", 40, "99995\n99996\n99997\n99998\n99999\n100000\n"),
    ("of long lines, too", "for i in 1 2 3 4 5 6 7 8 9; do head -c 3000 /dev/zero | tr '\\0' $i; echo; done", 7000,
     "8" * 3000 + "\n" + "9" * 3000 + "\n"),
    ("what is no text is shown as none", "printf 'a\\377b\\n'", 1000, "a\ufffdb\n"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "most", "text"), labelled(LOGS))
def test_the_end_of_a_log_is_had_in_whole_lines(
    launcher: KubernetesLauncher, script: str, most: int, text: str
) -> None:
    job = launcher.submit(spec(manifest(script)), NAME, SINCE)
    in_state(launcher, job, JobState.SUCCEEDED)
    assert launcher.output(job, most) == text.encode()


def test_of_several_pods_each_has_its_share_and_its_name(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest("seq 1 5000; sleep 300", parallelism=4, completions=4)), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    most = 4000
    text = until(lambda: launcher.output(job, most) or b"", lambda text: text.count(b" 5000\n") == 4)
    found = text.decode().splitlines()
    assert sum(len(each) + 1 for each in found) <= most
    pods = {each["metadata"]["name"] for each in fake_kubernetes.pods()}
    assert {each.partition(" ")[0] for each in found} == {f"[pod/{name}/train]" for name in pods}


def test_bars_that_go_back_to_their_lines_beginning_crowd_out_no_pods_traceback(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    bars = """i=0; while [ $i -lt 40 ]; do printf '\\rstep %d: |######    |' $i; i=$((i+1)); done; echo"""
    said = "echo 'Traceback (most recent call last):'; echo 'RuntimeError: lost'; sleep 300"
    job = launcher.submit(spec(manifest(f"{bars}; {said}", parallelism=3, completions=3)), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    text = until(lambda: launcher.output(job, 1 << 20) or b"", lambda text: text.count(b"RuntimeError") == 3)
    lines = text.split(b"\n")
    for pod in fake_kubernetes.pods():
        prefix = f"[pod/{pod['metadata']['name']}/train] ".encode()
        first, *rest = [each.removeprefix(prefix) for each in lines if each.startswith(prefix)]
        assert first.count(b"\rstep ") == 40, "a line of bars is one line"
        assert rest == [b"Traceback (most recent call last):", b"RuntimeError: lost"]


def test_where_a_container_was_just_started_again_the_log_before_is_had(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    job = launcher.submit(spec(manifest()), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    assert launcher.output(job, 1000) == b""
    fake_kubernetes.has_restarted(fake_kubernetes.pods()[0], "Segmentation fault\n")
    assert launcher.output(job, 1000) == b"Segmentation fault\n"
    assert launcher.state(job).restarts == 1


def test_a_job_is_adopted_by_its_kind_and_name(fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher) -> None:
    job = launcher.submit(spec(manifest()), NAME, SINCE)
    in_state(launcher, job, JobState.RUNNING)
    found = adoption(job)
    assert found.id == adoption(job.removeprefix("job/")).id == adoption(job.replace("job/", "jobs.batch/")).id == job
    assert found.began_at is not None
    again = json.loads(found.script)
    assert again["spec"]["template"]["spec"]["containers"][0]["command"] == ["sh", "-c", "sleep 300"]
    assert "uid" not in again["metadata"]
    for name, told in (
        ("job/none", "there is no Job none"),
        ("pod/x", "is no job of Kubernetes"),
        ("a b", "is no job"),
    ):
        with pytest.raises(JobRefusedError, match=told):
            adoption(name)
    launcher.cancel(job)
    in_state(launcher, job, JobState.CANCELLED)
    with pytest.raises(JobRefusedError, match="has ended already"):
        adoption(job)


def several(launcher: KubernetesLauncher) -> dict[str, JobState]:
    """Jobs, and the states in which they are: one runs, one has ended well, one has failed, one waits for its image."""
    jobs = {
        launcher.submit(spec(manifest(script, container=container)), f"llama-r{number}", SINCE): state
        for number, (script, container, state) in enumerate(
            [
                ("sleep 300", {}, JobState.RUNNING),
                ("true", {}, JobState.SUCCEEDED),
                ("exit 3", {}, JobState.FAILED),
                ("true", {"image": NO_SUCH_IMAGE}, JobState.PENDING),
            ]
        )
    }
    for job, state in jobs.items():
        in_state(launcher, job, state)
    return jobs


def test_one_list_of_objects_and_one_of_pods_answer_for_many_jobs_but_those_that_have_to_be_asked_about_by_themselves(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    jobs = several(launcher)
    before = len(fake_kubernetes.calls())

    found = launcher.states(jobs)

    gets = [[word for word in call if not word.startswith("-")] for call in fake_kubernetes.calls()[before:]]
    assert gets == [["get", "jobs.batch"], ["get", "pods"]]
    assert {job: report.state for job, report in found.items()} == jobs
    assert found == {job: launcher.state(job) for job in jobs}

    foreign, well, lost, gone = jobs
    by_name = {f"job/{each['metadata']['name']}": each for each in fake_kubernetes.objects()}
    fake_kubernetes.change(by_name[foreign], lambda each: each["metadata"].pop("labels"))
    fake_kubernetes.remove(by_name[gone])
    for pod in fake_kubernetes.pods():
        if pod["metadata"]["labels"]["job-name"] == lost.removeprefix("job/"):
            fake_kubernetes.remove({**pod, "kind": "Pod"})

    assert list(KubernetesLauncher(Kubectl()).states([*jobs, "no job"])) == [well]
    assert launcher.states([foreign, well]) == {}, "two are asked about each by itself"


def test_of_no_job_anything_is_known_while_the_cluster_does_not_list_them(
    fake_kubernetes: FakeKubernetes, launcher: KubernetesLauncher
) -> None:
    jobs = [f"job/llama-{number}" for number in range(4)]
    fake_kubernetes.fail("refused")
    found = launcher.states(jobs)
    assert {job: report.state for job, report in found.items()} == dict.fromkeys(jobs, JobState.UNKNOWN)
