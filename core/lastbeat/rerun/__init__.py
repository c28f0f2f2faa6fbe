"""Runs a training step with a bad result again, and finds the fault; see docs/rerun.md.

    from lastbeat.rerun import RerunDataIterator, RerunStateMachine

This package has no dependencies. It uses torch and numpy only if training has loaded them.
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
