"""Groups labelled logs by repository, to estimate the uncertainty of a score, and the score on unseen logs.

Logs of one repository fail alike, so they are not independent evidence. Rules are fitted to the logs for which they
were written.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lastbeat.lab.scoring import Case, Diagnosis, Score, ScoredCase
from lastbeat.model.signal import Catalogue

_REPOSITORY: Final = r"(?:https?://)?(?:github\.com/)?([\w.-]{1,100}/[\w.-]{1,100})"
_NINETY_FIVE: Final = 1.959964
"""Standard deviations on either side of the mean that contain 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class BoundedShare:
    """A share of some logs, and the bounds within which the share of all such logs is likely to lie."""

    part: int
    count: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SignalUse:
    """A signal that showed some log's cause."""

    name: str
    logs: tuple[str, ...]
    """Ids of the logs whose cause it showed."""
    repositories: tuple[str, ...]
    matched_logs: int = 0
    """Number of logs with a line that matches it, whether or not that is the cause."""
    matched_repositories: int = 0


def repository_of(case: Case) -> str:
    """The repository that a log comes from, ``owner/name`` in small letters.

    Without a named repository, logs of the same origin and framework count as one, because they may have been made
    alike.
    """
    named = re.match(_REPOSITORY, case.source)
    if named is not None:
        return named[1].lower()
    return f"{case.source or case.provenance or 'unnamed'} ({case.framework or 'any framework'})"


def share(
    rows: Iterable[ScoredCase], holds: Callable[[ScoredCase], bool], deviations: float = _NINETY_FIVE
) -> BoundedShare:
    """The share of ``rows`` for which ``holds`` is true, with an interval that counts a repository as one piece of
    evidence.

    It is the score interval of Wilson (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
    Inference", Journal of the American Statistical Association 22, 1927), with the effective number of logs in place of
    their number: (sum of m)² / (sum of m²), where m is a repository's number of logs (L. Kish, "Survey Sampling", 1965,
    the design effect of clusters for a correlation of 1 within them). That is the cautious end: it assumes that a
    repository's logs are right or wrong together. Unlike a bootstrap it is informative for 20 right ones out of 20 too.
    """
    sizes: dict[str, int] = {}
    part = 0
    for row in rows:
        repository = repository_of(row.case)
        sizes[repository] = sizes.get(repository, 0) + 1
        part += holds(row)
    count = sum(sizes.values())
    if not count:
        return BoundedShare(0, 0, 0.0, 1.0)
    effective = count**2 / sum(size**2 for size in sizes.values())
    return BoundedShare(part, count, *wilson(part / count, effective, deviations))


def wilson(observed: float, count: float, deviations: float = _NINETY_FIVE) -> tuple[float, float]:
    """Lower and upper bound of Wilson's interval for the share ``observed`` of ``count``, which is positive and need
    not be whole."""
    spread = deviations**2 / count
    middle = (observed + spread / 2) / (1 + spread)
    half = deviations * math.sqrt(observed * (1 - observed) / count + spread / (4 * count)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def uses(score: Score) -> dict[str, SignalUse]:
    """The signals that showed a cause, by name; those of the fewest repositories first."""
    logs: dict[str, list[str]] = {}
    repositories: dict[str, set[str]] = {}
    for row in score.rows:
        name = row.diagnosis.signal
        if name:
            logs.setdefault(name, []).append(row.case.id)
            repositories.setdefault(name, set()).add(repository_of(row.case))
    found = [SignalUse(name, tuple(ids), tuple(sorted(repositories[name]))) for name, ids in logs.items()]
    return {use.name: use for use in sorted(found, key=lambda use: (len(use.repositories), len(use.logs), use.name))}


def left_out(score: Score, catalogue: Catalogue, ask: Callable[[int, Catalogue], Diagnosis]) -> Score:
    """The leave-one-repository-out score: each log read as if its repository had never been seen.

    For rules written by hand, that means without the signals that show causes only in this repository's logs. ``score``
    is that of the whole ``catalogue``; ``ask`` reads the log of the row with a given index with a smaller catalogue.
    """
    own: dict[str, set[str]] = {}
    for use in uses(score).values():
        if len(use.repositories) == 1:
            own.setdefault(use.repositories[0], set()).add(use.name)
    smaller = {
        repository: catalogue._replace(signals=tuple(each for each in catalogue.signals if each.name not in names))
        for repository, names in own.items()
    }
    rows = list(score.rows)
    # A repository's logs come one after the other, so that they share the compiled catalogue.
    for index, row in sorted(enumerate(score.rows), key=lambda numbered: repository_of(numbered[1].case)):
        without = smaller.get(repository_of(row.case))
        if without is not None:
            rows[index] = ScoredCase(row.case, ask(index, without))
    return Score(rows)


OF_FAILURES: Final[Mapping[str, Callable[[ScoredCase], bool]]] = {
    "right type": lambda row: row.right,
    "right or acceptable": lambda row: row.accepted,
    "evidence within 2 lines": lambda row: row.near,
}
"""Name → criterion by which the log of a failure is scored."""
OF_HEALTHY: Final[Mapping[str, Callable[[ScoredCase], bool]]] = {
    "healthy, not misread": lambda row: row.diagnosis.error_type is None,
}
"""Name → criterion by which the log of a healthy run is scored."""


def shares(score: Score) -> dict[str, BoundedShare]:
    """Criterion of :data:`OF_FAILURES` or :data:`OF_HEALTHY` → the share of such logs that meet it."""
    asked = ((score.failures, OF_FAILURES), (score.healthy, OF_HEALTHY))
    return {name: share(rows, holds) for rows, aspects in asked for name, holds in aspects.items()}


def matched(found: Mapping[str, SignalUse], names: Sequence[tuple[Case, Iterable[str]]]) -> list[SignalUse]:
    """``found``, completed with counts of all matching logs. ``names`` are the signals that match any line of each
    log."""
    logs: dict[str, int] = {}
    repositories: dict[str, set[str]] = {}
    for case, each in names:
        for name in set(each):
            logs[name] = logs.get(name, 0) + 1
            repositories.setdefault(name, set()).add(repository_of(case))
    return [
        SignalUse(use.name, use.logs, use.repositories, logs.get(use.name, 0), len(repositories.get(use.name, ())))
        for use in found.values()
    ]
