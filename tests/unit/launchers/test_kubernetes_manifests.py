"""What becomes of a user's manifest: the object of one job."""

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.launchers.kubernetes import manifests
from lastbeat.jobs.launchers.kubernetes.kinds import KINDS, kind_of
from lastbeat.jobs.launchers.kubernetes.manifests import checked, exported, label, object_name, rendered, warnings
from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.model.job import JobSpec
from support.row_by_row import labelled

SINCE = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
ENVIRONMENT = {
    "LASTBEAT_RUN_ID": "llama@7b",
    "LASTBEAT_ATTEMPT": "2",
    "LASTBEAT_RESTART_COUNT": "1",
    "LASTBEAT_RESUME_FROM": "s3://b/ckpt/step_100",
    "LASTBEAT_RESUME_STEP": "100",
}
AT_FIRST = {name: text for name, text in ENVIRONMENT.items() if "RESUME" not in name}


def pod(*args: str, **more: Any) -> dict[str, Any]:
    container = {"name": "train", "image": "training:1", "command": ["python", "train.py"], **more}
    return {"spec": {"containers": [container | ({"args": list(args)} if args else {})]}}


def job(*args: str, spec: Mapping[str, Any] = {}, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "labels": {"team": "nlp"}},
        "spec": {"template": pod(*args, **more), **spec},
    }


def jobset() -> dict[str, Any]:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "mine"},
        "spec": {
            "replicatedJobs": [{"name": "workers", "replicas": 2, "template": {"spec": {"template": pod("--a")}}}]
        },
    }


def pytorchjob() -> dict[str, Any]:
    replicas = {"Master": {"replicas": 1, "template": pod("--a")}, "Worker": {"replicas": 3, "template": pod("--a")}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "mine"},
        "spec": {"pytorchReplicaSpecs": replicas},
    }


def rayjob(entrypoint: str = "python train.py") -> dict[str, Any]:
    cluster = {
        "headGroupSpec": {"template": pod()},
        "workerGroupSpecs": [{"groupName": "gpus", "replicas": 2, "template": pod()}],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "mine"},
        "spec": {"entrypoint": entrypoint, "rayClusterSpec": cluster},
    }


ALL = {"job": job("--a"), "jobset": jobset(), "pytorchjob": pytorchjob(), "rayjob": rayjob()}


def made(
    manifest: dict[str, Any], *arguments: str, environment: Mapping[str, str] = ENVIRONMENT, **more: Any
) -> dict[str, Any]:
    spec = JobSpec(("train.yaml", *arguments), more.pop("cwd", ""), environment, manifest=json.dumps(manifest), **more)
    return rendered(spec, "llama@7b-r1", SINCE)


def containers(value: dict[str, Any]) -> list[dict[str, Any]]:
    kind = kind_of(value)
    assert kind is not None
    return [each for template in kind.templates(value) for each in template["spec"]["containers"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_pod_of_a_job_gets_what_training_wants_to_know(kind: str) -> None:
    value = made(ALL[kind])
    found = containers(value)
    assert len(found) == {"job": 1, "jobset": 1, "pytorchjob": 2, "rayjob": 2}[kind]
    for each in found:
        assert {one["name"]: one["value"] for one in each["env"]} == ENVIRONMENT


@pytest.mark.parametrize("kind", KINDS)
def test_the_object_and_its_pods_can_be_found_by_run_and_job(kind: str) -> None:
    value = made(ALL[kind])
    assert re.fullmatch(r"llama-7b-r1-[0-9a-f]{10}", value["metadata"]["name"])
    templates = list(KINDS[kind].templates(value))
    for each in (value, *templates):
        assert each["metadata"]["labels"]["lastbeat.dev/run"].startswith("llama-7b-")
        assert each["metadata"]["annotations"] == {
            "lastbeat.dev/run": "llama@7b",
            "lastbeat.dev/name": "llama@7b-r1",
        }


FILLED = [
    ("a checkpoint is filled in", ["--load={resume_from}"], ["--load=s3://b/ckpt/step_100"], []),
    ("one text stays one", ["-c", "run {resume_from};"], ["-c", "run s3://b/ckpt/step_100;"], ["-c", "run ;"]),
    ("run and attempt", ["{run_id}-{attempt}-{resume_step}"], ["llama@7b-2-100"], ["llama@7b-2-"]),
    ("what nobody fills in stays", ["{0}", "{x}"], ["{0}", "{x}"], ["{0}", "{x}"]),
]  # fmt: skip


@pytest.mark.parametrize(("args", "later", "first"), labelled(FILLED))
def test_braces_in_arguments_are_filled_in_as_in_commands(args: list[str], later: list[str], first: list[str]) -> None:
    assert containers(made(job(*args)))[0]["args"] == later
    assert containers(made(job(*args), environment=AT_FIRST))[0]["args"] == first


def test_braces_in_variables_are_filled_in_too() -> None:
    env = [{"name": "LOAD", "value": "{resume_from}"}, {"name": "WHO", "valueFrom": {"fieldRef": {}}}]
    found = {each["name"]: each for each in containers(made(job(env=env)))[0]["env"]}
    assert found["LOAD"]["value"] == "s3://b/ckpt/step_100"
    assert found["WHO"] == env[1]
    assert containers(made(job(env=env), environment=AT_FIRST))[0]["env"][0]["value"] == ""


def test_no_value_of_ours_is_read_as_a_variable() -> None:
    environment = {**ENVIRONMENT, "SAID": "$(HOME) $$ $"}
    value = made(job(), "$(HOME)", environment=environment)
    assert containers(value)[0]["args"] == ["$$(HOME)"]
    assert containers(value)[0]["env"][-1] == {"name": "SAID", "value": "$$(HOME) $$$$ $$"}


RAY = [
    ("python train.py --load={resume_from}", "python train.py --load=s3://b/ckpt/step_100", "python train.py"),
    ("python train.py --load {resume_from} -x", "python train.py --load s3://b/ckpt/step_100 -x", "python train.py -x"),
    ("A={resume_step} python train.py", "A=100 python train.py", "A= python train.py"),
]


@pytest.mark.parametrize(("entrypoint", "later", "first"), RAY)
def test_the_entrypoint_of_a_ray_job_is_filled_in_for_the_shell_that_reads_it(
    entrypoint: str, later: str, first: str
) -> None:
    assert made(rayjob(entrypoint))["spec"]["entrypoint"] == later
    assert made(rayjob(entrypoint), environment=AT_FIRST)["spec"]["entrypoint"] == first
    hostile = made(rayjob(entrypoint), environment={**ENVIRONMENT, "LASTBEAT_RESUME_FROM": "a b; evil"})
    assert "; evil" not in hostile["spec"]["entrypoint"].replace("'a b; evil'", "")


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_after_the_manifest_are_those_of_training(kind: str) -> None:
    value = made(ALL[kind], "--lr", "a b")
    if kind == "rayjob":
        assert value["spec"]["entrypoint"] == "python train.py --lr 'a b'"
        assert all("args" not in each for each in containers(value))
    else:
        assert all(each["args"] == ["--a", "--lr", "a b"] for each in containers(value))


def test_beside_others_the_training_container_is_the_first_or_the_one_that_is_named() -> None:
    value = job()
    pods = value["spec"]["template"]
    pods["spec"]["containers"].append({"name": "sidecar", "image": "logs:1"})
    assert ["args" in each for each in containers(made(value, "--lr"))] == [True, False]
    pods["metadata"] = {"annotations": {"kubectl.kubernetes.io/default-container": "sidecar"}}
    assert ["args" in each for each in containers(made(value, "--lr"))] == [False, True]
    assert all(each["env"] for each in containers(made(value)))


def test_a_folder_that_was_asked_for_is_that_of_the_container() -> None:
    assert containers(made(job(), cwd="/workspace"))[0]["workingDir"] == "/workspace"
    assert "workingDir" not in containers(made(job()))[0]


HOSTS = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "N_2"]}
N1 = {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}
GPU = {"key": "gpu", "operator": "In", "values": ["h100"]}
AFFINITIES = [
    ("a pod that goes anywhere", {}, [{"matchExpressions": [HOSTS], "matchFields": [N1]}]),
    ("what is required stays required", {"nodeSelectorTerms": [{"matchExpressions": [GPU]}]},
     [{"matchExpressions": [GPU, HOSTS], "matchFields": [N1]}]),
    ("each alternative has to say it", {"nodeSelectorTerms": [{"matchExpressions": [GPU]}, {"matchFields": [GPU]}]},
     [{"matchExpressions": [GPU, HOSTS], "matchFields": [N1]},
      {"matchExpressions": [HOSTS], "matchFields": [GPU, N1]}]),
    ("a term that fits no node still fits none", {"nodeSelectorTerms": [{}, {"matchExpressions": [GPU]}]},
     [{}, {"matchExpressions": [GPU, HOSTS], "matchFields": [N1]}]),
]  # fmt: skip


@pytest.mark.parametrize(("required", "terms"), labelled(AFFINITIES))
def test_pods_are_kept_off_excluded_nodes(required: dict[str, Any], terms: list[Any]) -> None:
    value = job()
    node = {"requiredDuringSchedulingIgnoredDuringExecution": required} if required else {}
    value["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": node, "podAffinity": {"kept": True}}
    found = made(value, excluded_nodes=("n1", "N_2", "no; node", ""))["spec"]["template"]["spec"]["affinity"]
    assert found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == terms
    assert found["podAffinity"] == {"kept": True}
    assert "affinity" not in made(job(), excluded_nodes=("not a node",))["spec"]["template"]["spec"]


def test_where_a_manifest_says_nothing_restarts_are_left_to_lastbeat() -> None:
    assert made(job())["spec"]["backoffLimit"] == 0
    assert made(job())["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    inner = made(jobset())["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (inner["backoffLimit"], inner["template"]["spec"]["restartPolicy"]) == (0, "Never")
    pytorch = made(pytorchjob())["spec"]
    assert {each["restartPolicy"] for each in pytorch["pytorchReplicaSpecs"].values()} == {"Never"}
    assert pytorch["runPolicy"]["cleanPodPolicy"] == "Running", "pods of a failed job give their GPUs back"
    assert made(rayjob())["spec"]["shutdownAfterJobFinishes"] is True, "and so does its cluster"
    assert not any(warnings(each) for each in ALL.values())


def test_what_the_user_wrote_about_restarts_is_kept_and_warned_of() -> None:
    value = job(spec={"backoffLimit": 3, "ttlSecondsAfterFinished": 60})
    value["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert made(value)["spec"]["backoffLimit"] == 3
    assert made(value)["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"
    told = "\n".join(warnings(value))
    assert "backoffLimit: 3 has Kubernetes start failed pods again by itself" in told
    assert "restartPolicy: OnFailure" in told
    assert "ttlSecondsAfterFinished: 60 may remove the Job before" in told
    assert (
        "maxRestarts: 2" in warnings(jobset() | {"spec": {**jobset()["spec"], "failurePolicy": {"maxRestarts": 2}}})[0]
    )
    assert "backoffLimit" not in made(job(spec={"backoffLimitPerIndex": 1}))["spec"]


def test_the_grace_is_that_of_the_pod_unless_it_has_one() -> None:
    assert made(job(), grace_s=1.5)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 2
    value = job()
    value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 300
    assert made(value)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 300


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
REFUSED = [
    ("nothing at all", [], "train.yaml is empty; write one Job (batch/v1), JobSet"),
    ("other objects beside it", [CONFIG_MAP, job()], "holds 2 objects (ConfigMap, Job), of which each attempt would"),
    ("something else", [CONFIG_MAP], "holds a ConfigMap of v1; it has to be a Job (batch/v1)"),
    ("no pods", [{"apiVersion": "batch/v1", "kind": "Job", "spec": {}}], "its Job has no pod template with containers"),
    ("a spec that is none", [{"apiVersion": "batch/v1", "kind": "Job", "spec": 3}], "spec has to be an object"),
    ("a cluster that is there already", [rayjob() | {"spec": {"clusterSelector": {"ray.io/cluster": "c"}}}],
     "clusterSelector names a cluster that is there already; take --launcher ray"),
    ("pods that stay", [pytorchjob() | {"spec": {**pytorchjob()["spec"], "runPolicy": {"cleanPodPolicy": "None"}}}],
     "cleanPodPolicy: None leaves pods of a failed job running"),
    ("a secret", [job(env=[{"name": "HF_TOKEN", "value": "x"}])],
     "the variable HF_TOKEN looks like a secret, and a manifest is recorded beside the run; keep it in a Secret"),
]  # fmt: skip


@pytest.mark.parametrize(("documents", "told"), labelled(REFUSED))
def test_what_cannot_be_started_is_refused_with_what_to_do(documents: list[object], told: str) -> None:
    with pytest.raises(JobRefusedError) as refused:
        checked(documents, "train.yaml")
    assert told in refused.value.told


GITHUB = "ghp_" + "abc123" * 6


def with_environment(text: str) -> dict[str, Any]:
    return rayjob() | {"spec": {**rayjob()["spec"], "runtimeEnvYAML": text}}


SECRETS = [
    ("in a shell's line", job(command=["sh", "-c", "export HF_TOKEN='abc123'; python train.py"]), "variable HF_TOKEN"),
    ("for env", job("env", "WANDB_API_KEY=abc123", "python"), "variable WANDB_API_KEY"),
    ("in an address", job("--proxy=https://bob:abc123abc123@proxy:8080"), "a word of a command"),
    ("in an entrypoint", rayjob("WANDB_API_KEY=abc123 python train.py"), "variable WANDB_API_KEY"),
    ("in Ray's environment", with_environment("env_vars:\n  WANDB_API_KEY: abc123\n"), "WANDB_API_KEY"),
    ("in Ray's environment on one line", with_environment('env_vars: {A: "1", "HF_TOKEN": abc123}'), "HF_TOKEN"),
    ("in the address of a package", with_environment(f"pip: ['git+https://{GITHUB}@github.com/x/y']"), "pip"),
    ("in what nobody can read", with_environment("env_vars: {HF_TOKEN: abc123"), "spec.runtimeEnvYAML is no YAML"),
]


@pytest.mark.parametrize(("value", "told"), labelled(SECRETS))
def test_a_secret_is_refused_wherever_it_stands_and_never_repeated(value: dict[str, Any], told: str) -> None:
    with pytest.raises(JobRefusedError) as refused:
        checked([value], "train.yaml")
    assert told in refused.value.told
    assert "abc123" not in refused.value.told


HARMLESS = [
    ("a tokenizer", job("--tokenizer=meta-llama/Llama-3-8B", "--eos-token", "<|end_of_text|>", "text_key=content")),
    ("a variable that is looked up", job(command=["sh", "-c", "HF_TOKEN=$OTHER X_KEY=$(cat /run/x) python train.py"])),
    ("an ordinary environment of Ray's", with_environment("env_vars: {A: 1, B: x}\npip: [torch==2.5]\n")),
    ("one that repeats itself", with_environment("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")),
]


@pytest.mark.parametrize("value", labelled(HARMLESS))
def test_what_only_sounds_like_a_secret_is_taken(value: dict[str, Any]) -> None:
    assert checked([value], "train.yaml") == value


def test_a_job_of_the_cluster_can_be_created_anew() -> None:
    # As the API server of 1.31 shows it.
    value = job("--lr")
    uid = {"batch.kubernetes.io/controller-uid": "0b5f", "controller-uid": "0b5f"}
    named = {"batch.kubernetes.io/job-name": "mine", "job-name": "mine"}
    value["metadata"] |= {
        "namespace": "ml", "uid": "0b5f", "resourceVersion": "42", "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"team": "nlp", **uid, **named},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
    }  # fmt: skip
    value["spec"] |= {"selector": {"matchLabels": uid}, "backoffLimit": 6, "suspend": False}
    value["spec"]["template"]["metadata"] = {"creationTimestamp": None, "labels": {"app": "x", **uid, **named}}
    value["status"] = {"active": 1}
    found = exported(value)
    assert found["metadata"] == {"name": "mine", "labels": {"team": "nlp"}, "annotations": {"kept": "yes"}}
    assert found["spec"]["template"]["metadata"] == {"labels": {"app": "x"}}
    assert set(found["spec"]) == {"template", "backoffLimit"}
    assert "status" not in found
    assert value["status"], "what was read is not changed"


NAMES = st.text(min_size=1, max_size=40) | st.text("aZ09_.@:=+-", min_size=1, max_size=203)


@given(NAMES, NAMES, st.datetimes(timezones=st.just(timezone.utc)))
def test_an_objects_name_is_a_short_label_and_one_for_each_job(name: str, other: str, since: datetime) -> None:
    found = object_name(name, since)
    assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", found)
    assert len(found) <= 40
    assert found == object_name(name, since.astimezone(timezone(timedelta(hours=5)))), "whoever asks, and from where"
    assert name == other or found != object_name(other, since)
    assert found != object_name(name, since + timedelta(microseconds=1))


@given(NAMES, NAMES)
def test_a_label_is_one_that_the_api_server_takes_and_tells_names_apart(value: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", label(value))
    assert value == other or label(value) != label(other)


KEYS = st.sampled_from(["spec", "template", "containers", "env", "metadata", "args", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(JSON, st.sampled_from([*ALL.values()]))
def test_whatever_a_manifest_holds_it_is_taken_or_refused(inner: object, base: dict[str, Any]) -> None:
    value = {**base, "spec": inner}
    try:
        found = made(checked([value], "train.yaml"))
    except JobRefusedError:
        return
    assert found["metadata"]["name"]


def test_a_manifest_that_is_too_large_for_a_record_is_refused() -> None:
    with pytest.raises(JobRefusedError, match="more than 500,000 bytes"):
        manifests.manifest_text(job("x" * 500_000))
