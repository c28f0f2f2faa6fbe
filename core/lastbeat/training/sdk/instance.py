"""This machine as its scheduler and its cloud know it: its name, and the cloud's notice that it takes it away.

The sources of the name are tried in this order, and the first answer is the instance's id: the ECS agent, if the
environment names it; EC2's metadata service (IMDSv2), if the kernel reports an EC2 machine or the environment names an
endpoint; then what needs no request: Slurm's node, Kubernetes' pod, the host name.

A notice comes 30 s to 2 minutes before. Its poll has a thread of its own: Google gives 30 seconds, and a store that
does not answer must not delay the poll. It runs only where the kernel or the environment names such a cloud. It ends
if the service never answers at first.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log
from lastbeat.training.sdk.threads import start_thread

if TYPE_CHECKING:
    from http.client import HTTPConnection


EC2_ADDRESS: Final = "http://169.254.169.254"
_DMI: Final = "devices/virtual/dmi/id"
_ANSWER_LIMIT_BYTES = 64 * 1024


def is_ec2(sys: Path) -> bool:
    """Whether the kernel reports an EC2 machine. Elsewhere the service would not answer."""
    vendor = _says(sys / _DMI / "sys_vendor", "amazon ec2") or _says(sys / _DMI / "bios_version", "amazon")
    return vendor or _says(sys / "hypervisor/uuid", "ec2")


def _says(file: Path, mark: str) -> bool:
    with suppress(OSError, ValueError):
        return mark in file.read_text("utf-8").lower()
    return False


class MetadataService:
    """One metadata service. Every request ends by the deadline, even if the service hangs."""

    def __init__(self, connection: "HTTPConnection", path: str, until: float) -> None:
        self._connection = connection
        self._path = path
        self._until = until

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> bytes | None:
        """The body of the answer; None unless its status is 200. Raises OSError."""
        return self.request("GET", path, headers or {})

    def request(self, method: str, path: str, headers: Mapping[str, str]) -> bytes | None:
        """:meth:`get` for any method."""
        from http.client import HTTPException  # noqa: PLC0415 - as in connected

        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.timeout = left_s  # Of the next connection, if the service closes after each answer.
        try:
            self._connection.request(method, self._path + path, headers=dict(headers))
            answer = self._connection.getresponse()
            body = answer.read(_ANSWER_LIMIT_BYTES + 1)
        except HTTPException as broken:
            raise OSError(f"the metadata service broke off ({type(broken).__name__})") from None
        return body if answer.status == 200 and len(body) <= _ANSWER_LIMIT_BYTES else None

    def hang_up(self) -> None:
        """Interrupt the pending request."""
        held = self._connection.sock
        if held is not None:
            with suppress(OSError):
                held.shutdown(2)  # socket.SHUT_RDWR


@contextmanager
def connected(address: str, until: float) -> Iterator[MetadataService]:
    """The service at ``address`` with the deadline ``until``, by the monotonic clock. Raises ``OSError`` and
    ``ValueError``."""
    from http.client import HTTPConnection  # noqa: PLC0415 - only where a service may answer

    url = urlsplit(address)
    left_s = until - time.monotonic()
    if url.scheme != "http" or not url.hostname:
        raise ValueError("a metadata service has to be at an http address")
    if left_s <= 0:
        raise TimeoutError
    connection = HTTPConnection(url.hostname, url.port, timeout=left_s)
    service = MetadataService(connection, url.path.rstrip("/"), until)
    # A socket's timeout does not bound a request: one byte now and then would satisfy it.
    timer = threading.Timer(left_s, service.hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield service
    finally:
        timer.cancel()
        connection.close()


CLOUD_LIMIT_S = 1.0
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

    def fields(self) -> dict[str, Any]:
        return {"instance_id": self.id, "zone": self.zone, "instance_type": self.type, "host": self.host}


class InstanceSearch(BeatTask):
    """Finds out more about this machine, once. The first heartbeat must not wait for it, so it comes afterwards."""

    purpose = "find out what the cloud calls this machine"

    def __init__(self, find: Callable[[], Instance]) -> None:
        self._find: Callable[[], Instance] | None = find
        self._found: Instance | None = None

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:  # noqa: ARG002 - a task's
        """This machine as it was found, in place of its first name."""
        return {} if self._found is None else self._found.fields()

    def write(self, beat: Beat) -> None:
        """Find out in the first beat. Takes up to :data:`CLOUD_LIMIT_S`."""
        find, self._find = self._find, None
        if find is not None and beat.ending is None:
            self._found = find()


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
    environ: Mapping[str, str], known: Instance, *, limit_s: float = CLOUD_LIMIT_S, sys: Path = Path("/sys")
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


POLL_S: Final = 5.0
"""Time between two polls in s; EC2 recommends this one."""
_POLL_LIMIT_S: Final = 2.0
"""Time limit of one poll."""
_TRIES: Final = 3
"""After this many polls, if none was ever answered, the machine is taken to have no such service."""
_TOKEN_S: Final = 21600
_WHEN_CHARS: Final = 40


class NoticeSource(Protocol):
    """One cloud's service."""

    def ask(self, limit_s: float) -> str | None:
        """Why the cloud takes the machine away, as a sentence, or None without such a notice. Raises ``OSError`` and
        ``ValueError``."""


@dataclass
class Ec2Notices:
    """Spot interruptions, from version 2 of EC2's metadata service."""

    address: str = EC2_ADDRESS
    _token: str | None = None

    def ask(self, limit_s: float) -> str | None:
        until = time.monotonic() + limit_s
        with connected(self.address, until) as service:
            if self._token is None:
                named = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_S)}
                self._token = _word(service.request("PUT", "/latest/api/token", named))
            if self._token is None:
                raise ValueError("it gives no token")
            named = {"X-aws-ec2-metadata-token": self._token}
            body = service.get("/latest/meta-data/spot/instance-action", named)
            if body is None:
                # Either there is no notice or the token has expired. The id is always there, so it tells which.
                if service.get("/latest/meta-data/instance-id", named) is None:
                    self._token = None
                    raise ValueError("it does not take its token")
                return None
        document = json.loads(body)
        action = document.get("action") if isinstance(document, dict) else None
        if action not in {"terminate", "stop", "hibernate"}:
            return None
        return f"EC2 is about to {action} this spot instance{_at(document.get('time'))}"


@dataclass
class GceNotices:
    """Preemptions, from Google's metadata service."""

    address: str = "http://metadata.google.internal"

    def ask(self, limit_s: float) -> str | None:
        with connected(self.address, time.monotonic() + limit_s) as service:
            body = service.get("/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
        if body is None or body.strip() not in {b"TRUE", b"FALSE"}:
            raise ValueError("it does not say whether the machine is preempted")
        return "Google Cloud is about to preempt this machine" if body.strip() == b"TRUE" else None


@dataclass
class AzureNotices:
    """Scheduled events, from Azure's metadata service."""

    address: str = "http://169.254.169.254"
    _name: str | None = None

    def ask(self, limit_s: float) -> str | None:
        named = {"Metadata": "true"}
        with connected(self.address, time.monotonic() + limit_s) as service:
            if self._name is None:
                self._name = _word(
                    service.get("/metadata/instance/compute/name?api-version=2021-02-01&format=text", named)
                )
            body = service.get("/metadata/scheduledevents?api-version=2020-07-01", named)
        if body is None:
            raise ValueError("it tells of no events")
        document = json.loads(body)
        events = document.get("Events") if isinstance(document, dict) else None
        for event in events[:100] if isinstance(events, list) else ():
            if not isinstance(event, dict) or event.get("EventType") not in {"Preempt", "Terminate"}:
                continue
            machines = event.get("Resources")
            # One service reports the events of every machine of a set.
            if self._name is None or not isinstance(machines, list) or self._name in machines:
                what = "preempt" if event["EventType"] == "Preempt" else "terminate"
                return f"Azure is about to {what} this machine{_at(event.get('NotBefore'))}"
        return None


def notice_source(environ: Mapping[str, str], sys: Path = Path("/sys")) -> NoticeSource | None:
    """The notice service of this machine's cloud, or None if there is none. Reads only the environment and the
    kernel's files; makes no request."""
    endpoint = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "").strip()
    if environ.get("AWS_EC2_METADATA_DISABLED", "").strip().lower() != "true" and (endpoint or is_ec2(sys)):
        return Ec2Notices(endpoint or EC2_ADDRESS)
    host = environ.get("GCE_METADATA_HOST", "").strip()
    if host or _says(sys / _DMI / "product_name", "google compute engine"):
        return GceNotices(f"http://{host}") if host else GceNotices()
    if _says(sys / _DMI / "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"):
        return AzureNotices()
    return None


@dataclass
class NoticeWatch(BeatTask):
    """Polls ``source`` until the run ends or a notice comes. Then it asks training to stop."""

    purpose = "look for notices of the cloud"

    source: NoticeSource
    every_s: float = POLL_S
    _pause: threading.Event = field(default_factory=threading.Event)

    def begin(self, start: RunStart) -> None:
        """Start polling in a thread, unless the run has ended."""
        if not start.run.ended:
            # If no thread can start, notices are not seen.
            start_thread("lastbeat-notices", self._watch, start.run)

    def _watch(self, run: Run) -> None:
        unanswered: int | None = 0
        while not run.ended and run.stop_wanted is None:
            try:
                why = self.source.ask(_POLL_LIMIT_S)
            except Exception as fault:  # noqa: BLE001 - whatever answers there, training goes on
                unanswered = None if unanswered is None else unanswered + 1
                if unanswered == _TRIES:
                    safe_log(logging.DEBUG, "lastbeat hears of no notice from a cloud: %s", fault_text(fault))
                    return
            else:
                unanswered = None
                if why is not None:
                    run.ask_to_stop(why, f"{why}: initiating graceful stop")
                    return
            self._pause.wait(self.every_s)


def _word(body: bytes | None) -> str | None:
    text = body.decode("ascii", "replace").strip() if body is not None else ""
    return text if 0 < len(text) <= 1000 and text.isprintable() and text.isascii() else None


def _at(when: object) -> str:
    fits = isinstance(when, str) and 0 < len(when) <= _WHEN_CHARS and when.isprintable() and when.isascii()
    return f" at {when}" if fits else ""
