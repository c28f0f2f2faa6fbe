"""Why a run failed, as its logs, its ``_error`` and its exit codes show: the data that all layers share."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.model.times import format_duration

TEXT_LIMIT = 500
FRAMES_LIMIT = 4
MISSING_LIMIT = 3
"""How many missing ranks are named; the rest are counted."""
CERTAIN = 0.85
"""From this confidence on, a cause is shown without a qualifier such as "likely"."""
LIKELY = 0.6
"""Below this, a cause is a guess."""
UNDECIDED = LIKELY
"""Below this, people are shown a second cause beside the first, and restart policies take the cause for unknown.

Confidence is how often such causes are right. Where that is less than three times in five, advice for one cause alone
sends people to the wrong place nearly as often as to the right one, and so does a restart that rests on it. It is where
"likely" becomes "perhaps", so that the word, the second cause and the policy say the same.
"""
EXIT_STATUS = "exit status"
SCHEDULER = "scheduler"
"""What stands for a file where no line shows the cause but how the process ended, or what a scheduler said of it."""
NO_FILES = frozenset({EXIT_STATUS, SCHEDULER})


def sureness(confidence: float) -> str:
    """Confidence in a word: it is measured on a few hundred logs, so people get no digits."""
    if confidence >= CERTAIN:
        return "sure"
    return "likely" if confidence >= LIKELY else "perhaps"


@dataclass(frozen=True)
class Evidence(Persisted):
    """One line of a log as evidence. Its text is hostile: cleaned, bounded, never interpreted."""

    file: str
    """The file's name as people know it. ``_error`` and ``-`` (standard input) count as files."""
    line: int
    """From 1, as an editor counts. 0: unknown, or the line is no longer in the file."""
    text: str
    """The line, at most :data:`TEXT_LIMIT` characters of it."""
    rank: int | None = None
    host: str | None = None
    time: datetime | None = None
    """The time in the line itself, UTC if it names no zone. None: it has none."""

    def masked(self, mask: Callable[[str], str]) -> "Evidence":
        """A copy with ``mask`` applied to text, file and host."""
        host = None if self.host is None else mask(self.host)
        return replace(self, file=mask(self.file), text=mask(self.text), host=host)


@dataclass(frozen=True)
class Cause(Persisted):
    """A root cause, or a candidate for one."""

    error_type: str
    """A name of ``signals.error_types``."""
    evidence: Evidence
    confidence: float
    """From 0 to 1: how often causes on such grounds were right in labelled logs, see ``causes.confidence``."""
    subsystem: str | None = None
    restartable: bool | None = None
    """Whether a restart from the last checkpoint may well get past this. None: it depends."""
    hint: str = ""
    """What to do, with sizes, ranks and hosts from the evidence filled in."""
    signal: str = ""
    """Name of the signal that the evidence matched."""
    frames: tuple[str, ...] = ()
    """Where it was raised, ``train.py:33 in main: loss = model(batch)``: the program's own frames before a library's,
    of each the innermost first, two at most. Empty: no traceback shows it. Hostile text, as the evidence."""
    fingerprint: str = ""
    """The same for the same mistake, whenever and wherever it comes again, see ``causes.fingerprint``. Empty: nothing
    tells it from others."""


WORTH_TELLING = timedelta(minutes=5)
"""A job that idled for less did not: launchers take minutes themselves to end what is left of one."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A job whose training had died stayed allocated, and cost money until it ended."""

    seconds: float
    until: str
    """What ended it, in words: ``the time limit``, ``it was cancelled``."""
    at_most: bool = False
    """No line tells when it died, only after which time."""

    @property
    def told(self) -> str:
        """``idled for 5h 12m until the time limit``."""
        about = "at most " if self.at_most else ""
        return f"idled for {about}{format_duration(self.seconds)} until {self.until}"


@dataclass(frozen=True, slots=True)
class LostPeer:
    """A process that went away, where the logs tell only what others saw of it. Host and file are hostile text."""

    rank: int | None = None
    host: str | None = None
    """Its machine's name without the domain, or its address."""
    log: str = ""
    """Its own log, which does not say why it ended. Empty: none is known to be here."""
    apart: bool = True
    """Each log here is of one process, so that its own is not among them."""

    @property
    def name(self) -> str:
        """``rank 3 on host-17``, as far as it is known."""
        rank = "" if self.rank is None else f"rank {self.rank}"
        return " on ".join(filter(None, (rank, self.host)))

    @property
    def told(self) -> str:
        """``a peer died; its own log is not here: rank 3 on host-17``."""
        if self.log:
            about = f"its own log, {self.log}, does not say why"
        else:
            about = "its own log is not here" if self.apart else "no line here comes from it"
        return f"a peer died; {about}{f': {self.name}' if self.name else ''}"


@dataclass(frozen=True)
class MissingRank(Persisted):
    """A rank that does not report what the others do. Host and log are hostile text."""

    rank: int
    log: str = ""
    """The name of its log."""
    host: str | None = None
    time: datetime | None = None
    """When its log ends, by the last line that names a time."""
    step: int | None = None
    """Its last step."""
    stack: str = ""
    """The innermost frame of a stack in its log, ``data.py:88 in load_batch``. Empty: there is none."""

    @property
    def name(self) -> str:
        """``rank 7 on h100-012``."""
        return f"rank {self.rank}{f' on {self.host}' if self.host else ''}"

    @property
    def end(self) -> str:
        """``18:45, step 3554``; empty if unknown."""
        step = None if self.step is None else f"step {self.step}"
        return ", ".join(filter(None, (self.time.strftime("%H:%M") if self.time is not None else None, step)))


@dataclass(frozen=True)
class MissingRanks(Persisted):
    """The ranks that others waited for in vain: all logs were read, and only these do not report the timeout."""

    ranks: tuple[MissingRank, ...]
    """At most :data:`MISSING_LIMIT`, by number."""
    count: int
    """How many do not report it."""
    world_size: int
    """How many ranks there are. The log of each was read to its end."""

    @property
    def names(self) -> str:
        """``rank 7 on h100-012, rank 9 on h100-014``."""
        left = self.count - len(self.ranks)
        return ", ".join([each.name for each in self.ranks] + ([f"{left} more"] if left > 0 else []))

    @property
    def sentence(self) -> str:
        """``Look at rank 7 on h100-012: the only one of 8 that does not report it; its last line is of …``."""
        basis = f"({self.world_size} of {self.world_size} logs read)"
        if self.count == 1:
            only = self.ranks[0]
            parts = [f"Look at {only.name}: the only one of {self.world_size} that does not report it"]
            parts += [f"its last line is of {only.end}"] if only.end else []
            parts += [f"its stack ends in {only.stack}"] if only.stack else []
            return f"{'; '.join(parts)} {basis}."
        named = [f"{each.name}{f' (last line {each.end})' if each.end else ''}" for each in self.ranks]
        left = self.count - len(named)
        last = f"{left} more" if left > 0 else named.pop()
        return (
            f"Look at {', '.join(named)} and {last}: {self.count} of {self.world_size} that do not report it {basis}."
        )


@dataclass(frozen=True, slots=True)
class Warned:
    """A line of a run that goes on, which people should see: slow GPUs, say."""

    evidence: Evidence
    """The latest such line."""
    hint: str = ""
    at: datetime | None = None
    """When it was new, by the store's clock. None: unknown."""


@dataclass(frozen=True, slots=True)
class AttemptInFile:
    """The last of several attempts whose output was appended to one file: nothing before it counts."""

    number: int
    file: str
    line: int
    """Where it begins."""

    @property
    def told(self) -> str:
        """``attempt 3 of 3 in train.log, from line 412 on``."""
        return f"attempt {self.number} of {self.number} in {self.file}, from line {self.line} on"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What logs show. ``cause`` None: nothing in them ended the run."""

    cause: Cause | None = None
    alternatives: tuple[Cause, ...] = ()
    """Other candidates, the likeliest first; few, and none if the cause is certain."""
    downstream: tuple[Evidence, ...] = ()
    """Errors that followed from the cause, in order of time; bounded."""
    ended: bool = False
    """Whether the text also *ends* in that failure, without a sign of life after it. Only then may a log make a run
    FAILED."""
    interrupted: bool = False
    """It ends in an uncaught KeyboardInterrupt, and nothing else can have ended it: a person pressed Ctrl-C."""
    success: Evidence | None = None
    """The line that says training is done, if there is one and nothing failed after it."""
    idle: Idle | None = None
    """How long it idled after its cause, if the lines tell."""
    ended_by: str = ""
    """What ended it from outside after its cause, as in :class:`Idle`. Empty: nothing did."""
    peer: LostPeer | None = None
    """Who went away, if the cause is only what others saw of it."""
    missing: MissingRanks | None = None
    """Who others waited for, if the cause is a timeout that all others report."""
    stuck: StuckCollective | None = None
    """The collective in which ranks wait, if flight recorders show the cause."""
    warned: tuple[Warned, ...] = ()
    """What the logs warn of beside: no cause of anything. The latest first, one a signal."""
    attempt: AttemptInFile | None = None
    """Which attempt it is, if its file holds several."""
    grounds: str = ""
    """What kind of evidence the cause rests on, see ``causes.confidence.Grounds``. Empty: there is no cause."""

    @property
    def second(self) -> Cause | None:
        """What it may be as well, where it is :data:`UNDECIDED` which of the two."""
        cause = self.cause
        undecided = cause is not None and cause.confidence < UNDECIDED
        return self.alternatives[0] if undecided and self.alternatives else None

    @property
    def hint(self) -> str | None:
        return self.cause.hint or None if self.cause is not None else None

    def located(self, hosts: Mapping[int, str], times: Mapping[int, datetime] | None = None) -> "Explanation":
        """A copy whose missing ranks have these ``hosts`` and ``times`` of their last lines, each by rank."""
        missing, cause, times = self.missing, self.cause, times or {}
        if missing is None or cause is None:
            return self
        ranks = tuple(
            replace(each, host=hosts.get(each.rank, each.host), time=times.get(each.rank, each.time))
            for each in missing.ranks
        )
        found = replace(missing, ranks=ranks)
        hint = cause.hint.replace(missing.sentence, found.sentence, 1)
        return replace(self, missing=found, cause=replace(cause, hint=hint))


NOTHING = Explanation()
