"""A cause in the words that people get: what it is called, whether a restart helps, and the hint with what is known."""

from collections.abc import Mapping
from typing import Final

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.signal import Catalogue, Signal
from lastbeat.signals.error_types import TYPES
from lastbeat.signals.hints import filled

# What an exit code alone hints at → the signal that says the same in words, and so has the hint for it.
_SAME: Final = {
    ("oom", "host_memory"): "killed_by_shell",
    ("oom", "shared_memory"): "bus_error",
    ("exception", "native_crash"): "segmentation_fault",
    ("cancelled", "signal"): "terminated",
    ("cancelled", "preemption"): "preempted",
    ("cancelled", "slurm"): "slurm_cancelled",
    ("time_limit", "slurm"): "time_limit",
    ("slurm_failure", "node_fail"): "node_failure",
    ("slurm_failure", "slurm_step"): "slurm_launch_failed",
}


def signal_of_exit(catalogue: Catalogue, error_type: str, subsystem: str) -> Signal | None:
    """The signal whose hint fits what an exit code or a scheduler's word means."""
    name = _SAME.get((error_type, subsystem))
    return next((each for each in catalogue.signals if each.name == name), None)


def cause_of(
    catalogue: Catalogue,
    kind: tuple[str, str | None, float],
    evidence: Evidence,
    said: tuple[Signal | None, Mapping[str, str]],
    hinting: Signal | None = None,
) -> Cause:
    """``kind`` is the error type, the subsystem and how sure that is; ``said`` the signal and what it extracted;
    ``hinting`` a signal whose hint fits better than its own."""
    error_type, subsystem, confidence = kind
    signal, found = said
    known = catalogue.error_types.get(error_type) or TYPES.get(error_type)
    hint, restartable = (known.hint, known.restartable) if known is not None else ("", None)
    spoken = hinting if hinting is not None else signal
    if spoken is not None and spoken.error_type == error_type:
        hint = spoken.hint or hint
        restartable = spoken.restartable if spoken.restartable is not None else restartable
    fields = {"rank": evidence.rank, "host": evidence.host, "file": evidence.file, "line": evidence.line, **found}
    name = signal.name if signal is not None else ""
    return Cause(error_type, evidence, round(confidence, 2), subsystem, restartable, filled(hint, fields), name)
