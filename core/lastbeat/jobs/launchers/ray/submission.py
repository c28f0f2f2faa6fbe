"""Turns options, named as for ``ray job submit``, into the body of a request. Pure, but for reading the file that
``--runtime-env`` names.

Options are recorded beside the run, so they must not hold secrets. That file may, because each job reads it again.
"""

import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from lastbeat.jobs.launchers.port import JobRefusedError
from lastbeat.model.job import JobSpec
from lastbeat.model.secrets import is_secret
from lastbeat.model.text import nearest

ADDRESS: Final = "--ray-address"
RUNTIME_ENV: Final = "--runtime-env"
RUNTIME_ENV_JSON: Final = "--runtime-env-json"
_WORKING_DIR: Final = "--working-dir"
METADATA_JSON: Final = "--metadata-json"
_AMOUNTS: Final[Mapping[str, type[float] | type[int]]] = {
    "--entrypoint-num-cpus": float,
    "--entrypoint-num-gpus": float,
    "--entrypoint-memory": int,
}
_RESOURCES: Final = "--entrypoint-resources"
_LABELS: Final = "--entrypoint-label-selector"
OPTIONS: Final = (ADDRESS, RUNTIME_ENV, RUNTIME_ENV_JSON, _WORKING_DIR, METADATA_JSON, *_AMOUNTS, _RESOURCES, _LABELS)
NODE_ID: Final = "ray.io/node-id"
"""Ray's label with the id of the node."""
NAME: Final = "lastbeat_name"
"""The key of the job's name in its metadata."""
_ELSEWHERE: Final = {
    "--address": f"say it as {ADDRESS}",
    "--head-pod": "that is for --launcher ray-pod",
    "--namespace": "that is for --launcher ray-pod and kubernetes",
    "--container": "that is for --launcher ray-pod",
    "--context": "that is for --launcher ray-pod and kubernetes",
    "--submission-id": "the job's id is lastbeat's: it is found by it; --run-id names the job",
    "--no-wait": "leave it out; lastbeat waits",
    "--headers": "set RAY_JOB_HEADERS in the environment: options are recorded",
    "--verify": "set REQUESTS_CA_BUNDLE in the environment",
}
_LONGEST_NAME: Final = 100
_DIGITS: Final = 10
_MOST_FILE: Final = 1 << 20
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_UNLIKE_A_URL: Final = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]*://)")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The user's options, parsed and checked."""

    address: str = ""
    runtime_env_file: str = ""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    working_dir: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the request: ``entrypoint_num_gpus`` and the like."""


def options(given: Sequence[str]) -> RayOptions:
    """Parse and check ``given``. Raises :class:`JobRefusedError`."""
    said = dict(_pairs(given))
    if "@" in said.get(ADDRESS, ""):
        raise JobRefusedError(
            f"{ADDRESS} has a login in it, and options are recorded beside the run",
            "set RAY_ADDRESS to the address with it, or RAY_JOB_HEADERS, and write http://HOST:8265 here",
        )
    resources: dict[str, Any] = {}
    for name, kind in _AMOUNTS.items():
        if name in said:
            resources[_field(name)] = _number(name, said[name], kind)
    if _RESOURCES in said:
        found = _object(_RESOURCES, said[_RESOURCES])
        if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in found.values()):
            raise JobRefusedError(f"{_RESOURCES} has an amount that is no number", """as {"worker": 1}""")
        resources[_field(_RESOURCES)] = found
    if _LABELS in said:
        resources[_field(_LABELS)] = _texts(_LABELS, said[_LABELS])
    file = said.get(RUNTIME_ENV, "")
    if file and not Path(file).is_absolute():
        raise JobRefusedError(
            f"{RUNTIME_ENV}={file[:100]} is a relative path",
            "write an absolute path: the next job may be started in another folder",
        )
    runtime_env = _object(RUNTIME_ENV_JSON, said[RUNTIME_ENV_JSON]) if RUNTIME_ENV_JSON in said else {}
    _check_unrecorded(runtime_env)
    _check_folders(RUNTIME_ENV_JSON, runtime_env)
    working_dir = said.get(_WORKING_DIR, "")
    if working_dir:
        _check_remote(_WORKING_DIR, working_dir)
    metadata = _texts(METADATA_JSON, said[METADATA_JSON]) if METADATA_JSON in said else {}
    return RayOptions(said.get(ADDRESS, ""), file, runtime_env, working_dir, metadata, resources)


def request(spec: JobSpec, wanted: RayOptions, name: str, since: datetime) -> dict[str, Any]:
    """The body of the request that submits ``spec`` under ``name``. Raises :class:`JobRefusedError`."""
    for word in (*spec.command, spec.cwd, *spec.environment.values()):
        if _NO_TEXT.search(word):
            raise JobRefusedError(f"{word[:100]!r} is no UTF-8, which a request to Ray has to be", "rename it")
    file = _file(wanted.runtime_env_file) if wanted.runtime_env_file else {}
    environment = {**_variables(wanted.runtime_env), **_variables(file), **spec.environment}
    # The file adds to the recorded runtime environment, such as that of an adopted job.
    runtime_env = {**wanted.runtime_env, **file}
    if wanted.working_dir:
        runtime_env["working_dir"] = wanted.working_dir
    if environment:
        runtime_env["env_vars"] = environment
    return {
        "entrypoint": entrypoint(spec),
        "submission_id": submission_id(name, since),
        "metadata": {**wanted.metadata, NAME: name},
        **({"runtime_env": runtime_env} if runtime_env else {}),
        **wanted.resources,
    }


def _variables(runtime_env: Mapping[str, Any]) -> dict[str, str]:
    found = runtime_env.get("env_vars") or {}
    if not isinstance(found, dict):
        raise JobRefusedError("env_vars of the runtime environment is no object", 'as {"NAME": "value"}')
    return {str(key): str(value) for key, value in found.items()}


def entrypoint(spec: JobSpec) -> str:
    """The command for Ray's shell. It replaces the shell, so that Ray sees a signal that ends it."""
    run = f"exec {shlex.join(spec.command)}"
    return f"cd {shlex.quote(spec.cwd)} && {run}" if spec.cwd else run


def submission_id(name: str, since: datetime) -> str:
    """The submission id of the job, which Ray accepts once. Equal arguments give equal ids. Log files and actors are
    named by it, so it keeps to their characters and length."""
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", name)[-_LONGEST_NAME:]
    whole = "\n".join((name, since.astimezone(timezone.utc).isoformat()))
    return f"{readable}-{hashlib.sha256(whole.encode()).hexdigest()[:_DIGITS]}"


def excluding(asked: Mapping[str, Any], node_ids: Sequence[str]) -> dict[str, Any]:
    """``asked`` with a label selector that excludes these nodes."""
    selector = dict(asked.get("entrypoint_label_selector") or {})
    if NODE_ID in selector:
        return dict(asked)
    return {**asked, "entrypoint_label_selector": {**selector, NODE_ID: f"!in({','.join(node_ids)})"}}


def is_placed(asked: Mapping[str, Any]) -> bool:
    """Whether Ray places the entrypoint by the resources that it requests. Any other entrypoint runs on the head."""
    return any(asked.get(name) for name in asked if name.startswith("entrypoint_"))


def _pairs(given: Sequence[str]) -> list[tuple[str, str]]:
    """Name and value of each option, in the form ``--name=value`` or ``--name value``. The last of a name counts."""
    found: list[tuple[str, str]] = []
    left = list(given)
    while left:
        word = left.pop(0)
        name, joined, value = word.partition("=")
        if name not in OPTIONS:
            if name in _ELSEWHERE:
                raise JobRefusedError(f"{name} is no option of jobs on Ray", _ELSEWHERE[name])
            raise JobRefusedError(
                f"{word[:60]!r} is no option of jobs on Ray{nearest(name, OPTIONS)}",
                f"they are those of 'ray job submit': {', '.join(OPTIONS[1:])}",
            )
        if not joined:
            if not left:
                raise JobRefusedError(f"{name} has no value", f"as {name}=…")
            value = left.pop(0)
        found.append((name, value))
    return found


def _field(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _number(name: str, text: str, kind: type[float] | type[int]) -> float | int:
    try:
        found = kind(text)
    except ValueError:
        found = kind(-1)
    if not math.isfinite(found) or found < 0:
        what = "whole number of bytes" if kind is int else "number"
        raise JobRefusedError(f"{name}={text[:40]} is no {what}", f"as {name}=1")
    return found


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too deep"
        raise JobRefusedError(f"{name} is no JSON: {why}", """as {"name": "value"}, in one pair of quotes""") from None
    if not isinstance(found, dict):
        raise JobRefusedError(f"{name} is no JSON object", """as {"name": "value"}""")
    return found


def _texts(name: str, text: str) -> dict[str, str]:
    found = _object(name, text)
    if not all(isinstance(each, str) for each in found.values()):
        raise JobRefusedError(f"{name} has a value that is no text", """Ray takes texts alone: {"epoch": "1"}""")
    return found


def _check_unrecorded(runtime_env: Mapping[str, Any]) -> None:
    own = runtime_env.get("env_vars")
    for key, value in own.items() if isinstance(own, dict) else ():
        if is_secret(str(key), str(value)):
            raise JobRefusedError(
                f"{RUNTIME_ENV_JSON}: {str(key)[:60]} looks like a secret, and options are recorded beside the run",
                f"write it into a YAML file on this machine and name that by {RUNTIME_ENV}=/path/to/it",
            )


def _check_folders(said_by: str, runtime_env: Mapping[str, Any]) -> None:
    """Refuse local folders, because only Ray's own client packs and uploads them."""
    places = [("working_dir", runtime_env.get("working_dir"))]
    modules = runtime_env.get("py_modules")
    places += [("py_modules", each) for each in modules] if isinstance(modules, list) else []
    for name, place in places:
        if isinstance(place, str):
            _check_remote(f"{name} in {said_by}", place)


def _check_remote(name: str, place: str) -> None:
    if _UNLIKE_A_URL.match(place):
        raise JobRefusedError(
            f"{name}={place[:100]} is a folder, which nothing would bring to the cluster",
            "put a .zip of it where the cluster reads it (s3://, gs://, https://) and name that, or leave it out and "
            "name a folder that the nodes have as cwd",
        )


def _file(path: str) -> dict[str, Any]:
    """The runtime environment in the YAML file at ``path``."""
    import yaml  # noqa: PLC0415 - for such files alone

    try:
        with Path(path).open(encoding="utf-8") as opened:
            found = yaml.safe_load(opened.read(_MOST_FILE))
    except OSError as error:
        raise JobRefusedError(
            f"{RUNTIME_ENV}={path[:200]}: {error.strerror or error}", "it is read on the machine that starts the job"
        ) from None
    except (UnicodeError, yaml.YAMLError, RecursionError):
        # Leave out the YAML error's text, because it quotes the file.
        raise JobRefusedError(f"{RUNTIME_ENV}={path[:200]} is no YAML", "look at it again") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise JobRefusedError(f"{RUNTIME_ENV}={path[:200]} has no 'name: value' lines", "as env_vars: {NAME: value}")
    try:
        json.dumps(found)
    except (TypeError, ValueError):
        raise JobRefusedError(f"{RUNTIME_ENV}={path[:200]} has what JSON cannot say", "quote dates and times") from None
    _check_folders(RUNTIME_ENV, found)
    return found
