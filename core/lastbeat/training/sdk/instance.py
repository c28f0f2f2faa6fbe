"""Identifies this machine by the name that a console or a queue shows for it.

The sources are tried in this order, and the first answer is the instance's id: the ECS agent, if the environment names
it; EC2's metadata service (IMDSv2), if the kernel reports an EC2 machine or the environment names an endpoint; then
what needs no request: Slurm's node, Kubernetes' pod, the host name.
"""

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lastbeat.training.sdk.metadata_service import EC2_ADDRESS, connected, is_ec2

LIMIT_S = 1.0
"""Time limit for all questions over the network together."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,199}")
_KUBERNETES = Path("/var/run/secrets/kubernetes.io")


@dataclass(frozen=True, slots=True)
class Instance:
    """This machine as far as it is known."""

    id: str
    zone: str | None = None
    """Availability zone, if a cloud reported it."""
    type: str | None = None
    """Instance type, likewise."""
    host: str | None = None
    """The node, pod or host name, if ``id`` is something else."""


def local_instance(environ: Mapping[str, str], host: str, kubernetes: Path = _KUBERNETES) -> Instance:
    """The instance as the environment and files describe it, without any network. ``host`` is the host name."""
    node, job = _variable(environ, "SLURMD_NODENAME"), _variable(environ, "SLURM_JOB_ID")
    if node or job:
        return Instance(node or f"slurm-job-{job}")
    pod = _variable(environ, "POD_NAME")
    if not pod and (_variable(environ, "KUBERNETES_SERVICE_HOST") or kubernetes.is_dir()):
        pod = _variable(environ, "HOSTNAME")
    return Instance(pod or _name(host) or "unknown")


def cloud_instance(
    environ: Mapping[str, str], known: Instance, *, limit_s: float = LIMIT_S, sys: Path = Path("/sys")
) -> Instance:
    """The instance as the cloud's metadata service knows it; ``known`` if there is none.

    Takes at most ``limit_s``, whatever that service does. Never raises. ``sys`` is where the kernel names the machine's
    vendor.
    """
    until = time.monotonic() + limit_s
    found = None
    with suppress(OSError, ValueError):
        task = _variable(environ, "ECS_CONTAINER_METADATA_URI_V4")
        if task:
            found = _ecs(task, until)
    if found is None and (_variable(environ, "AWS_EC2_METADATA_DISABLED") or "").lower() != "true":
        endpoint = _variable(environ, "AWS_EC2_METADATA_SERVICE_ENDPOINT")
        if endpoint or is_ec2(sys):
            with suppress(OSError, ValueError):
                found = _imds(endpoint or EC2_ADDRESS, until)
    return known if found is None else replace(found, host=known.id if known.id != found.id else None)


def _ecs(address: str, until: float) -> Instance | None:
    with connected(address, until) as service:
        document = json.loads(service.get("/task") or b"null")
    if not isinstance(document, dict) or not isinstance(document.get("TaskARN"), str):
        return None
    # arn:aws:ecs:region:account:task/cluster/id
    task = _name(document["TaskARN"].partition(":task/")[2])
    return Instance(task, zone=_name(document.get("AvailabilityZone"))) if task else None


def _imds(address: str, until: float) -> Instance | None:
    with connected(address, until) as service:
        token = _name(service.request("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"}))
        named = {"X-aws-ec2-metadata-token": token or ""}
        found = _name(service.get("/latest/meta-data/instance-id", named)) if token else None
        if found is None:
            return None
        instance = Instance(found)
        # The id alone is an answer, and a fault from here on must not lose it.
        with suppress(OSError, ValueError):
            instance = replace(
                instance, zone=_name(service.get("/latest/meta-data/placement/availability-zone", named))
            )
            instance = replace(instance, type=_name(service.get("/latest/meta-data/instance-type", named)))
        return instance


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name, "").strip()
    return text if 0 < len(text) <= 200 and text.isprintable() else None


def _name(value: object) -> str | None:
    """``value`` if it looks like a name that clouds and clusters give; None for anything else in an answer."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    return text.strip() if isinstance(text, str) and _NAME.fullmatch(text.strip()) else None
