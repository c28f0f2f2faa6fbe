"""Conditions of single ranks of a distributed run: one is silent, or slow."""

from collections.abc import Callable
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.stragglers_told import StragglersTold
from lastbeat.watch.decide.conditions.condition import METADATA, RANKS, Check, Condition
from lastbeat.watch.decide.silent_ranks import silent_ranks


def _silent(check: Check) -> str | None:
    return silent_ranks(check.evidence.seen, check.evidence.attempt, check.now)


def _reported(said: Callable[[StragglersTold], str | None]) -> Callable[[Check], str | None]:
    """A function that finds what the run's own heartbeat reports about its last windows."""

    def find(check: Check) -> str | None:
        metadata = check.evidence.seen.metadata
        if metadata is None or metadata.fault is not None or metadata.stragglers is None:
            return None
        return said(metadata.stragglers)

    return find


SILENT: Final = (
    Condition(
        names.RANK_SILENT,
        "a rank has missed four of its beats (`rank_beat_seconds`, or `STALE_MINUTES` where nothing says how often it "
        "beats) while others beat: `rank 3 on host-17 silent for 4m, 127 others alive`",
        _silent,
        needs=(RANKS,),
        hint="Look at that rank's host (does it answer? dmesg -T, nvidia-smi) and process: the other ranks wait for "
        "it in their next collective, until that times out.",
    ),
)

SLOW: Final = (
    Condition(
        names.STRAGGLER,
        "by the run's own report ([stragglers.md](stragglers.md)) a rank is slow: `rank 76 on h100-009 is "
        "slow (score 0.61), of 512 ranks`",
        _reported(lambda report: report.text),
        needs=(METADATA,),
        hint="All ranks wait for the slowest: nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,ECC on its node shows a "
        "GPU that is throttled or ill; top and dmesg -T what else runs there. Leave the node out at the next start "
        "(sbatch --exclude=NODE, kubectl cordon NODE); exclude_stragglers in a restart policy does so.",
    ),
    Condition(
        "slow",
        "by that report all ranks are slow together",
        _reported(lambda report: report.slow_text),
        needs=(METADATA,),
        hint="No rank stands out, so it is something that all of them share: the data loader and its storage, the "
        "network between nodes, longer sequences. Compare data loading with the rest of a step; NCCL_DEBUG=INFO says "
        "which network is used.",
    ),
)
