"""Every setting of the core, a row each. Channels and stores have theirs beside them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lastbeat import model
from lastbeat.model.data import dataclass
from lastbeat.model.policy import DEFAULT_ALERT_ON
from lastbeat.model.setting import Parts, Setting, count, number, part, shown, switch, web_address
from lastbeat.model.status import Event
from lastbeat.stores import registry
from lastbeat.stores.kind import Root
from lastbeat.stores.local import absolute
from lastbeat.stores.port import check_prefix
from lastbeat.stores.s3 import bucket_name

if TYPE_CHECKING:
    from lastbeat.model.digest import DigestTime
    from lastbeat.model.simulated_fault import FaultRequest

CHANNEL_PREFIX: Final = "LASTBEAT_CHANNEL_"
"""Beginning of each setting of a channel with a name of its own."""
LEAST_LEASE_S: Final = 20.0
"""Shortest lease in seconds: one slow delivery may take as long."""
SHORTEST_TOKEN: Final = 16
"""Fewest characters of a token: everybody on the network can try to guess it."""
MOST_LOGS: Final = 64
MOST_SECTIONS: Final = 64
OUT_OF_SECTION: Final = "out_of_section"
"""The key of the time without a step or a section, beside the names of sections."""
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


def _dump_names(text: str) -> tuple[str, ...]:
    """Patterns; none of them for "off"."""
    patterns = tuple(part.strip() for part in text.split(",") if part.strip())
    if not patterns or len(patterns) > MOST_LOGS:
        raise ValueError(f"is neither off nor 1 to {MOST_LOGS} patterns of names")
    return () if [each.lower() for each in patterns] == [OFF] else patterns


def _signal(text: str) -> int:
    return model.posix_signals.signal_number(text)


def _simulated_fault(text: str) -> "FaultRequest":
    return model.simulated_fault.read_fault(text)


def _digest(text: str) -> "DigestTime":
    return model.digest.read_time(text)


def _score(text: str) -> float:
    score = number("score")(text)
    if score >= 1:
        raise ValueError("is no threshold: a score is at most 1, so its threshold has to be less")
    return score


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


class DashboardTokens(NamedTuple):
    """Who may do what through the dashboard."""

    operate: str = ""
    """Opens the page, and acts on runs; empty: no one may act."""
    view: str = ""
    """Opens the page; empty: only ``operate`` does."""


def _tokens(text: str) -> DashboardTokens:
    found: dict[str, str] = {}
    for each in text.split():
        right, colon, token = each.rpartition(":")
        if colon and right not in DashboardTokens._fields:
            raise ValueError("gives a right that is neither view nor operate")
        right = right or "operate"
        if right in found:
            raise ValueError(f"has two tokens for {right}")
        found[right] = _token(token)
    if len(set(found.values())) < len(found):
        raise ValueError("gives both rights to one token")
    return DashboardTokens(**found)


def _owner(text: str) -> str:
    """The owner's name, or empty text: a wrong owner leaves no run unwatched."""
    return model.text.owner_name(text) or ""


def straggler_mode(text: str) -> str:
    """off, on or stop; off and on in any of the words that other settings take for them. Raises ``ValueError``."""
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
    f"Fleet root: {registry.beginnings()}bucket/prefix, or a directory. Default: the next two settings, else "
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


@dataclass(frozen=True, slots=True)
class SectionTimeouts:
    """Seconds that a run may stay in each section by its name, and without any."""

    sections: Mapping[str, float] = field(default_factory=dict)
    out_of_section: float | None = part(None, number("seconds", zero=True))


def _section_timeouts(*, out_of_section: float | None = None, **sections: float) -> SectionTimeouts:
    if len(sections) > MOST_SECTIONS:
        raise ValueError(f"has limits for {len(sections)} sections; at most {MOST_SECTIONS} may have one")
    return SectionTimeouts(sections, out_of_section)


SECTION_TIMEOUTS = Setting[SectionTimeouts](
    "LASTBEAT_SECTION_TIMEOUTS",
    Parts(SectionTimeouts, _section_timeouts, others=number("seconds")),
    "Seconds that a run may stay in each of its sections before it is TIMED_OUT. out_of_section limits the time "
    "without a step or section: 300 by default where sections have limits, 1800 or more before the first step, 0 for "
    "none. Set it for training, whose heartbeats pass it on to watchers.",
    example="setup:600,step:180,checkpointing:420,out_of_section:300",
    option="--section-timeouts",
)
LEARN = Setting[bool](
    "LASTBEAT_LEARN",
    switch,
    "on: a run learns how long its sections and steps usually take, and limits those that have no limit. A watcher "
    "with it learns from progress.json how long a run without a stall limit may take for a step.",
    default="off",
    example="on",
)


@dataclass(frozen=True, slots=True)
class Stragglers:
    """How a run finds its slow ranks. A score without a threshold is not computed."""

    mode: str = part(OFF, straggler_mode)
    relative: float | None = part(0.7, _score)
    individual: float | None = part(0.7, _score)
    every: int = part(1, count(1))
    seconds: float = part(300.0, number("seconds"))
    ranks: int = part(5, count(0))
    json: bool = part(False, switch)


def _stragglers(**given: Any) -> Stragglers:
    scores = {"relative", "individual"}
    # One score that is named alone is the only one.
    left_out = dict.fromkeys(scores - given.keys()) if scores & given.keys() else {}
    return Stragglers(**{"mode": "on" if given else OFF, **left_out, **given})


STRAGGLERS = Setting[Stragglers](
    "LASTBEAT_STRAGGLERS",
    Parts(Stragglers, _stragglers, bare="mode"),
    "on: a run finds its slow ranks; stop: it also saves a checkpoint and ends when one is slow. relative, individual: "
    "thresholds below which a rank is slow, 0.7 both; if one is named alone, the other score is off. every: measure "
    "every Nth step. seconds: time between two reports, 300. ranks: how many of the slowest and of the fastest each "
    "logs, 5; 0 logs warnings alone. json: reports are one line of JSON each. Set it for training.",
    default=OFF,
    example="on,relative:0.7,every:10",
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
    "Minutes that a run may take to its first heartbeat, from the first check; 0: it needs one at once.",
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

DIGEST = Setting["DigestTime | None"](
    "LASTBEAT_DIGEST",
    _digest,
    "Time of day and time zone at which a pass sends a digest of the last day: what ended, was restarted, and needs "
    "attention, with links. Unset is off.",
    example="08:00 Europe/Zurich",
)

# How lastbeat works.

STATE_DIR = Setting[Path | None](
    "LASTBEAT_STATE_DIR",
    absolute,
    "Folder for what stays on this machine, as a record while the store cannot be written to. Default: "
    "$XDG_STATE_HOME/lastbeat, or ~/.local/state/lastbeat.",
)


@dataclass(frozen=True, slots=True)
class OwnLog:
    """How much lastbeat logs about its own work, and where to."""

    level: str | None = part(None, _one_of(*LOG_LEVELS))
    file: Path | None = part(None, absolute)


OWN_LOG = Setting[OwnLog](
    "LASTBEAT_OWN_LOG",
    Parts(OwnLog, bare="level"),
    "How much lastbeat logs about its own work, in commands and inside training: debug, info, warning or error. "
    "Default: warning; info in a Lambda function. file: where to, in place of stderr; a Lambda function logs to its "
    "log stream.",
    example="info,file:/var/log/lastbeat.log",
)


@dataclass(frozen=True, slots=True)
class BeatPeriods:
    """Seconds between two heartbeats of a run, of each rank, and between two samples of a node."""

    seconds: float = part(30.0, number("seconds"))
    ranks: float = part(60.0, number("seconds", zero=True))
    health: float = part(30.0, number("seconds", zero=True))


BEAT_SECONDS = Setting[BeatPeriods](
    "LASTBEAT_BEAT_SECONDS",
    Parts(BeatPeriods, bare="seconds"),
    "Seconds between two heartbeats of a run that reports itself. ranks: of each rank of a distributed run. health: "
    "between two samples of a run's nodes: GPUs, memory, disks, network. 0 is off for both of these.",
    default="30,ranks:60,health:30",
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

FLIGHT_RECORDER = Setting[tuple[str, ...]](
    "LASTBEAT_FLIGHT_RECORDER",
    _dump_names,
    "Names of PyTorch's flight recorder dumps in a run's folder or beside logs, comma separated; * ? [] are "
    "understood. Where training has not set PyTorch's variables, lastbeat.run and exec set them: the last collectives "
    "are recorded, and dumped into the run's folder when one times out. off: neither.",
    default="*flight*,*trace*,*rank*,*nccl*",
    example="nccl_trace_rank_*",
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


@dataclass(frozen=True, slots=True)
class SweepTuning:
    """What decides how much passes over a fleet cost."""

    read_minutes: float = part(20.0, number("minutes"))
    discover_minutes: float = part(5.0, number("minutes"))
    news_hours: float = part(24.0, number("hours"))
    fanout: int = part(2000, count(1))
    lease_seconds: float = part(60.0, number("seconds", least=LEAST_LEASE_S))


SWEEP = Setting[SweepTuning](
    "LASTBEAT_SWEEP",
    Parts(SweepTuning),
    "What passes over a fleet cost. read_minutes: a healthy run's heartbeats are read again within this time; less "
    "costs more. discover_minutes: a new run is found within this time, where listing everything in each pass costs "
    "too much. news_hours: a run that is first found this long after its end raises no alert. fanout: with more active "
    "runs than this, the scheduled Lambda splits the fleet over LASTBEAT_QUEUE_URL. lease_seconds: a claimed delivery "
    "belongs this long to the watcher that claimed it; at least 20.",
    default="read_minutes:20,discover_minutes:5,news_hours:24,fanout:2000,lease_seconds:60",
    example="read_minutes:60",
)


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Which runs that time out share an alert."""

    runs: int = part(5, count(2))
    minutes: float = part(5.0, number("minutes"))
    repeat_hours: float | None = part(None, number("hours"))


GROUPS = Setting[GroupLimits](
    "LASTBEAT_GROUPS",
    Parts(GroupLimits),
    "If at least this many runs time out within this many minutes, one alert lists them all; further alerts of groups "
    "are as many minutes apart. repeat_hours: repeat it after this time if the group is still timed out; unset is off.",
    default="runs:5,minutes:5",
    example="runs:5,minutes:5,repeat_hours:4",
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
    "Address that every pass pings if it sees its store, as healthchecks.io expects: /start before, the address itself "
    "after, /fail if the pass fails.",
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
DASHBOARD_TOKEN = Setting[DashboardTokens | None](
    "LASTBEAT_DASHBOARD_TOKEN",
    _tokens,
    "Token that opens lastbeat dashboard, and metrics, to others, and lets them act on runs; or one token for each "
    "right: operate:TOKEN view:TOKEN. Unset: a dashboard with --host makes one.",
    example="what 'openssl rand -hex 24' prints",
    secret=True,
    option="--token",
)

SUBJECTS: Final[dict[str, tuple[Setting[Any], ...]]] = {
    "Where the runs are": (MONITORING_ROOT, MONITORING_BUCKET, MONITORING_PREFIX),
    "When alerts go out": (STALE_MINUTES, ALERT_ON, STALL_MINUTES, START_MINUTES, BLIND_MINUTES, DIGEST),
    "Logs of runs": (SIGNALS, LOGS, FLIGHT_RECORDER),
    "A run that reports itself": (
        BEAT_SECONDS, SECTION_TIMEOUTS, LEARN, CHECKPOINT_DIR, GUARDIAN, EXIT_SIGNAL, STRAGGLERS, TIME_MARGIN_SECONDS,
        CLOUD_NOTICES, OWNER, TEAM, SIMULATE_FAULT,
    ),
    "A fleet": (INTERVAL_SECONDS, GROUPS, SWEEP, QUEUE_URL, SLACK_WEBHOOK_FROM, PING_URL),
    "Restarts": (RESTART_DELAY_SECONDS, ON_PERMANENT, PENDING_MINUTES),
    "The page": (PAGE_MINUTES, DASHBOARD_URL, DASHBOARD_TOKEN),
    "How lastbeat itself works": (STATE_DIR, OWN_LOG),
}  # fmt: skip
"""All settings by subject, in the order in which docs list them."""
CORE: Final = tuple(setting for group in SUBJECTS.values() for setting in group)


def is_named(name: str) -> bool:
    """Whether an environment variable belongs to a channel with a name of its own."""
    return name.startswith(CHANNEL_PREFIX)
