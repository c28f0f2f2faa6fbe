"""What a condition is: a name, the evidence that it is judged by, a pure function that finds it, and what to do."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from lastbeat.decide.evidence import AttemptEvidence
from lastbeat.model.data import dataclass
from lastbeat.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a run: the evidence of its attempt, the limits that count for it, and the store's time."""

    evidence: AttemptEvidence
    policy: Policy
    now: datetime

    @property
    def ages_s(self) -> dict[str, float]:
        """Heartbeat, as people know it → seconds since its last proof of life."""
        return {name: self.age_s(at) for name, at in self.evidence.beats.items()}

    def age_s(self, at: datetime) -> float:
        """Seconds from ``at`` until now."""
        return (self.now - at).total_seconds()


class Source(NamedTuple):
    """A kind of evidence."""

    name: str
    unread: Callable[[Check], bool]
    """Whether a check could not read it, or not all of it."""


class Found(NamedTuple):
    """What raises a condition."""

    text: str
    """What was seen, for people."""
    hint: str | None = None
    """What to do about it."""


class Condition(NamedTuple):
    """A row of the table: one way to find a condition. A condition that is found in two ways has two rows."""

    name: str
    meaning: str
    """When it is raised, for the table of conditions in README.md."""
    find: Callable[[Check], str | Found | None]
    """What raises it, or None if nothing does that this check could read."""
    needs: tuple[Source, ...] = ()
    """Where one of these was unread and nothing was found, the condition stands as the record has it."""
    hint: str | Callable[[Check], str | None] | None = None
    """What to do about it, where ``find`` does not say."""

    def raised(self, check: Check) -> Found | None:
        """What ``check`` found, else what stands because the evidence was unread, else None."""
        found = self.find(check)
        if found is None and any(source.unread(check) for source in self.needs):
            found = check.evidence.stood.get(self.name)
        if found is None:
            return None
        text, hint = found if isinstance(found, Found) else (found, None)
        return Found(text, hint or (self.hint(check) if callable(self.hint) else self.hint))
