"""Runs a training step again whose result is bad, and finds out whose fault it is; see docs/rerun.md.

    from lastbeat.rerun import RerunDataIterator, RerunStateMachine

Without any dependency: torch and numpy count where training has loaded them.
"""

from lastbeat.model.rerun import (
    EXIT_CODE_FAILED_ON_RESULT_VALIDATION,
    EXIT_CODE_RESUME_TO_DISAMBIGUATE,
    RerunFinding,
    RerunVerdict,
)
from lastbeat.rerun.data import RerunDataIterator
from lastbeat.rerun.state_machine import RerunMode, RerunStateMachine, get_rerun_state_machine
from lastbeat.rerun.variation import VariationSummary

__all__ = [
    "EXIT_CODE_FAILED_ON_RESULT_VALIDATION",
    "EXIT_CODE_RESUME_TO_DISAMBIGUATE",
    "RerunDataIterator",
    "RerunFinding",
    "RerunMode",
    "RerunStateMachine",
    "RerunVerdict",
    "VariationSummary",
    "get_rerun_state_machine",
]
