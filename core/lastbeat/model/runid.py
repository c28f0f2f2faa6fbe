"""What a run may be called, and where its files lie below the fleet root."""

import re

METADATA = "metadata.json"
PROGRESS = "progress.json"
LOG = "logs/training_log_latest.txt"
STACKS = "logs/stacks.txt"
ERROR = "_error"
COMPLETE = "_complete"
RECORD = "_watchdog.json"

SWEEP_MARK = "_watchdog/last_pass.json"
"""Beside the runs: the mark that each sweep of the fleet leaves."""

_ALLOWED = re.compile(r"[A-Za-z0-9._\-+=@:]{1,200}")


class InvalidRunIdError(ValueError):
    """A run id that no run may have; the message says why."""


def is_hardly_a_run(name: str) -> bool:
    """Whether a folder of this name, into which nobody may look, is taken for no run: the file system's own, or a
    hidden one."""
    return name == "lost+found" or name.startswith(".")


def check_run_id(run_id: str) -> str:
    """Return ``run_id`` unchanged, or raise :class:`InvalidRunIdError` that says what is wrong with it.

    The rule keeps ids usable as object keys, folder names and shell words, and out of the fleet's own
    ``_watchdog/`` folder.
    """
    shown = repr(run_id if len(run_id) <= 60 else run_id[:60] + "…")
    if not run_id:
        raise InvalidRunIdError("the run id is empty; use for example mistral-20250804-171621")
    if len(run_id) > 200:
        raise InvalidRunIdError(f"run id {shown} has {len(run_id)} characters; 200 is the most")
    if run_id in {".", ".."}:
        raise InvalidRunIdError(f"run id {shown} names a folder itself; use for example mistral-20250804-171621")
    if run_id.startswith("_"):
        raise InvalidRunIdError(f"run id {shown} starts with '_', which is kept for the watchdog's own files")
    if not _ALLOWED.fullmatch(run_id):
        bad = sorted({c for c in run_id if not _ALLOWED.fullmatch(c)})
        listed = " ".join(repr(c) for c in bad[:8])
        raise InvalidRunIdError(f"run id {shown} contains {listed}; allowed are A-Z a-z 0-9 . _ - + = @ :")
    return run_id
