"""Valid run ids, and the names of a run's files below the fleet root."""

import re

METADATA = "metadata.json"
PROGRESS = "progress.json"
LOG = "logs/training_log_latest.txt"
STACKS = "logs/stacks.txt"
ERROR = "_error"
COMPLETE = "_complete"
PREEMPTED = "_preempted"
"""It ended early, with a checkpoint, see ``model.preemption``."""
SENTINELS = (ERROR, COMPLETE, PREEMPTED)
"""Any of them ends an attempt; of several the first counts."""
RECORD = "_watchdog.json"
STOP = "_stop"
"""A request to end the run, see ``model.stop_request``."""
LEARNED = "ft_state.json"
"""How long its sections usually take, and the limits that it has learned from that, see ``model.learned_limits``."""
SIMULATED_FAULT = "_simulated_fault.json"
"""A fault that somebody asked for has happened, see ``model.simulated_fault``."""
ALERTS = "_alerts.json"
"""Alerts that training raised itself, see ``model.raised_alert``."""

SWEEP_MARK = "_watchdog/last_pass.json"
"""Beside the runs: the mark that each pass over the fleet leaves."""

_ALLOWED = re.compile(r"[A-Za-z0-9._\-+=@:]{1,200}")


class InvalidRunIdError(ValueError):
    """Not a valid run id; the message says why."""


def is_hardly_a_run(name: str) -> bool:
    """Whether an unreadable folder of this name is no run but a hidden one, or one of the file system's own."""
    return name == "lost+found" or name.startswith(".")


def check_run_id(run_id: str) -> str:
    """Return ``run_id`` unchanged, or raise :class:`InvalidRunIdError` that says what is wrong with it.

    The rules keep ids usable as object keys, folder names and shell words, and out of the ``_watchdog/`` folder.
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


def waiting_record(run_id: str) -> str:
    """The key of the record of a run that nobody has seen. A permission for ``*/_watchdog.json`` covers it."""
    return f"_watchdog/unseen/{run_id}/{RECORD}"
