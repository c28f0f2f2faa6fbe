"""What a condition is: a name, the evidence it needs, a pure function that finds it, and what to do about it; and when
a check lacks that evidence."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

from lastbeat.model.data import dataclass
from lastbeat.model.policy import Policy
from lastbeat.model.record import LimitName
from lastbeat.watch.decide import logs
from lastbeat.watch.decide.evidence import AttemptEvidence
from lastbeat.watch.decide.recovery import alive_at, got_on, is_unknown


@dataclass(frozen=True)
class Check:
    """One check of a run: the evidence of its attempt, the limits that apply, and the store's time."""

    evidence: AttemptEvidence
    policy: Policy
    now: datetime

    @cached_property
    def ages_s(self) -> dict[str, float]:
        """Heartbeat, as people know it → seconds since its last proof of life."""
        return {name: self.age_s(at) for name, at in self.evidence.beats.items()}

    @cached_property
    def stood(self) -> Mapping[str, str]:
        """The conditions that the record holds of this attempt: name → text."""
        return self.evidence.stood

    def age_s(self, at: datetime) -> float:
        """Seconds from ``at`` until now."""
        return (self.now - at).total_seconds()


class Source(NamedTuple):
    """A kind of evidence."""

    name: str
    missing: Callable[[Check], bool]
    """Whether a check lacks it: it could not be read in full, or nothing new has come."""


class Found(NamedTuple):
    """What raises a condition."""

    text: str
    """The observation, for people."""
    hint: str | None = None
    """What to do about it."""
    stood: bool = False
    """Only the record has it; this check did not find it."""


class Condition(NamedTuple):
    """A row of the table: one way to find a condition. A condition that is found in two ways has two rows."""

    name: str
    meaning: str
    """When it is raised, for the table of conditions in docs/statuses.md."""
    find: Callable[[Check], str | Found | None]
    """What raises it, or None if the evidence of this check does not. Pure."""
    needs: tuple[Source, ...] = ()
    """If one of these is missing and nothing was found, the condition stands as the record has it."""
    hint: str | Callable[[Check], str | None] | None = None
    """What to do about it, unless ``find`` says so."""
    limit: LimitName | None = None
    """The limit that raises it. While that is unknown, it is raised only where it stood before."""
    muted_by_flapping: bool = False
    """It comes and goes with every flip, so the FLAPPING alert covers it."""
    outlasts_attempt: bool = False
    """It is about the node that the next attempt runs on, so the next attempt raises no alert of it."""
    is_explained: bool = False
    """Its alert names the cause, which a deep read of the logs finds."""

    def raised(self, check: Check) -> Found | None:
        """What ``check`` found, else what the record has if evidence is missing, else None."""
        stood = check.stood.get(self.name)
        if stood is None and is_unknown(self.limit, check.policy):
            return None
        found = self.find(check)
        if found is None:
            if stood is None or not any(source.missing(check) for source in self.needs):
                return None
            found = Found(stood, stood=True)
        found = found if isinstance(found, Found) else Found(found)
        return found._replace(hint=found.hint or (self.hint(check) if callable(self.hint) else self.hint))


def _metadata_unread(check: Check) -> bool:
    metadata = check.evidence.seen.metadata
    return check.evidence.metadata is not None and (metadata is None or metadata.fault is not None)


def _ranks_unread(check: Check) -> bool:
    ranks = check.evidence.seen.ranks
    return ranks is None or ranks.unread or ranks.denied


def _nodes_unread(check: Check) -> bool:
    metadata, ranks = check.evidence.seen.metadata, check.evidence.seen.ranks
    if check.evidence.metadata is not None and check.evidence.metadata.suspect:
        # An old document that was stored again shows nothing about the node's current state.
        return True
    if ranks is None:
        return metadata is not None and (metadata.world_size or 1) > 1
    return ranks.unread or ranks.denied or ranks.ill_left


def _network_unread(check: Check) -> bool:
    report = check.evidence.seen.logs
    return report is None or report.efa.active is None


def _logged_steps_hidden(check: Check) -> bool:
    evidence = check.evidence
    return bool(evidence.hidden) and evidence.progress is None


def _logged_progress_hidden(check: Check) -> bool:
    return bool(check.evidence.hidden) and (check.evidence.progress is None or logs.waits_for_lines(check.policy))


def _no_new_beat(check: Check) -> bool:
    return alive_at(check.evidence.before.metadata) == alive_at(check.evidence.metadata)


def _no_new_step(check: Check) -> bool:
    return not got_on(check.evidence.before, check.evidence)


def _no_new_progress(check: Check) -> bool:
    before, evidence = check.evidence.before, check.evidence
    return _no_new_step(check) and alive_at(before.progress) == alive_at(evidence.progress)


METADATA: Final = Source("metadata.json", _metadata_unread)
RANKS: Final = Source("the ranks' heartbeats", _ranks_unread)
NODES: Final = Source("what nodes report of their health", _nodes_unread)
LOGS: Final = Source("the logs", lambda check: check.evidence.logs_unread)
NETWORK: Final = Source("NCCL's lines on its network", _network_unread)
LOGGED_STEPS: Final = Source("steps that only logs show", _logged_steps_hidden)
LOGGED_PROGRESS: Final = Source("steps or lines that only logs show", _logged_progress_hidden)
# Watchers with different limits share one record: a laxer limit is no sign of life.
NEW_BEAT: Final = Source("a later beat than the record's", _no_new_beat)
NEW_STEP: Final = Source("a later step than the record's", _no_new_step)
NEW_PROGRESS: Final = Source("a later step or progress.json than the record's", _no_new_progress)
