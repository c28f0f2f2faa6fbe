"""Every setting of the core, a row each. Channels and stores have theirs beside them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastbeat import model
from lastbeat.model.policy import DEFAULT_ALERT_ON
from lastbeat.model.setting import Setting, count, number, shown, switch, web_address
from lastbeat.model.status import Event
from lastbeat.stores import registry
from lastbeat.stores.kind import Root
from lastbeat.stores.local import absolute
from lastbeat.stores.port import check_prefix
from lastbeat.stores.s3 import bucket_name

if TYPE_CHECKING:
    from lastbeat.model.simulated_fault import FaultRequest

CHANNEL_PREFIX: Final = "LASTBEAT_CHANNEL_"
"""Beginning of each setting of a channel with a name of its own."""
LEAST_LEASE_S: Final = 20.0
"""Shortest lease in seconds: one slow delivery may take as long."""
SHORTEST_TOKEN: Final = 16
"""Fewest characters of a token: everybody on the network can try to guess it."""
MOST_LOGS: Final = 64
MOST_SECTIONS: Final = 64
MOST_OF_A_NAME: Final = 60
"""Characters of a section's name."""
DEFAULT_CATALOGUE: Final = "default"
OFF: Final = "off"
STRAGGLER_WORDS: Final = (OFF, "on", "stop")
ON_PERMANENT_WORDS: Final = ("end", "leave")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_EVENTS: Final = (
    Event.FAILED, Event.TIMED_OUT, Event.SUCCEEDED, Event.RECOVERED, Event.WARNING, Event.RESTARTED, Event.CANCELLED,
    Event.PREEMPTED,
)  # fmt: skip


# What values may be.


def _alert_on(text: str) -> frozenset[Event]:
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    allowed = {event.value.lower(): event for event in _EVENTS}
    unknown = [word for word in words if word not in allowed and word != "none"]
    listed = ",".join([*allowed, "none"])
    if unknown:
        raise ValueError(f"has no word {', '.join(map(shown, unknown))}; allowed are {listed}")
    if not words or ("none" in words and len(words) > 1):
        raise ValueError(f"says 'none' beside other words, or nothing; allowed are {listed}")
    return frozenset(allowed[word] for word in words if word != "none")


def _catalogues(text: str) -> str:
    """``text`` without blanks and empty parts. Its catalogues are read where they are needed."""
    return ",".join(part.strip() for part in text.split(",") if part.strip()) or DEFAULT_CATALOGUE


def _log_places(text: str) -> tuple[str, ...]:
    places = tuple(part.strip() for part in text.split(",") if part.strip())
    if not places or "\0" in text:
        raise ValueError("names no file")
    if len(places) > MOST_LOGS:
        raise ValueError(f"names {len(places)} files; {MOST_LOGS} are the most, use * for many")
    return places


def _signal(text: str) -> int:
    return model.signal_number(text)


def _simulated_fault(text: str) -> "FaultRequest":
    return model.read_fault(text)


def _section_timeouts(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, seconds = (each.strip() for each in part.rpartition(":"))
        if not (name and colon) or len(name) > MOST_OF_A_NAME:
            raise ValueError(f"has {shown(part)}, which is no section and its seconds")
        if name in found:
            raise ValueError(f"has two limits for {shown(name)}")
        try:
            found[name] = number("seconds")(seconds)
        except ValueError as why:
            raise ValueError(f"has {shown(part)}, and {shown(seconds)} {why}") from None
    if not found or len(found) > MOST_SECTIONS:
        raise ValueError(f"has limits for {len(found)} sections; 1 to {MOST_SECTIONS} may have one")
    return found


def _straggler_scores(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, threshold = (each.strip() for each in part.partition(":"))
        if name not in {"relative", "individual"} or name in found:
            raise ValueError(f"has {shown(part)}, where relative or individual belongs, each once with its threshold")
        try:
            found[name] = number("score")(threshold)
        except ValueError as why:
            raise ValueError(f"has {shown(part)}, and {shown(threshold)} {why}") from None
        if found[name] >= 1:
            raise ValueError(f"has {shown(part)}; a score is at most 1, so its threshold has to be less")
    if not found:
        raise ValueError("names no score")
    return found


def _ping(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text, re.ASCII):
        raise ValueError("is not a web address")
    return text.rstrip("/")


def _queue(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s?#@]+/[^\s?#]+", text, re.ASCII):
        raise ValueError("is not a queue's address")
    return text


def _webhook_from(text: str) -> str:
    place, _, name = text.partition(":")
    allowed = {"ssm": r"(?:arn:[\w:-]+/|/)?[\w./-]{1,1000}", "secretsmanager": r"[\w/+=.@:-]{1,2048}"}
    if place not in allowed or not re.fullmatch(allowed[place], name, re.ASCII):
        raise ValueError("names no secret")
    return text


def _token(text: str) -> str:
    # It stands in an address and in a header, as it is.
    if not re.fullmatch(rf"[A-Za-z0-9._~-]{{{SHORTEST_TOKEN},200}}", text, re.ASCII):
        raise ValueError(f"is no token: {SHORTEST_TOKEN} to 200 characters of A-Z a-z 0-9 . _ ~ -")
    return text


def _owner(text: str) -> str:
    """The owner's name, or empty text: a wrong owner leaves no run unwatched."""
    return model.owner_name(text) or ""


def _stragglers(text: str) -> str:
    """on and off in any of the words that any other setting takes for them."""
    try:
        return "on" if switch(text) else OFF
    except ValueError:
        return _one_of(*STRAGGLER_WORDS)(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"is none of {', '.join(words)}")
        return text.lower()

    return parse


# Where the runs are.

MONITORING_ROOT = Setting[Root | None](
    "MONITORING_ROOT",
    registry.parse,
    "Fleet root: s3://, gs:// or az://bucket/prefix, or a directory. Default: the next two settings, else "
    "./training-runs.",
    example="s3://my-bucket/training-runs",
    option="--root",
)
MONITORING_BUCKET = Setting[str | None](
    "MONITORING_BUCKET",
    bucket_name,
    "S3 bucket of the runs, where MONITORING_ROOT is not set.",
    example="my-bucket",
    option="--bucket",
)
MONITORING_PREFIX = Setting[str](
    "MONITORING_PREFIX",
    check_prefix,
    "Folder of the runs in the bucket; / is the bucket's top.",
    default="training-runs",
    example="training-runs",
)

# When alerts go out.

STALE_MINUTES = Setting[float](
    "STALE_MINUTES",
    number("minutes"),
    "A heartbeat older than this many minutes is stale; fractions are allowed. Limits of runs and fleets outrank it.",
    default="10",
    example="10",
    option="--stale-minutes",
)
ALERT_ON = Setting[frozenset[Event]](
    "ALERT_ON",
    _alert_on,
    "What alerts go out for: failed, timed_out, succeeded, recovered, warning, restarted, cancelled, "
    "preempted, or none.",
    default=",".join(event.value.lower() for event in _EVENTS if event in DEFAULT_ALERT_ON),
)
SECTION_TIMEOUTS = Setting[Mapping[str, float] | None](
    "LASTBEAT_SECTION_TIMEOUTS",
    _section_timeouts,
    "Seconds that a run may stay in each of its sections before it is TIMED_OUT. Set it for training, whose heartbeats "
    "pass it on to watchers.",
    example="setup:600,step:180,checkpointing:420",
    option="--section-timeouts",
)
OUT_OF_SECTION_TIMEOUT = Setting[float | None](
    "LASTBEAT_OUT_OF_SECTION_TIMEOUT",
    number("seconds", zero=True),
    "Seconds that a run may take without a step or a section; at least 1800 before the first step. 0 is off. Unset: "
    "300 where sections have limits, else off.",
    example="300",
)
LEARN = Setting[bool](
    "LASTBEAT_LEARN",
    switch,
    "on: a run learns how long its sections and steps usually take, and limits those that have no limit. A watcher "
    "with it learns from progress.json how long a run without a stall limit may take for a step.",
    default="off",
    example="on",
)
STRAGGLERS = Setting[str](
    "LASTBEAT_STRAGGLERS",
    _stragglers,
    "on: a run finds its slow ranks; stop: it also saves a checkpoint and ends when one is slow. Set it for training, "
    "like those below.",
    default=OFF,
    example="on",
)
STRAGGLER_SECONDS = Setting[float](
    "LASTBEAT_STRAGGLER_SECONDS",
    number("seconds"),
    "Seconds between two reports of slow ranks; each compares the steps of that time.",
    default="300",
    example="300",
)
STRAGGLER_SCORES = Setting[Mapping[str, float]](
    "LASTBEAT_STRAGGLER_SCORES",
    _straggler_scores,
    "Scores to compute, each with the threshold below which a rank is slow; a score that is left out is off.",
    default="relative:0.7,individual:0.7",
    example="individual:0.8",
)
STRAGGLER_RANKS = Setting[int](
    "LASTBEAT_STRAGGLER_RANKS",
    count(0),
    "How many of the slowest and of the fastest ranks each report logs; 0 logs warnings alone.",
    default="5",
    example="5",
)
STRAGGLER_EVERY = Setting[int](
    "LASTBEAT_STRAGGLER_EVERY",
    count(1),
    "Measure every Nth step.",
    default="1",
    example="10",
)
STRAGGLER_JSON = Setting[bool](
    "LASTBEAT_STRAGGLER_JSON",
    switch,
    "on: reports of slow ranks are one line of JSON each.",
    default="off",
    example="on",
)
SIMULATE_FAULT = Setting["FaultRequest | None"](
    "LASTBEAT_SIMULATE_FAULT",
    _simulated_fault,
    "A fault to simulate once in a run: type:rank:seconds. Types are rank_hung, rank_killed, gpu_error, slow_rank, "
    "nan, preempt, disk_full and random; a rank or seconds that are left out are random, too.",
    example="rank_killed:2:30",
)
STALL_MINUTES = Setting[float | None](
    "LASTBEAT_STALL_MINUTES",
    number("minutes"),
    "No new step for this many minutes raises stalled, and for twice as many TIMED_OUT; unset is off.",
    example="30",
)
START_MINUTES = Setting[float](
    "LASTBEAT_START_MINUTES",
    number("minutes", zero=True),
    "Minutes that a run may take to its first heartbeat, from the first check.",
    default="0",
    example="15",
)
BLIND_MINUTES = Setting[float](
    "LASTBEAT_BLIND_MINUTES",
    number("minutes"),
    "Minutes without sight of a run after which an alert says that the watchdog is blind.",
    default="10",
    example="10",
)

# How lastbeat works.

STATE_DIR = Setting[Path | None](
    "LASTBEAT_STATE_DIR",
    absolute,
    "Where the record goes when the store cannot be written to; else $XDG_STATE_HOME/lastbeat or "
    "~/.local/state/lastbeat.",
)
LEASE_SECONDS = Setting[float](
    "LASTBEAT_LEASE_SECONDS",
    number("seconds", least=LEAST_LEASE_S),
    "Seconds that a claimed delivery belongs to the watcher that claimed it; at least 20.",
    default="60",
    example="60",
)
LOG_LEVEL = Setting[str](
    "LASTBEAT_LOG_LEVEL",
    _one_of(*LOG_LEVELS),
    "How much lastbeat logs about its own work, in commands and inside training: debug, info, warning or error. A "
    "Lambda function logs info unless this is set.",
    default="warning",
    example="info",
)
LOG_FILE = Setting[Path | None](
    "LASTBEAT_LOG_FILE",
    absolute,
    "File for these messages instead of stderr; a Lambda function logs to its log stream.",
)
BEAT_SECONDS = Setting[float](
    "LASTBEAT_BEAT_SECONDS",
    number("seconds"),
    "Seconds between two heartbeats of a run that reports itself.",
    default="30",
    example="30",
)
RANK_BEAT_SECONDS = Setting[float](
    "LASTBEAT_RANK_BEAT_SECONDS",
    number("seconds", zero=True),
    "Seconds between two heartbeats of each rank of a distributed run; 0 is off.",
    default="60",
    example="60",
)

HEALTH_SECONDS = Setting[float](
    "LASTBEAT_HEALTH_SECONDS",
    number("seconds", zero=True),
    "Seconds between two samples of a run's nodes: GPUs, memory, disks, network; 0 is off.",
    default="30",
    example="30",
)
CHECKPOINT_DIR = Setting[str | None](
    "LASTBEAT_CHECKPOINT_DIR",
    str,
    "Folder of the run's checkpoints, whose file system is watched. Default: that of LASTBEAT_RESUME_FROM.",
    example="/scratch/checkpoints",
)

GUARDIAN = Setting[bool](
    "LASTBEAT_GUARDIAN",
    switch,
    "off: start no guardian, the small process beside training that reports an end by SIGKILL, a crash or os._exit at "
    "once.",
    default="on",
    example="off",
)

EXIT_SIGNAL = Setting[int | None](
    "LASTBEAT_EXIT_SIGNAL",
    _signal,
    "Signal, besides SIGTERM, that asks a run to save a checkpoint and end: run.should_stop becomes true.",
    example="SIGUSR1",
)
TIME_MARGIN_SECONDS = Setting[float | None](
    "LASTBEAT_TIME_MARGIN_SECONDS",
    number("seconds", zero=True),
    "Seconds before the time limit of its Slurm job at which a run is asked to save a checkpoint and end; 0 is never. "
    "Unset: 60 for a run that reads run.should_stop, never for another program under lastbeat exec.",
    example="120",
    option="--time-margin",
)
CLOUD_NOTICES = Setting[bool](
    "LASTBEAT_CLOUD_NOTICES",
    switch,
    "off: do not ask the metadata service of EC2, Google Cloud or Azure whether the machine is about to be reclaimed. "
    "Under lastbeat exec it is asked only where LASTBEAT_EXIT_SIGNAL is set.",
    default="on",
    example="off",
)

OWNER = Setting[str | None](
    "LASTBEAT_OWNER",
    _owner,
    "Owner of a run that reports itself: a name, an address or a chat handle. Default: SLURM_JOB_USER.",
    example="alice",
    option="--owner",
    stands_in=("SLURM_JOB_USER",),
)
TEAM = Setting[str | None](
    "LASTBEAT_TEAM",
    _owner,
    "The team of the owner, for routes.",
    example="vision",
    option="--team",
)

# Logs of runs.

SIGNALS = Setting[str](
    "LASTBEAT_SIGNALS",
    _catalogues,
    "Log patterns: built-in catalogues (lastbeat signals list) and YAML files, comma separated.",
    default=DEFAULT_CATALOGUE,
    option="--signals",
)
LOGS = Setting[tuple[str, ...] | None](
    "LASTBEAT_LOGS",
    _log_places,
    "More log files of this machine for lastbeat watch, comma separated; * ? [] and Slurm's %j, %t are understood.",
    example="/var/log/train/rank*.log",
    option="--log",
)

# A fleet.

INTERVAL_SECONDS = Setting[float](
    "LASTBEAT_INTERVAL_SECONDS",
    number("seconds"),
    "Seconds between two passes over the fleet.",
    default="60",
    example="60",
    option="--interval",
)
READ_MINUTES = Setting[float](
    "LASTBEAT_READ_MINUTES",
    number("minutes"),
    "Minutes within which a sweep reads the heartbeats of a healthy run again; fewer cost more.",
    default="20",
    example="20",
)
DISCOVER_MINUTES = Setting[float](
    "LASTBEAT_DISCOVER_MINUTES",
    number("minutes"),
    "Minutes within which a new run is found, where listing everything in each pass costs too much.",
    default="5",
    example="5",
)
NEWS_HOURS = Setting[float](
    "LASTBEAT_NEWS_HOURS",
    number("hours"),
    "A run that a sweep first finds this many hours after its end raises no alert.",
    default="24",
    example="24",
)
GROUP_RUNS = Setting[int](
    "LASTBEAT_GROUP_RUNS",
    count(2),
    "If at least this many runs time out together, one alert lists them all.",
    default="5",
    example="5",
)
GROUP_MINUTES = Setting[float](
    "LASTBEAT_GROUP_MINUTES",
    number("minutes"),
    "Runs that time out within this many minutes are one group, and the next group's alert comes no sooner.",
    default="5",
    example="5",
)
REPEAT_HOURS = Setting[float | None](
    "LASTBEAT_REPEAT_HOURS",
    number("hours"),
    "The alert of a group that is still timed out is repeated after this many hours; unset is off.",
    example="4",
)
FANOUT = Setting[int](
    "LASTBEAT_FANOUT",
    count(1),
    "With more active runs than this the scheduled Lambda splits the fleet over LASTBEAT_QUEUE_URL.",
    default="2000",
    example="2000",
)
QUEUE_URL = Setting[str | None](
    "LASTBEAT_QUEUE_URL",
    _queue,
    "SQS queue that a large fleet is split over; unset is off.",
    example="https://sqs.us-east-1.amazonaws.com/123456789012/lastbeat",
)
SLACK_WEBHOOK_FROM = Setting[str | None](
    "LASTBEAT_SLACK_WEBHOOK_FROM",
    _webhook_from,
    "Where the Lambda reads SLACK_WEBHOOK_URL: ssm:/name (Parameter Store) or secretsmanager:name-or-arn.",
    example="ssm:/lastbeat/slack-webhook or secretsmanager:lastbeat/slack-webhook",
)
PING_URL = Setting[str | None](
    "LASTBEAT_PING_URL",
    _ping,
    "Address that every pass that can see pings, as healthchecks.io expects: /start, itself, /fail.",
    example="https://hc-ping.com/your-uuid",
    secret=True,
)

# Restarts.

RESTART_DELAY_SECONDS = Setting[float](
    "LASTBEAT_RESTART_DELAY_SECONDS",
    number("seconds", zero=True),
    "Limit of the random delay before a first restart, in seconds; it doubles with each further one in a row.",
    default="60",
    example="60",
)

ON_PERMANENT = Setting[str | None](
    "LASTBEAT_ON_PERMANENT",
    _one_of(*ON_PERMANENT_WORDS),
    "end: a supervised job that failed, is not restarted and still runs is ended after 3 minutes without a step or log "
    "line; leave: it runs on, for a debugger. Outranks on_permanent of the restart policy, whose default is end.",
    example="leave",
    option="--on-permanent",
)

PENDING_MINUTES = Setting[float](
    "LASTBEAT_PENDING_MINUTES",
    number("minutes", zero=True),
    "Minutes in the queue after which a supervised job raises job_pending; 0 is off.",
    default="240",
    example="60",
)

# The page.

PAGE_MINUTES = Setting[float](
    "LASTBEAT_PAGE_MINUTES",
    number("minutes", zero=True),
    "A pass writes _watchdog/index.html, a page of the whole fleet, at most once in this many minutes; 0 is off.",
    default="0",
    example="5",
)
DASHBOARD_URL = Setting[str | None](
    "LASTBEAT_DASHBOARD_URL",
    web_address,
    "Address of the fleet's page: alerts link to a run's page below it.",
    example="https://runs.example.com",
)
DASHBOARD_TOKEN = Setting[str | None](
    "LASTBEAT_DASHBOARD_TOKEN",
    _token,
    "Token that opens lastbeat dashboard, and metrics, to others. Unset: a dashboard with --host makes one.",
    example="what 'openssl rand -hex 24' prints",
    secret=True,
    option="--token",
)

GROUPS: Final[dict[str, tuple[Setting[Any], ...]]] = {
    "Where the runs are": (
        MONITORING_ROOT, MONITORING_BUCKET, MONITORING_PREFIX,
    ),
    "When alerts go out": (STALE_MINUTES, ALERT_ON, STALL_MINUTES, START_MINUTES, BLIND_MINUTES),
    "Logs of runs": (SIGNALS, LOGS),
    "A run that reports itself": (
        BEAT_SECONDS, RANK_BEAT_SECONDS, SECTION_TIMEOUTS, OUT_OF_SECTION_TIMEOUT, LEARN, HEALTH_SECONDS,
        CHECKPOINT_DIR, GUARDIAN, EXIT_SIGNAL, STRAGGLERS, STRAGGLER_SECONDS, STRAGGLER_SCORES, STRAGGLER_RANKS,
        STRAGGLER_EVERY, STRAGGLER_JSON,
        TIME_MARGIN_SECONDS, CLOUD_NOTICES, OWNER, TEAM, SIMULATE_FAULT,
    ),
    "A fleet": (
        INTERVAL_SECONDS, READ_MINUTES, DISCOVER_MINUTES, NEWS_HOURS, GROUP_RUNS, GROUP_MINUTES, REPEAT_HOURS, FANOUT,
        QUEUE_URL, SLACK_WEBHOOK_FROM, PING_URL,
    ),
    "Restarts": (RESTART_DELAY_SECONDS, ON_PERMANENT, PENDING_MINUTES),
    "The page": (PAGE_MINUTES, DASHBOARD_URL, DASHBOARD_TOKEN),
    "How lastbeat itself works": (STATE_DIR, LEASE_SECONDS, LOG_LEVEL, LOG_FILE),
}  # fmt: skip
"""All settings by subject, in the order in which docs list them."""
CORE: Final = tuple(setting for group in GROUPS.values() for setting in group)


def is_named(name: str) -> bool:
    """Whether an environment variable belongs to a channel with a name of its own."""
    return name.startswith(CHANNEL_PREFIX)
