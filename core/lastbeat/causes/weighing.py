"""Of two findings, which one is nearer to the cause; and how sure that is."""

from collections.abc import Sequence
from typing import Final

from lastbeat.causes.findings import Finding, Tier

# What the kernel or the scheduler prints long after others have noticed.
_PRINTED_LATE: Final = frozenset({"hardware", "oom", "slurm_failure", "storage"})
# Errors of which the reason is often a warning just before them.
_EXPLAINED_BY_WARNINGS: Final = frozenset(
    {"nccl", "communication", "nccl_timeout", "distributed_timeout", "watchdog_timeout", "unknown"}
)
_WARNED_OF: Final = frozenset({"nccl", "communication", "hardware", "oom", "environment", "storage"})
_BASE: Final = {
    Tier.FACT: 0.93,
    Tier.SPECIFIC: 0.87,
    Tier.PLACED: 0.8,
    Tier.PLAIN: 0.82,
    Tier.GENERAL: 0.7,
    Tier.SYMPTOM: 0.68,
    Tier.EXIT: 0.55,
    Tier.CASCADE: 0.4,
    Tier.CONFIRMATION: 0.2,
}


def overtakes(later: Finding, best: Finding) -> bool:
    """Whether ``later``, which happened or was printed after ``best``, is nearer to the cause all the same."""
    if later.mention.link and later.file == best.file and later.mention.after == best.mention.order:
        return _end_of_chain(later, best)
    if best.tier == Tier.CASCADE:
        if best.error_type == "cancelled":
            # Whoever is stopped may raise anything. What stopped it, or a fault that no stopping makes, counts.
            return later.tier >= Tier.SPECIFIC or later.tier == Tier.EXIT
        return later.tier > Tier.CASCADE
    late = later.tier == Tier.FACT and later.error_type in _PRINTED_LATE
    if best.tier == Tier.EXIT:
        return later.tier >= Tier.PLAIN
    if best.tier == Tier.SYMPTOM:
        return late or (later.tier >= Tier.SPECIFIC and later.tier != Tier.FACT and _another_rank(later, best))
    if best.tier == Tier.GENERAL:
        return late
    if best.tier == Tier.SPECIFIC and best.error_type in {"torch", "nccl", "communication"}:
        return late and later.error_type == "hardware"
    return best.signal.subsystem == "native_crash" and late


def _end_of_chain(later: Finding, first: Finding) -> bool:
    """Of two exceptions, the second of which was raised because of the first or while it was handled."""
    if later.mention.link == "handling" and later.error_type == "cancelled":
        # A signal comes when it comes.
        return True
    if first.tier <= Tier.CASCADE:
        return later.tier >= Tier.PLAIN
    return later.tier >= Tier.SPECIFIC and first.tier in {Tier.GENERAL, Tier.PLAIN, Tier.PLACED}


def _another_rank(later: Finding, best: Finding) -> bool:
    return later.rank is not None and best.rank is not None and later.rank != best.rank


def earliest(best: Finding, findings: Sequence[Finding]) -> Finding:
    """The first line that says what ``best`` says, or that warned of it."""
    for finding in findings:
        if finding is best:
            break
        if finding.tier == Tier.CONFIRMATION or (finding.signal.kind is not None and finding.tier < best.tier):
            continue
        if finding.tier <= Tier.CASCADE < best.tier:
            # What follows from the cause may well be printed before it.
            continue
        if finding.error_type == best.error_type:
            return finding
        if finding.precursor and finding.error_type in _WARNED_OF and _explains(best):
            return finding
    return best


def _explains(best: Finding) -> bool:
    return best.error_type in _EXPLAINED_BY_WARNINGS or best.signal.name == "cuda_error"


def confidence_of(best: Finding, findings: Sequence[Finding], *, confirmed: bool) -> float:
    """From 0 to 1. It grows with the kind of evidence (``_BASE``), with a traceback and with a word that the run
    ended, and falls with other evidence of the same strength that says something else."""
    sure = _BASE[best.tier]
    if confirmed:
        sure += 0.04
    if best.mention.fatal:
        sure += 0.02
    if best.tier == Tier.CASCADE and best.error_type == "cancelled":
        # To be stopped from outside follows from something else less often than a lost connection does.
        sure += 0.12
    if best.mention.weak:
        sure -= 0.2
    rivals = {
        each.error_type
        for each in findings
        if each.tier >= best.tier
        and each.tier > Tier.CASCADE
        and each.error_type != best.error_type
        and not each.precursor
    }
    return max(0.05, min(0.98, sure - 0.08 * min(len(rivals), 3)))
