"""The table of conditions, in the order in which alerts name them."""

from collections.abc import Iterable, Mapping
from typing import Final

from lastbeat.model.policy import Policy
from lastbeat.watch.decide.conditions import beats, documents, job, log_text, nodes, numbers, ranks, stall
from lastbeat.watch.decide.conditions.condition import Check, Condition, Found

BEFORE_THE_FIRST_BEAT: Final = beats.BEFORE_THE_FIRST
OF_JOB: Final = job.CONDITIONS


def while_beating(policy: Policy) -> tuple[Condition, ...]:
    """The conditions of a run that has beaten, with those that the user's catalogue adds."""
    return (
        *nodes.BROKEN_GPUS,
        *log_text.CONDITIONS,
        *ranks.SILENT,
        *beats.CONDITIONS,
        *ranks.SLOW,
        *stall.CONDITIONS,
        *documents.CONDITIONS,
        *numbers.CONDITIONS,
        *log_text.absences(policy),
        *log_text.NETWORK_IN_USE,
        *nodes.CONDITIONS,
    )


TABLE: Final = (*BEFORE_THE_FIRST_BEAT, *while_beating(Policy()), *OF_JOB)
MUTED_BY_FLAPPING: Final = frozenset(row.name for row in TABLE if row.muted_by_flapping)
OUTLASTING_AN_ATTEMPT: Final = frozenset(row.name for row in TABLE if row.outlasts_attempt)
EXPLAINED: Final = frozenset(row.name for row in TABLE if row.is_explained)


def raised(rows: Iterable[Condition], check: Check) -> Mapping[str, Found]:
    """Condition → what raises it, in the order of ``rows``. If two rows find one condition, the later one gives the
    text, and the earlier one the hint."""
    found: dict[str, Found] = {}
    for row in rows:
        new = row.raised(check)
        if new is not None:
            known = found.get(row.name, new)
            found[row.name] = (known if new.stood else new)._replace(hint=known.hint or new.hint)
    return found
