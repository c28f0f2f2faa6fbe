"""Polls the cloud's notice that it is about to take this machine away. It comes 30 s to 2 minutes before.

The poll has a thread of its own: Google gives 30 seconds, and a store that does not answer must not delay the poll.
It runs only where the kernel or the environment names such a cloud. It ends if the service never answers at first.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from lastbeat.training.sdk.fork_guard import delay_unsafe_forks
from lastbeat.training.sdk.metadata_service import EC2_ADDRESS, connected, is_ec2
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import fault_text, safe_log

EVERY_S: Final = 5.0
"""Time between two polls in s; EC2 recommends this one."""
_LIMIT_S: Final = 2.0
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
        ...


@dataclass
class Ec2Notices:
    """Spot interruptions, from version 2 of EC2's metadata service."""

    address: str = EC2_ADDRESS
    _token: str | None = None

    def ask(self, limit_s: float) -> str | None:
        """See :class:`NoticeSource`."""
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
        """See :class:`NoticeSource`."""
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
        """See :class:`NoticeSource`."""
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
    if host or _says(sys, "product_name", "google compute engine"):
        return GceNotices(f"http://{host}") if host else GceNotices()
    if _says(sys, "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"):
        return AzureNotices()
    return None


@dataclass
class NoticeWatch:
    """Polls ``source`` until the run ends or a notice comes."""

    source: NoticeSource
    every_s: float = EVERY_S
    _pause: threading.Event = field(default_factory=threading.Event)

    def start(self, run: Run) -> None:
        """Start polling in a thread. Returns at once."""
        thread = threading.Thread(target=self._watch, args=(run,), name="lastbeat-notices", daemon=True)
        delay_unsafe_forks(thread)
        with suppress(RuntimeError):
            # If no thread can start, notices are not seen.
            thread.start()

    def _watch(self, run: Run) -> None:
        unanswered: int | None = 0
        while not run.ended and run.stop_wanted is None:
            try:
                why = self.source.ask(_LIMIT_S)
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


def _says(sys: Path, name: str, mark: str) -> bool:
    with suppress(OSError, ValueError):
        return mark in (sys / "devices/virtual/dmi/id" / name).read_text("utf-8").lower()
    return False


def _word(body: bytes | None) -> str | None:
    text = body.decode("ascii", "replace").strip() if body is not None else ""
    return text if 0 < len(text) <= 1000 and text.isprintable() and text.isascii() else None


def _at(when: object) -> str:
    fits = isinstance(when, str) and 0 < len(when) <= _WHEN_CHARS and when.isprintable() and when.isascii()
    return f" at {when}" if fits else ""
