"""The settings of the core, and what their values may be. A channel's own stand beside the channel.

Every parser turns a text into a value, or raises ``ValueError`` with the whole message for people.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lastbeat.model.policy import DEFAULT_ALERT_ON
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.setting import Setting
from lastbeat.model.status import Event

_MOST = 1_000_000.0  # Minutes or seconds: far above any use, far below what time arithmetic can hold.
_LEAST_LEASE_S = 20.0
_EVENTS = (Event.FAILED, Event.TIMED_OUT, Event.SUCCEEDED, Event.RECOVERED, Event.WARNING, Event.RESTARTED)


@dataclass(frozen=True, slots=True)
class S3Root:
    """A fleet root in an S3 bucket. ``prefix`` has no slash at either end; empty is the bucket's top."""

    bucket: str
    prefix: str | None
    """None: not said, so ``MONITORING_PREFIX`` applies."""


@dataclass(frozen=True, slots=True)
class DirectoryRoot:
    """A fleet root on a file system; ``path`` is absolute."""

    path: Path


def shown(text: str) -> str:
    """``text`` for an error message: bounded, without the password of a URL or what else looks like a secret."""
    text = mask_tokens(re.sub(r"//[^/@]*@", "//***@", text))
    return repr(text if len(text) <= 80 else text[:80] + "…")


def number(name: str, unit: str, example: str, *, zero: bool = False) -> Callable[[str], float]:
    """Parses a number of ``unit`` above 0 (or from 0 on) for the variable ``name``."""

    def parse(text: str) -> float:
        # Stricter than float(): no 1_0, no nan, no other scripts' digits.
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
            raise ValueError(f"{name}={shown(text)} is not a number of {unit}; use for example {example}")
        value = float(text)
        if value < 0 or (value == 0 and not zero):
            least = "is negative" if zero else "is not more than 0"
            raise ValueError(f"{name}={shown(text)} {least}; use for example {example}")
        if value > _MOST or not math.isfinite(value):
            raise ValueError(f"{name}={shown(text)} is more than {_MOST:.0f} {unit}; use for example {example}")
        return value

    return parse


def _root(text: str) -> S3Root | DirectoryRoot:
    name = "MONITORING_ROOT"
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?", text)
    if scheme and scheme[1].lower() == "s3":
        if not scheme[2]:
            raise ValueError(f"{name}={shown(text)} lacks its slashes; use for example s3://my-bucket/training-runs")
        bucket, _, rest = text[scheme.end() :].partition("/")
        if not bucket:
            raise ValueError(f"{name}={shown(text)} names no bucket; use for example s3://my-bucket/training-runs")
        return S3Root(_bucket(name, bucket, text), _prefix(name, rest, text) or None)
    if scheme and scheme[2]:
        raise ValueError(f"{name}={shown(text)} is neither s3://bucket/prefix nor a directory")
    return DirectoryRoot(_path(name, text))


def _bucket(name: str, bucket: str, text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket, re.ASCII) or ".." in bucket:
        raise ValueError(
            f"{name}={shown(text)} is not a bucket's name: 3 to 63 characters of a-z 0-9 . - "
            "with a letter or digit at both ends; use for example my-bucket"
        )
    return bucket


def _prefix(name: str, prefix: str, text: str) -> str:
    prefix = prefix.strip("/")
    if prefix and any(part in {"", ".", ".."} for part in prefix.split("/")):
        raise ValueError(f"{name}={shown(text)} has an empty, '.' or '..' part; use for example training-runs")
    if not prefix.isprintable():
        raise ValueError(f"{name}={shown(text)} contains control characters; use for example training-runs")
    return prefix


def region(name: str, text: str) -> str:
    """``text``, checked; ``name`` is the variable that it stands in."""
    if not re.fullmatch(r"[a-z0-9-]{1,40}", text, re.ASCII):
        raise ValueError(f"{name}={shown(text)} is not a region's name; use for example us-east-1")
    return text


def _endpoint(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", text, re.ASCII):
        raise ValueError(f"AWS_ENDPOINT_URL={shown(text)} is not a web address; use for example http://localhost:9000")
    return text


def _path(name: str, text: str) -> Path:
    if "\0" in text:
        raise ValueError(f"{name}={shown(text)} contains a NUL character, which no path can")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError(f"{name}={shown(text)}: nobody knows that home directory; write the whole path") from None


def _alert_on(text: str) -> frozenset[Event]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    allowed = {event.value.lower(): event for event in _EVENTS}
    unknown = [word for word in words if word not in allowed and word != "none"]
    listed = ",".join([*allowed, "none"])
    if unknown:
        raise ValueError(f"ALERT_ON has no word {', '.join(map(shown, unknown))}; allowed are {listed}")
    if not words or ("none" in words and len(words) > 1):
        raise ValueError(f"ALERT_ON={shown(text)} says 'none' beside other words, or nothing; allowed are {listed}")
    return frozenset(allowed[word] for word in words if word != "none")


def _lease(text: str) -> float:
    seconds = number("LASTBEAT_LEASE_SECONDS", "seconds", "60")(text)
    if seconds < _LEAST_LEASE_S:
        raise ValueError(
            f"LASTBEAT_LEASE_SECONDS={shown(text)} is less than {_LEAST_LEASE_S:g}, which one slow delivery may take; "
            "use for example 60"
        )
    return seconds


def switch(name: str) -> Callable[[str], bool]:
    """Parses what turns the variable ``name`` on or off."""
    words = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}

    def parse(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError(f"{name}={shown(text)} is neither on nor off; use for example on")
        return words[text.lower()]

    return parse


CORE: tuple[Setting, ...] = (
    Setting(
        "MONITORING_ROOT",
        _root,
        "",
        "Fleet root: s3://bucket/prefix or a directory; else made of the next two, else ./training-runs.",
    ),
    Setting(
        "MONITORING_BUCKET",
        lambda text: _bucket("MONITORING_BUCKET", text, text),
        "",
        "S3 bucket of the runs, where MONITORING_ROOT is not set.",
    ),
    Setting(
        "MONITORING_PREFIX",
        lambda text: _prefix("MONITORING_PREFIX", text, text),
        "training-runs",
        "Folder of the runs in the bucket; / is the bucket's top.",
    ),
    Setting(
        "MONITORING_REGION",
        lambda text: region("MONITORING_REGION", text),
        "us-east-1",
        "AWS region of the bucket; AWS_REGION or AWS_DEFAULT_REGION stand in where it is not set.",
    ),
    Setting(
        "STALE_MINUTES",
        number("STALE_MINUTES", "minutes", "10"),
        "10",
        "A heartbeat older than this many minutes is stale; fractions are allowed.",
    ),
    Setting(
        "ALERT_ON",
        _alert_on,
        ",".join(event.value.lower() for event in _EVENTS if event in DEFAULT_ALERT_ON),
        "What alerts go out for: failed, timed_out, succeeded, recovered, warning, restarted, or none.",
    ),
    Setting(
        "AWS_ENDPOINT_URL",
        _endpoint,
        "",
        "Address of an S3-compatible store; boto3's other variables are honoured as boto3 does, too.",
    ),
    Setting(
        "LASTBEAT_STALL_MINUTES",
        number("LASTBEAT_STALL_MINUTES", "minutes", "30"),
        "",
        "No new step for this many minutes raises stalled, for twice as many is TIMED_OUT; unset is off.",
    ),
    Setting(
        "LASTBEAT_START_MINUTES",
        number("LASTBEAT_START_MINUTES", "minutes", "15", zero=True),
        "0",
        "Minutes that a run may take to its first heartbeat, from when it was first looked for.",
    ),
    Setting(
        "LASTBEAT_BLIND_MINUTES",
        number("LASTBEAT_BLIND_MINUTES", "minutes", "10"),
        "10",
        "After this many minutes without sight of a run the watchdog says that it is blind.",
    ),
    Setting(
        "LASTBEAT_STATE_DIR",
        lambda text: _path("LASTBEAT_STATE_DIR", text),
        "",
        "Where the record goes when the store cannot be written to; else $XDG_STATE_HOME/lastbeat "
        "or ~/.local/state/lastbeat.",
    ),
    Setting(
        "LASTBEAT_FOLLOW_LINKS",
        switch("LASTBEAT_FOLLOW_LINKS"),
        "off",
        "on: links lead out of a directory root, and files are read whoever they belong to; only where every writer is "
        "trusted.",
    ),
    Setting(
        "LASTBEAT_LEASE_SECONDS",
        _lease,
        "60",
        "Seconds that a claimed delivery belongs to the watcher that claimed it; at least 20.",
    ),
    Setting(
        "LASTBEAT_BEAT_SECONDS",
        number("LASTBEAT_BEAT_SECONDS", "seconds", "30"),
        "30",
        "Seconds between two heartbeats of a training that reports itself.",
    ),
    Setting(
        "LASTBEAT_RANK_BEAT_SECONDS",
        number("LASTBEAT_RANK_BEAT_SECONDS", "seconds", "60", zero=True),
        "60",
        "Seconds between two heartbeats of each rank of a distributed training; 0 is off.",
    ),
)
