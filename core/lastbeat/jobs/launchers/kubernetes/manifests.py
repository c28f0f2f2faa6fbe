"""Turns a user's manifest into the object that is created for one job. Pure.

lastbeat restarts jobs, by its policy and from the right checkpoint. So Kubernetes' own restarts are off unless the
manifest sets them: :data:`_DEFAULTS` holds each default. What the user wrote is kept.
"""

import copy
import hashlib
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from lastbeat.jobs.launchers.filling import CHECKPOINT, fill_all, filled
from lastbeat.jobs.launchers.kubernetes.kinds import (
    JOB,
    JOBSET,
    KINDS,
    PYTORCHJOB,
    RAYJOB,
    Kind,
    Object,
    kind_of,
    listed,
    mapping,
    text,
)
from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.model.job import JobSpec
from lastbeat.model.secrets import is_secret, mask_tokens
from lastbeat.model.text import one_line

RUN: Final = "lastbeat.dev/run"
NAME: Final = "lastbeat.dev/name"
"""Labels and annotations with the names of the run and the job. As labels, long names are cut and hashed."""
CANCELLED: Final = "lastbeat.dev/cancelled"
"""Annotation with the time of the request to cancel."""
MOST_BYTES: Final = 500_000
"""Most bytes of a manifest, which is kept in the run's record."""
_NAME_LENGTH: Final = 40
"""Most characters of an object's name. Names of its pods, services and hosts add up to 23 characters."""
_LABEL_LENGTH: Final = 63
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NODE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_HOST: Final = "kubernetes.io/hostname"
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_OF_THE_SERVER: Final = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
    "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
"""Metadata fields that the server sets for one instance of an object."""
_OF_ONE_JOB: Final = (
    "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name",
)  # fmt: skip
"""Labels that the API server sets on the pods of one job."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


# What the user wrote.


def checked(documents: Sequence[object], file: str) -> Object:
    """The one object of ``documents`` that runs training. Raises :class:`JobRefusedError`."""
    found = [each for each in documents if each is not None]
    if not found:
        raise JobRefusedError(f"{file} is empty", f"write one {_kinds()} into it")
    words = [text(each, "kind") or "something without a kind" for each in found]
    if len(found) > 1:
        raise JobRefusedError(
            f"{file} holds {len(found)} objects ({', '.join(words[:5])}), of which each attempt would need new ones",
            "leave the one that runs training in it, and create the others beforehand: kubectl apply -f",
        )
    value = found[0]
    kind = kind_of(value) if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind is None:
        what = text(value, "apiVersion")
        raise JobRefusedError(f"{file} holds a {words[0]}{f' of {what}' if what else ''}", f"it has to be a {_kinds()}")
    _check(value, kind, file)
    return value


def manifest_text(value: Object) -> str:
    """The object as it is kept. Raises :class:`JobRefusedError` for one that is too large."""
    said = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if len(said.encode("utf-8", "replace")) > MOST_BYTES:
        raise JobRefusedError(
            f"the manifest has more than {MOST_BYTES:,} bytes", "put scripts into the image or into a ConfigMap"
        )
    return said


def read(said: str) -> tuple[Object, Kind]:
    """The object of a kept manifest. Raises :class:`JobRefusedError` for anything else."""
    try:
        value = json.loads(said)
    except ValueError:
        raise JobRefusedError("the record of it has no manifest", "begin the run again, with its manifest") from None
    value = checked([value], "its manifest")
    return value, _kind(value)


def warnings(value: Object) -> list[str]:
    """What in a manifest works against restarts by lastbeat, with what to do."""
    return [each for each in _warnings(value, _kind(value)) if each]


def exported(value: Object) -> Object:
    """An object of the cluster as a manifest that can create it again."""
    made = copy.deepcopy({key: each for key, each in value.items() if key != "status"})
    metadata = mapping(made, "metadata")
    for name in (*_OF_THE_SERVER, "namespace"):
        metadata.pop(name, None)
    kind = kind_of(made)
    templates = list(kind.templates(made)) if kind is not None else []
    for each in (made, *templates):
        for name in _OF_ONE_JOB:
            mapping(each, "metadata", "labels").pop(name, None)
        for name in (_LAST_APPLIED, CANCELLED, "batch.kubernetes.io/job-tracking"):
            mapping(each, "metadata", "annotations").pop(name, None)
        mapping(each, "metadata").pop("creationTimestamp", None)
    if kind is JOB:
        spec = mapping(made, "spec")
        if spec.get("manualSelector") is not True:
            spec.pop("selector", None)
        spec.pop("suspend", None)
    return made


# The object of one job.


def object_name(name: str, since: datetime) -> str:
    """The name of the object for the job ``name`` that began at ``since``: a readable DNS label of at most 40
    characters. Equal arguments give equal names.

    It begins with a letter, because some kinds name services after it.
    """
    key = f"{name}\n{since.astimezone(timezone.utc).isoformat()}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    numbered = re.search(r"-r\d{1,9}$", name, re.ASCII)
    end = numbered[0] if numbered is not None else ""
    slug = re.sub(r"[^a-z0-9]+", "-", name[: len(name) - len(end)].lower()).strip("-")
    slug = slug if slug[:1].isalpha() else f"run-{slug}".rstrip("-")
    room = _NAME_LENGTH - len(digest) - 1 - len(end)
    return f"{slug[:room].rstrip('-')}{end}-{digest}"


def label(value: str) -> str:
    """``value`` as the value of a label: itself, or its beginning and a hash."""
    if _LABEL.fullmatch(value) is not None:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    start = re.sub(r"[^A-Za-z0-9_.-]+", "-", value).strip("-_.")[: _LABEL_LENGTH - 1 - len(digest)]
    return f"{start}-{digest}".lstrip("-")


def rendered(spec: JobSpec, name: str, since: datetime) -> Object:
    """The object that is created for the job ``name``. Raises :class:`JobRefusedError`."""
    value, kind = read(spec.manifest)
    made = copy.deepcopy(value)
    run = spec.environment.get("LASTBEAT_RUN_ID", name)
    metadata = made["metadata"] = mapping(made, "metadata")
    metadata.pop("generateName", None)
    metadata["name"] = object_name(name, since)
    for each in (made, *kind.templates(made)):
        about = each.setdefault("metadata", {})
        about["labels"] = {**mapping(about, "labels"), RUN: label(run), NAME: label(name)}
        about["annotations"] = {**mapping(about, "annotations"), RUN: run, NAME: name}
    _DEFAULTS[kind.name](made)
    _fill(made, kind, _values(spec, run, name))
    submitter = mapping(made, "spec", "submitterPodTemplate")
    for template in kind.templates(made):
        pod = mapping(template, "spec")
        pod.setdefault("terminationGracePeriodSeconds", math.ceil(spec.grace_s))
        for container in listed(pod, "containers"):
            _give(container, spec.environment)
        if template is not submitter:
            _train(template, spec, kind)
        _keep_off(pod, spec.excluded_nodes)
    if kind is RAYJOB and spec.command[1:]:
        made["spec"]["entrypoint"] = f"{made['spec'].get('entrypoint', '')} {shlex.join(spec.command[1:])}".strip()
    return made


def _values(spec: JobSpec, run: str, name: str) -> dict[str, str]:
    """Values for the names in braces, equal to those in the job's environment."""
    variables = {"attempt": "LASTBEAT_ATTEMPT", **{each: f"LASTBEAT_{each.upper()}" for each in CHECKPOINT}}
    known = {each: spec.environment[variable] for each, variable in variables.items() if variable in spec.environment}
    return {"run_id": run, "job_name": name, **known}


def namespace(value: Object) -> str:
    """The namespace that a manifest names, or ""."""
    return text(value, "metadata", "namespace")


def _of_job(spec: Object) -> None:
    """Set the defaults of a Job: no retries, because lastbeat restarts it."""
    if "backoffLimitPerIndex" not in spec:
        spec.setdefault("backoffLimit", 0)
    mapping(spec, "template", "spec").setdefault("restartPolicy", "Never")


def _default_job(made: Object) -> None:
    _of_job(mapping(made, "spec"))


def _default_jobset(made: Object) -> None:
    for each in listed(made, "spec", "replicatedJobs"):
        _of_job(mapping(each, "template", "spec"))


def _default_pytorch(made: Object) -> None:
    spec = mapping(made, "spec")
    for each in mapping(spec, "pytorchReplicaSpecs").values():
        if isinstance(each, dict):
            each.setdefault("restartPolicy", "Never")
    # Otherwise the workers of a failed master would keep their GPUs.
    policy = spec["runPolicy"] = mapping(spec, "runPolicy")
    policy.setdefault("cleanPodPolicy", "Running")


def _default_ray(made: Object) -> None:
    # Otherwise the cluster of a finished job would keep its GPUs.
    mapping(made, "spec").setdefault("shutdownAfterJobFinishes", True)


_DEFAULTS: Final[Mapping[str, Callable[[Object], None]]] = {
    JOB.name: _default_job,
    JOBSET.name: _default_jobset,
    PYTORCHJOB.name: _default_pytorch,
    RAYJOB.name: _default_ray,
}
"""Kind → function that sets the fields that a manifest leaves out."""


def _give(container: Object, environment: Mapping[str, str]) -> None:
    """Add our variables to the container. They replace its own of the same names."""
    others = [each for each in listed(container, "env") if each.get("name") not in environment]
    ours = [{"name": name, "value": literal(said)} for name, said in environment.items()]
    container["env"] = [*others, *ours]


def literal(said: str) -> str:
    """``said`` escaped for a field in which ``$(NAME)`` stands for a variable."""
    return said.replace("$", "$$")


def _fill(made: Object, kind: Kind, values: Mapping[str, str]) -> None:
    """Fill in the names in braces in commands, arguments and variables."""
    escaped = {name: literal(said) for name, said in values.items()}
    for template in kind.templates(made):
        for container in listed(template, "spec", "containers"):
            # The first word of a command is its program; the first of the arguments may be an option.
            for key, program in (("command", ()), ("args", ("",))):
                if key in container:
                    container[key] = list(filled((*program, *_texts(container[key])), escaped))[len(program) :]
            for each in listed(container, "env"):
                if isinstance(each.get("value"), str):
                    each["value"] = fill_all(each["value"], escaped)
    spec = mapping(made, "spec")
    if kind is RAYJOB and isinstance(spec.get("entrypoint"), str):
        # A shell reads it, and an option without a value would take the next word instead.
        missing = "|".join(name for name in CHECKPOINT if name not in values)
        said = (
            re.sub(rf"(^|\s)(?:--?[\w.-]+(?:=|\s+))?\{{(?:{missing})\}}(?=\s|$)", "", spec["entrypoint"])
            if missing
            else spec["entrypoint"]
        )
        spec["entrypoint"] = fill_all(said, {name: shlex.quote(each) for name, each in values.items()})


def _train(template: Object, spec: JobSpec, kind: Kind) -> None:
    """Set the requested arguments and folder in the template's training container."""
    containers = listed(template, "spec", "containers")
    named = text(template, "metadata", "annotations", _DEFAULT_CONTAINER)
    container = next((each for each in containers if each.get("name") == named), containers[0] if containers else None)
    if container is None:
        return
    if spec.command[1:] and kind is not RAYJOB:
        container["args"] = [*_texts(container.get("args")), *map(literal, spec.command[1:])]
    if spec.cwd:
        container["workingDir"] = spec.cwd


def _keep_off(pod: Object, nodes: Sequence[str]) -> None:
    """Keep the pod off ``nodes``, by node name and by host name, which differ on some clusters.

    Terms are alternatives, so each needs the exclusion. An empty term matches no node.
    """
    # Names from logs may be any text.
    hosts = [each for each in dict.fromkeys(nodes) if _LABEL.fullmatch(each) is not None]
    names = [each for each in dict.fromkeys(nodes) if _NODE.fullmatch(each) is not None]
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [each]} for each in names]
    labels = [{"key": _HOST, "operator": "NotIn", "values": hosts}] if hosts else []
    if not fields and not labels:
        return
    affinity = pod["affinity"] = mapping(pod, "affinity")
    node = affinity["nodeAffinity"] = mapping(affinity, "nodeAffinity")
    which = "requiredDuringSchedulingIgnoredDuringExecution"
    required = node[which] = mapping(node, which)
    terms = listed(required, "nodeSelectorTerms")
    required["nodeSelectorTerms"] = terms or [{}]
    for term in required["nodeSelectorTerms"]:
        if not terms or term.get("matchExpressions") or term.get("matchFields"):
            for key, rules in (("matchExpressions", labels), ("matchFields", fields)):
                if rules:
                    term[key] = [*listed(term, key), *rules]


# What is refused, and what is worth a word.


def _kind(value: Object) -> Kind:
    kind = kind_of(value)
    if kind is None:
        raise JobRefusedError(f"a {text(value, 'kind')} runs no training", f"it has to be a {_kinds()}")
    return kind


def _kinds() -> str:
    *first, last = (f"{each.word} ({each.api})" for each in KINDS.values())
    return f"{', '.join(first)} or {last}"


def _check(value: Object, kind: Kind, file: str) -> None:
    for key in ("metadata", "spec"):
        if not isinstance(value.get(key, {}), dict):
            raise JobRefusedError(f"{file}: {key} has to be an object")
    if kind is RAYJOB and mapping(value, "spec", "clusterSelector"):
        raise JobRefusedError(
            f"{file}: clusterSelector names a cluster that is there already",
            "take --launcher ray or ray-pod, which submit to such a cluster",
        )
    if kind is PYTORCHJOB and text(value, "spec", "runPolicy", "cleanPodPolicy") == "None":
        raise JobRefusedError(
            f"{file}: cleanPodPolicy: None leaves pods of a failed job running, and its GPUs taken",
            "leave it out, or write Running",
        )
    templates = [each for each in kind.templates(value) if listed(each, "spec", "containers")]
    if not templates:
        raise JobRefusedError(
            f"{file}: its {kind.word} has no pod template with containers", "kubectl explain shows it"
        )
    for template in templates:
        for name, said in _variables(template):
            if is_secret(name, said):
                raise JobRefusedError(f"{file}: the variable {name} {_RECORDED}", _KEEP)
        for said in _commands(template):
            _check_words(said, file)
    if kind is RAYJOB:
        entrypoint = mapping(value, "spec").get("entrypoint")
        _check_words(entrypoint if isinstance(entrypoint, str) else "", file)
        _check_runtime_env(mapping(value, "spec").get("runtimeEnvYAML"), file)


_RECORDED: Final = "looks like a secret, and a manifest is recorded beside the run"
_KEEP: Final = "keep it in a Secret of the cluster, and name that by valueFrom.secretKeyRef"
_ASSIGNED: Final = re.compile(r"""(?<![\w.-])([A-Z][A-Z0-9_]*)=["']?([^\s"';&|]+)""")
"""A variable set for a shell or env. Options such as --eos-token do not match."""
_REFERENCE: Final = ("$", "{", "/")
"""First characters of a value that is a reference: ``$NAME``, ``$(cat FILE)``, a file."""
_BETWEEN: Final = re.compile(r"[\s\"'=;,&|<>()]+")


def _commands(template: Object) -> Iterator[str]:
    for what in ("containers", "initContainers"):
        for container in listed(template, "spec", what):
            yield " ".join((*_texts(container.get("command")), *_texts(container.get("args"))))


def _check_words(said: str, file: str) -> None:
    """Raises :class:`JobRefusedError` for a command with a variable or a word that looks secret."""
    for name, value in _ASSIGNED.findall(said):
        if not value.startswith(_REFERENCE) and is_secret(name, value):
            raise JobRefusedError(f"{file}: the variable {name} in a command {_RECORDED}", _KEEP)
    for word in _BETWEEN.split(said):
        # Only the form of a word counts: the value after "tokenizer:" is no secret.
        if any(mask_tokens(part) != part for part in ([word] if "://" in word else word.split(":"))):
            raise JobRefusedError(f"{file}: a word of a command {_RECORDED}", _KEEP)


def _check_runtime_env(said: object, file: str) -> None:
    """Raises :class:`JobRefusedError` if a RayJob's ``runtimeEnvYAML`` is not YAML or seems to hold a secret."""
    import yaml  # noqa: PLC0415 - for such manifests alone

    where = f"{file}: spec.runtimeEnvYAML"
    if not isinstance(said, str):
        return
    try:
        found = yaml.safe_load(said)
    except (yaml.YAMLError, ValueError, RecursionError):
        # Leave out the YAML error's text, because it quotes the value.
        raise JobRefusedError(f"{where} is no YAML", "look at it again") from None
    seen: set[int] = set()
    left: list[tuple[str, object]] = [("", found)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict | list):
            # A YAML alias repeats the same object.
            if id(value) not in seen:
                seen.add(id(value))
                named = value.items() if isinstance(value, dict) else ((name, each) for each in value)
                left.extend((one_line(str(key))[:100], each) for key, each in named)
        elif value is not None and not isinstance(value, bool) and is_secret(name, str(value)):
            raise JobRefusedError(f"{where}: {name or 'a word'} {_RECORDED}", _KEEP)


def _variables(template: Object) -> Iterator[tuple[str, str]]:
    for what in ("containers", "initContainers"):
        for container in listed(template, "spec", what):
            for each in listed(container, "env"):
                if isinstance(each.get("name"), str) and isinstance(each.get("value"), str):
                    yield each["name"], each["value"]


def _warnings(value: Object, kind: Kind) -> Iterator[str]:
    yield from _of_backoff(value, kind)
    for template in kind.templates(value):
        policy = text(template, "spec", "restartPolicy")
        if policy in {"OnFailure", "Always"} and kind is not RAYJOB:
            yield (
                f"restartPolicy: {policy} has Kubernetes start containers again by itself, from the checkpoint of the "
                "first time, and with OnFailure their logs go with them: Never leaves that to lastbeat"
            )
            break
    ttl = mapping(value, "spec").get("ttlSecondsAfterFinished")
    if isinstance(ttl, int) and ttl < 600:
        yield (
            f"ttlSecondsAfterFinished: {ttl} may remove the {kind.word} before its end was seen: leave it out, or take "
            "an hour"
        )
    if kind is RAYJOB and mapping(value, "spec").get("shutdownAfterJobFinishes") is False:
        yield (
            "shutdownAfterJobFinishes: false keeps the cluster of a job that has ended, and its GPUs, so that a "
            "restart may wait for them: leave it out"
        )


def _of_backoff(value: Object, kind: Kind) -> Iterator[str]:
    spec = mapping(value, "spec")
    specs: list[Mapping[str, Any]] = [spec]
    if kind is JOBSET:
        specs = [mapping(each, "template", "spec") for each in listed(spec, "replicatedJobs")]
        restarts = mapping(spec, "failurePolicy").get("maxRestarts")
        if isinstance(restarts, int) and restarts > 0:
            yield _MULTIPLIED.format(what=f"failurePolicy.maxRestarts: {restarts}")
    if kind is PYTORCHJOB:
        specs = [mapping(spec, "runPolicy")]
    most = max((each for one in specs if isinstance(each := one.get("backoffLimit"), int)), default=0)
    if most > 0:
        yield _MULTIPLIED.format(what=f"backoffLimit: {most}")


_MULTIPLIED: Final = (
    "{what} has Kubernetes start failed pods again by itself, from the checkpoint of the first time, before lastbeat's "
    "policy and its budgets are asked: 0, or leaving it out, leaves that to lastbeat"
)


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
