"""Whether confidence means something: of causes that were said to be right nine times in ten, how many were."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lastbeat.causes.scoring import Score, ScoredCase
from lastbeat.signals.error_types import traits_of

_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class SaidShare:
    """Causes that were said with about the same confidence."""

    said: float
    """The mean of what was said."""
    logs: int
    right: int
    """The label itself."""
    accepted: int
    """That, or another that is no mistake."""


def told(score: Score) -> list[ScoredCase]:
    """The logs of which a cause was said. That nothing is known is no cause."""
    return [row for row in score.rows if row.diagnosis.confidence is not None and not _says_nothing(row)]


def _says_nothing(row: ScoredCase) -> bool:
    return traits_of(row.diagnosis.error_type or "").says_nothing


def reliability(rows: Iterable[ScoredCase]) -> list[SaidShare]:
    """``rows`` by tenths of the confidence that was said, the highest first; tenths without a log are left out."""
    bins: dict[int, list[ScoredCase]] = {}
    for row in rows:
        bins.setdefault(min(int(_said(row) * _BINS), _BINS - 1), []).append(row)
    return [
        SaidShare(
            sum(map(_said, found)) / len(found),
            len(found),
            sum(row.right for row in found),
            sum(row.accepted for row in found),
        )
        for _, found in sorted(bins.items(), reverse=True)
    ]


def brier(rows: Sequence[ScoredCase]) -> float:
    """The mean square of how far confidence was off (G. W. Brier, "Verification of forecasts expressed in terms of
    probability", Monthly Weather Review 78, 1950): 0 is perfect, 0.25 is what saying 50 % always gets. Any
    type that is no mistake is right. 0 for no rows."""
    return sum((_said(row) - row.accepted) ** 2 for row in rows) / len(rows) if rows else 0.0


def calibration_error(rows: Sequence[ScoredCase]) -> float:
    """The expected calibration error: how far what was said and what was right are apart in each tenth, weighted by its
    logs (M. P. Naeini, G. F. Cooper, M. Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning",
    AAAI 2015). 0 for no rows."""
    off = sum(abs(each.said * each.logs - each.accepted) for each in reliability(rows))
    return off / len(rows) if rows else 0.0


def _said(row: ScoredCase) -> float:
    return row.diagnosis.confidence or 0.0
