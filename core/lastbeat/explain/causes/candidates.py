"""Candidate causes: the mentions of all files, with their meaning, their strength as evidence, and their order in
time."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from lastbeat.explain.causes import contexts, error_file
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.causes.mentions import DETAIL, Mention
from lastbeat.explain.causes.tracebacks import NATIVE
from lastbeat.explain.scanning.prefixes import UNKNOWN_YEAR
from lastbeat.explain.signals.error_types import UNKNOWN, traits_of
from lastbeat.model.cause import Evidence
from lastbeat.model.error_type import ErrorTraits
from lastbeat.model.pattern import Pattern
from lastbeat.model.signal import CASCADE, CONFIRMATION, Signal

_DATA_WORDS: Final = Pattern(
    r"data_?set|data_?loader|shard|sample|__getitem__|fetch|batch|corpus|token|\.tar\b|\.parquet|\.jsonl\b|\.idx|\.bin\b|"
    r"\.npy|\.mds|/data/|train_data",
    re.IGNORECASE,
)
_CHECKPOINT_WORDS: Final = Pattern(
    r"ckpt|(?<!ipynb_)checkpoint|optim|state_?dict|load_state|resum|snapshot|weights|model\.(?:pt|bin|safetensors)|\.pth?\b|\.safetensors|serialization\.py|restore",
    re.IGNORECASE,
)
_QUOTED: Final = Pattern(r"['\"](?P<path>[^'\"]{1,300})['\"]")
_CHECKPOINT_FILE: Final = Pattern(
    r"\.(?:pth?|ckpt|safetensors|pkl\.tar|pth\.tar|distcp)(?:\W|$)|(?:ckpt|checkpoint)[-_]?\w{0,40}(?:/\.metadata)?$|"
    r"model(?:\.\w{1,20}){0,2}\.bin$|optimizer\.\w{2,10}$|global_step\d",
    re.IGNORECASE,
)
_BROKEN_READ: Final = Pattern(
    r"(?:ValueError|OSError|RuntimeError|EOFError|Exception|struct\.error|\w{0,30}(?:Format|Parse|Decode|Invalid)\w{0,10})\b"
)
_BROKEN_FILE: Final = Pattern(r"(?:OSError|RuntimeError|EOFError|struct\.error)\b")
_DATA_FILE: Final = Pattern(r": .{0,300}[\w)*?]\.(?:tar|mds|parquet|jsonl|arrow|tfrecords?|npz|npy|lmdb|hdf5|h5|idx)\b")
"""The words of an exception that name a file of a form in which data sets come."""
_OF_TORCH: Final = Pattern(
    r"\bRuntimeError: (?!view size|"
    r".{0,40}(?:changed size during|generator |super\(\)|recursion|event loop|main thread|mutated))"
)
"""A RuntimeError from outside of Python, in training mostly PyTorch's. Python has a few of its own, and what ``view``
says is about the program."""
_LOST_CONNECTION: Final = Pattern(r"(?:OSError|EOFError)\b")
_DATA_OR_CHECKPOINT: Final = frozenset(
    {"truncated_pickle", "archive_damaged", "data_missing", "checksum_mismatch", "checkpoint_read_failed"}
)
"""Signals of a broken file, be it data or a checkpoint."""


# Names of signals in the catalogue.
_TERMINATED: Final = "terminated"
_TIMEOUT: Final = "timeout_error"
CONTROL_FLOW: Final = "control_flow"
_TEARDOWN: Final = "torchelastic_teardown"
_LAUNCHER_STOPPED: Final = "torchelastic_stopped"
_SENT: Final = "signal"
"""Subsystem of reports that a process was sent a signal."""


_GRACE: Final = timedelta(hours=1)
"""Upper bound of the time between a scheduler's signal and its line about it."""


class Tier(IntEnum):
    """Strength of evidence. Higher is stronger."""

    CONFIRMATION = 0
    """Reports an end without its reason."""
    WORDS = 1
    """A warning, or other words about a failure, in a text that has nothing else."""
    CASCADE = 2
    """A consequence of another failure."""
    EXIT = 3
    """How a process ended, which is a trace of the cause."""
    SYMPTOM = 4
    """A wait that took too long."""
    GENERAL = 5
    """An exception known only by its class."""
    PLAIN = 6
    """An exception that only a bug in the program raises."""
    PLACED = 7
    """An exception with a meaningful code location."""
    SPECIFIC = 8
    """An error that names the fault."""
    FACT = 9
    """A fact from the kernel, the driver or the scheduler, even if it is printed late."""


@dataclass(slots=True)
class Candidate:
    """A mention with its meaning."""

    mention: Mention
    signal: Signal
    tier: Tier
    error_type: str
    subsystem: str | None
    log: LogSummary
    log_index: int
    """Index of ``log`` among all logs."""
    time: datetime | None = None
    """When it happened, if known."""

    @property
    def rank(self) -> int | None:
        return self.mention.rank

    @property
    def traits(self) -> ErrorTraits:
        return traits_of(self.error_type)

    @property
    def evidence(self) -> Evidence:
        return self.mention.evidence(self.log.file)

    @property
    def is_from_outside(self) -> bool:
        """Whether it is a fact from the kernel, the driver or the scheduler, which no program can catch."""
        traits = self.traits
        return self.tier == Tier.FACT and (traits.printed_late or traits.is_imposed or traits.is_time_over)

    @property
    def is_precursor(self) -> bool:
        """Whether it may have led to a failure but ends nothing by itself, such as a warning or a retry."""
        if self.mention.weak or self.is_detail:
            return self.mention.weak
        return self.signal.severity == "warning" and self.signal.kind is None and self.signal.role != CASCADE

    @property
    def is_detail(self) -> bool:
        """Whether it names the failure that an envelope reports."""
        return self.mention.link == DETAIL

    def is_detail_of(self, envelope: "Candidate") -> bool:
        own = self.is_detail and not self.signal.envelope
        return own and self.log is envelope.log and self.mention.after == envelope.mention.order


def in_order(logs: Sequence[LogSummary]) -> list[LogSummary]:
    """The logs by rank and name, so that the order of listing does not matter; ``_error`` last."""

    def place(log: LogSummary) -> tuple[bool, int, str]:
        # A file without a rank has output of several ranks, and may hold lines that the others miss.
        return error_file.is_error(log.file), -1 if log.rank is None else log.rank, log.file

    return sorted(logs, key=place)


def candidates_of(logs: Sequence[LogSummary], signals: Mapping[str, Signal]) -> list[Candidate]:
    """All mentions of ``logs``, in the order of events."""
    found: list[Candidate] = []
    for index, log in enumerate(logs):
        known = [each for each in log.mentions if each.signal in signals]
        within, torn_down = _Envelopes(known, signals), _torn_down(known)
        handled = {each.after for each in known if each.link}
        for mention in known:
            signal = signals[mention.signal]
            if mention.signal == _TERMINATED and torn_down is not None and mention.order > torn_down:
                continue
            error_type, subsystem = _meaning(mention, signal)
            tier = within.tier(mention, error_type, _tier(mention, signal, error_type))
            if mention.signal == CONTROL_FLOW and mention.fatal and mention.order not in handled:
                error_type, subsystem, tier = "exception", "user_code", Tier.GENERAL
            found.append(Candidate(mention, signal, tier, error_type, subsystem, log, index))
    _date(found, logs)
    if len(logs) > 1:
        found.sort(key=_when)
    return found


def _torn_down(mentions: Sequence[Mention]) -> int | None:
    """Order of the mention with which a launcher ended its workers; signals to them from then on are its own. None if
    it did not end them, or got a signal itself."""
    if any(each.signal == _LAUNCHER_STOPPED for each in mentions):
        return None
    sends = (each.order for each in mentions if each.signal == _TEARDOWN and "closing signal" in each.text)
    return min(sends, default=None)


class _Envelopes:
    """The envelopes of one file, and whether their details name the failure."""

    def __init__(self, mentions: Sequence[Mention], signals: Mapping[str, Signal]) -> None:
        self._envelopes = {each.order: signals[each.signal] for each in mentions if signals[each.signal].envelope}
        self._detailed = {
            each.after
            for each in mentions
            if each.link == DETAIL and signals[each.signal].error_type != self._type_of(each.after)
        }

    def _type_of(self, order: int) -> str | None:
        return self._envelopes[order].error_type if order in self._envelopes else None

    def tier(self, mention: Mention, error_type: str, alone: Tier) -> Tier:
        """The tier of a mention that has the tier ``alone`` outside of envelopes.

        An envelope is a mere confirmation if its details name the failure, or it lies in another one. A report about a
        peer is a consequence if its envelope is one.
        """
        if mention.order in self._envelopes and (mention.order in self._detailed or mention.link == DETAIL):
            return Tier.CONFIRMATION
        envelope = self._envelopes.get(mention.after) if mention.link == DETAIL else None
        if envelope is not None and envelope.role == CASCADE and traits_of(error_type).between_peers:
            return min(alone, Tier.CASCADE)
        return alone


def _tier(mention: Mention, signal: Signal, error_type: str) -> Tier:
    if signal.role == CONFIRMATION or (signal.kind == "exception" and mention.where == "launcher"):
        return Tier.CONFIRMATION
    if signal.role == CASCADE:
        return Tier.EXIT if signal.severity == "critical" else Tier.CASCADE
    if signal.kind == "exception":
        if error_type != signal.error_type and mention.where != NATIVE:
            return Tier.PLACED
        return Tier.GENERAL if signal.severity == "warning" else Tier.PLAIN
    if signal.name in error_file.SIGNALS:
        return Tier.GENERAL
    if signal.verdict in {"timeout", "stalled"}:
        return Tier.SYMPTOM
    return Tier.FACT if signal.severity == "critical" else Tier.SPECIFIC


def _meaning(mention: Mention, signal: Signal) -> tuple[str, str | None]:
    """Error type and subsystem: the signal's, unless the raising code is more specific."""
    error_type, subsystem = signal.error_type or UNKNOWN, signal.subsystem
    text = mention.text
    spoken = f"{mention.fields.get('spoken', '')} {text}"
    if signal.name in _DATA_OR_CHECKPOINT:
        path = _QUOTED.search(text)
        if path is not None and _is_checkpoint(path["path"]):
            return "storage", "checkpoint"
        data, checkpoint = _DATA_WORDS.search(spoken), _CHECKPOINT_WORDS.search(spoken)
        if checkpoint and not data:
            return "storage", "checkpoint"
        if data and not checkpoint:
            return "data", "dataset"
        return error_type, subsystem
    if signal.name == _TIMEOUT and mention.raised and mention.where == "connection":
        return "communication", "socket"
    if signal.kind != "exception":
        return error_type, subsystem
    placed = _meaning_by_place(mention, text) if mention.raised else None
    if placed is None and _DATA_FILE.search(text):
        return "data", "dataset"
    return placed or (error_type, subsystem)


def _meaning_by_place(mention: Mention, text: str) -> tuple[str, str] | None:
    """Error type and subsystem of an exception by the code that raised it."""
    if mention.where in {"jit", "compile"}:
        return "torch", mention.where
    if mention.where in {"autograd", "operator"} and "RuntimeError" in text:
        return "torch", mention.where
    if mention.where == NATIVE and _OF_TORCH.search(text):
        return "torch", "operator"
    if mention.where == "cuda":
        return "environment", "cuda"
    if mention.where == "data" and _BROKEN_READ.search(text):
        return "data", "dataset"
    if mention.where == "checkpoint" and _BROKEN_FILE.search(text):
        return "storage", "checkpoint"
    if mention.where == "connection" and _LOST_CONNECTION.search(text):
        return "communication", "socket"
    return None


def _is_checkpoint(path: str) -> bool:
    return _CHECKPOINT_FILE.search(path) is not None and _DATA_WORDS.search(path.rsplit("/", 1)[-1]) is None


# When it happened.


def _date(found: list[Candidate], logs: Sequence[LogSummary]) -> None:
    """Set each candidate's time: its own, or that of the candidate before it in its file."""
    known = [each.mention.time for each in found if each.mention.time is not None]
    years = [time for time in [*known, *(log.last_time for log in logs)] if time is not None and has_year(time)]
    latest = max(years, default=None)
    last: dict[int, datetime | None] = {}
    for candidate in found:
        time = candidate.mention.time
        if time is not None and not has_year(time) and latest is not None:
            time = _in_year(time, latest)
        if time is None:
            time = last.get(candidate.log_index)
        candidate.time = last[candidate.log_index] = time


def has_year(time: datetime) -> bool:
    return time.year != UNKNOWN_YEAR


def _in_year(time: datetime, latest: datetime) -> datetime:
    for year in (latest.year, latest.year - 1):
        try:
            moved = time.replace(year=year)
        except ValueError:
            continue
        if moved <= latest + timedelta(days=2):
            return moved
    return time


def _began(candidate: Candidate) -> datetime | None:
    """Start of a wait that timed out."""
    waited = candidate.mention.fields.get("timeout_ms")
    if candidate.time is None or waited is None or not waited.isdigit():
        return candidate.time
    return candidate.time - timedelta(milliseconds=min(int(waited), 10**10))


def _when(candidate: Candidate) -> tuple[float, int, int]:
    # A candidate without a time may have happened at any time, so it comes first.
    time = _began(candidate) if candidate.tier == Tier.SYMPTOM else candidate.time
    return (time.timestamp() if time is not None else -math.inf, candidate.log_index, candidate.mention.order)


# Which of two is closer to the cause.


def overtakes(later: Candidate, best: Candidate) -> bool:
    """Whether ``later`` is closer to the cause although it happened, or was printed, after ``best``.

    1. Two chained exceptions: see :func:`_replaces_in_chain`.
    2. A cascade gives way to anything stronger. After a cancellation only a specific error or an exit counts, because a
       process that is being stopped may raise anything.
    3. The end of a process gives way to an exception or anything stronger.
    4. A symptom gives way to a fact that is printed late, and to another rank's specific error.
    5. A general exception, a native crash, and an error that a hardware fault may cause give way to a late fact.
    6. A bad value gives way to the same program's finding about its origin: a GPU that computes wrongly.
    7. An envelope without a detail gives way to the detail of another one.
    8. An interrupt gives way to a fact that explains it, and so does any stop to the end of the job's time.
    9. A report that something is missing gives way to an uncaught exception that names a fault, and to the end of the
       job's time: see :func:`_shows_that_it_was_not_needed`.
    """
    if later.mention.link and later.log is best.log and later.mention.after == best.mention.order:
        return _replaces_in_chain(later, best)
    if best.tier == Tier.CASCADE:
        if best.traits.is_imposed:
            return later.tier >= Tier.SPECIFIC or later.tier == Tier.EXIT
        return later.tier > Tier.CASCADE
    if best.signal.envelope and later.is_detail and later.tier > Tier.CASCADE:
        return True
    of_one_program = later.signal.subsystem == best.signal.subsystem and later.signal.source == best.signal.source
    if best.traits.about_values and later.traits.spoils_values and of_one_program:
        return True
    if best.traits.is_imposed and later.tier == Tier.FACT and later.traits.is_time_over:
        return _soon_after(later, best)
    if best.traits.raised_where_needed and not best.mention.raised:
        return _shows_that_it_was_not_needed(later, best)
    if _is_stop(best) and later.is_from_outside and not later.mention.weak and _soon_after(later, best):
        return True
    is_late_fact = later.tier == Tier.FACT and later.traits.printed_late
    if best.tier == Tier.EXIT:
        return later.tier >= Tier.PLAIN
    if best.tier == Tier.SYMPTOM:
        return is_late_fact or (later.tier >= Tier.SPECIFIC and later.tier != Tier.FACT and _is_other_rank(later, best))
    if best.tier == Tier.GENERAL:
        return is_late_fact
    if best.tier == Tier.SPECIFIC and best.error_type in later.traits.shows_as:
        return is_late_fact
    return best.signal.subsystem == "native_crash" and is_late_fact


def _is_stop(candidate: Candidate) -> bool:
    """Whether it reports a signal that asked a process to stop, without its sender."""
    return candidate.traits.is_imposed and candidate.subsystem == _SENT


def _soon_after(later: Candidate, first: Candidate) -> bool:
    """Whether ``later`` may have come within the time that a scheduler leaves after its signal. True if unknown."""
    began, ended = first.mention.time or first.mention.before, later.mention.time
    if began is None or ended is None or not has_year(began) or not has_year(ended):
        return True
    return ended - began < _GRACE


def _shows_that_it_was_not_needed(later: Candidate, best: Candidate) -> bool:
    """Whether the program continued without the thing that ``best`` reports missing: it ended in an uncaught exception
    of its own, or ran until its time was over. An exception known only by its class may follow from the missing thing,
    unless that was reported in passing."""
    if later.error_type == best.error_type:
        return later.mention.fatal and later.tier >= best.tier
    if later.tier == Tier.FACT:
        return later.traits.printed_late or later.traits.is_time_over
    if later.is_detail and later.mention.raised:
        return later.tier >= Tier.PLAIN
    return later.mention.fatal and (later.tier >= Tier.PLAIN or (best.mention.low and later.tier == Tier.GENERAL))


def _replaces_in_chain(later: Candidate, first: Candidate) -> bool:
    """Whether the later of two chained exceptions replaces the first. It was raised from the first, or while that was
    handled."""
    if later.mention.link == "handling" and later.traits.is_imposed:
        # A signal may arrive during any handler.
        return True
    if first.tier <= Tier.CASCADE:
        return later.tier >= Tier.PLAIN
    if later.mention.link == "handling" and later.mention.deliberate and later.mention.fatal:
        # An alternative was tried in vain, and the program says what it wanted.
        return later.error_type == first.error_type and later.tier >= first.tier
    return later.tier >= Tier.SPECIFIC and first.tier in {Tier.GENERAL, Tier.PLAIN, Tier.PLACED}


def _is_other_rank(later: Candidate, best: Candidate) -> bool:
    return later.rank is not None and best.rank is not None and later.rank != best.rank


def earliest(best: Candidate, candidates: Sequence[Candidate]) -> Candidate:
    """The first candidate that reports the same as ``best``, or warned of it."""
    for candidate in candidates:
        if candidate is best:
            break
        if candidate.tier == Tier.CONFIRMATION or (candidate.signal.kind is not None and candidate.tier < best.tier):
            continue
        same_stop = best.traits.is_imposed and candidate.error_type == best.error_type and best.tier < Tier.FACT
        if candidate.tier <= Tier.CASCADE < best.tier and not same_stop:
            # Consequences may be printed before their cause.
            continue
        if best.tier == Tier.FACT and (candidate.tier == Tier.EXIT or _is_stop(candidate)):
            # It only shows how a process ended; the fact explains it.
            continue
        if contexts.is_last_attempt(candidate.mention.text) and candidate.mention.low:
            # The last attempt is still under way.
            continue
        if candidate.mention.quiet:
            # An exception that was raised and ignored is no warning.
            continue
        if candidate.traits.raised_where_needed and best.mention.raised and not candidate.mention.raised:
            # A missing thing that was needed would have been raised.
            continue
        if candidate.error_type == best.error_type:
            return candidate
        if candidate.is_precursor and candidate.traits.explains_vague and _is_vague(best):
            return candidate
    return best


def _is_vague(best: Candidate) -> bool:
    return (best.traits.is_vague or best.signal.name == "cuda_error") and not best.is_detail
