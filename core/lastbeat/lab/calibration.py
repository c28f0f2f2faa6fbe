"""Checks the calibration of confidence: how many of the causes with 90 % confidence are right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lastbeat.explain.signals.error_types import traits_of
from lastbeat.lab.scoring import Score, ScoredCase

_BINS: Final = 10
"""Number of intervals of confidence."""


@dataclass(frozen=True, slots=True)
class SaidShare:
    """Causes that were given with about the same confidence."""

    said: float
    """Mean of the stated confidence."""
    logs: int
    right: int
    """Number of causes with the exact label."""
    accepted: int
    """Number of causes with the exact label, or another acceptable one."""


def diagnosed(score: Score) -> list[ScoredCase]:
    """The logs with a known cause."""
    return [row for row in score.rows if row.diagnosis.confidence is not None and not _says_nothing(row)]


def _says_nothing(row: ScoredCase) -> bool:
    return traits_of(row.diagnosis.error_type or "").says_nothing


def reliability(rows: Iterable[ScoredCase]) -> list[SaidShare]:
    """``rows`` by tenths of the stated confidence, the highest first; tenths without a log are left out."""
    bins: dict[int, list[ScoredCase]] = {}
    for row in rows:
        bins.setdefault(min(int(_confidence(row) * _BINS), _BINS - 1), []).append(row)
    return [
        SaidShare(
            sum(map(_confidence, found)) / len(found),
            len(found),
            sum(row.right for row in found),
            sum(row.accepted for row in found),
        )
        for _, found in sorted(bins.items(), reverse=True)
    ]


def brier(rows: Sequence[ScoredCase]) -> float:
    """The mean squared error of confidence (G. W. Brier, "Verification of forecasts expressed in terms of
    probability", Monthly Weather Review 78, 1950): 0 is perfect, and always saying 50 % gets 0.25. Any acceptable type
    counts as right. 0 for no rows."""
    return sum((_confidence(row) - row.accepted) ** 2 for row in rows) / len(rows) if rows else 0.0


def calibration_error(rows: Sequence[ScoredCase]) -> float:
    """The expected calibration error: the distance between stated confidence and share of right causes in each tenth,
    weighted by its logs (M. P. Naeini, G. F. Cooper, M. Hauskrecht, "Obtaining Well Calibrated Probabilities Using
    Bayesian Binning", AAAI 2015). 0 for no rows."""
    off = sum(abs(each.said * each.logs - each.accepted) for each in reliability(rows))
    return off / len(rows) if rows else 0.0


def _confidence(row: ScoredCase) -> float:
    return row.diagnosis.confidence or 0.0
