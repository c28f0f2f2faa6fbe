"""The stuck collective as the cause of a failure: it outranks the word of ranks that only waited."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lastbeat.explain.causes.confidence import Grounds
from lastbeat.explain.signals.error_types import HANG, traits_of
from lastbeat.model.cause import TEXT_LIMIT, Cause, Evidence, Explanation
from lastbeat.model.error_type import ErrorType
from lastbeat.model.stuck_collective import DTYPES, LEFT, NO_DUMP, NOT_STARTED, OTHER, PAST, SIZES, StuckCollective

SIGNAL: Final = "flight_recorder"
_NCCL_TIMEOUT: Final = "nccl_timeout"
_GROUNDS: Final = "flight recorders that show who waits for whom"
_SURE, _LIKELY = 0.9, 0.7
"""Guesses: whether one rank is named. Too few labelled runs have dumps."""
_WAITED: Final = frozenset({Grounds.WAIT.value, Grounds.CONSEQUENCE.value, Grounds.CONFIRMATION.value})
_MOST_DOWNSTREAM: Final = 12
_PATHS: Final = (
    "The ranks took different paths: look for a collective behind an 'if rank == …', a branch that depends on data, or "
    "unequal numbers of batches. TORCH_DISTRIBUTED_DEBUG=DETAIL names the call at once next time."
)
_STANDS: Final = (
    "On its node, py-spy dump --pid PID shows where it stands, dmesg -T | grep -iE 'xid|oom' what killed it. If it was "
    "rightly busy (a checkpoint, an evaluation), raise the process group's timeout."
)
_LINK: Final = (
    "No rank is to blame: look at the links and GPUs between them (ibstat, nvidia-smi topo -m, dmesg -T | grep -iE "
    "'xid|mlx5') and restart with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET."
)
_ENDED: Final = (
    "It ended, or got past this before the others: its own log says why. Unequal numbers of batches end so, too: "
    "torch.distributed.algorithms.join, or drop_last=True."
)
_ON_GPU: Final = (
    "Its GPU still works on something before that: nvidia-smi on its node, and cuda-gdb or py-spy dump --native --pid "
    "PID."
)
_ADVICE: Final = {
    OTHER: _PATHS,
    SIZES: _PATHS,
    DTYPES: _PATHS,
    LEFT: _ENDED,
    PAST: _ENDED,
    NO_DUMP: _ENDED,
    NOT_STARTED: _ON_GPU,
}


def with_stuck(found: Explanation, stuck: StuckCollective, types: Mapping[str, ErrorType]) -> Explanation:
    """``found`` with ``stuck`` as its cause, unless the logs name a fault or say that nothing failed."""
    if not _outranks(found, stuck):
        return found
    before = found.cause
    timed_out = stuck.late or (before is not None and traits_of(before.error_type).of_collective)
    known = types.get(_NCCL_TIMEOUT if timed_out else HANG)
    if known is None:
        return found
    paths = bool(stuck.culprits) and stuck.culprits[0].does in {OTHER, SIZES, DTYPES}
    evidence = Evidence(stuck.file, 0, stuck.sentence[:TEXT_LIMIT], stuck.root, stuck.root_host, stuck.since)
    cause = Cause(
        known.name,
        evidence,
        _LIKELY if stuck.root is None or stuck.circular else _SURE,
        "collective",
        False if paths else known.restartable,
        hint(stuck),
        SIGNAL,
    )
    others = () if before is None else (before.evidence, *found.downstream)
    return replace(
        found,
        cause=cause,
        alternatives=tuple(each for each in found.alternatives if each.error_type != cause.error_type),
        downstream=others[:_MOST_DOWNSTREAM],
        grounds=_GROUNDS,
        peer=None,
        missing=None,
        stuck=stuck,
    )


def _outranks(found: Explanation, stuck: StuckCollective) -> bool:
    cause = found.cause
    if cause is None:
        return stuck.open and found.success is None
    traits = traits_of(cause.error_type)
    return found.grounds in _WAITED or traits.only_waited or traits.says_nothing


def hint(stuck: StuckCollective) -> str:
    """Where to look first, and how."""
    does = stuck.culprits[0].does if stuck.culprits else ""
    name = next((row.name for row in stuck.rows if row.first == stuck.root), "")
    look = f"Look at {name}. " if name and stuck.culprits else ""
    places = f"{stuck.places[0].upper()}{stuck.places[1:]}. " if stuck.places else ""
    return f"{look}{places}{_ADVICE.get(does, _STANDS) if stuck.culprits else _LINK}"
