"""Valid run ids, and the names of a run's files below the fleet root."""

import re
import unicodedata
from typing import Final

METADATA = "metadata.json"
PROGRESS = "progress.json"
LOG = "logs/training_log_latest.txt"
STACKS = "logs/stacks.txt"
CURVES = "curves/"
"""The folder with the curves of each attempt."""
ERROR = "_error"
COMPLETE = "_complete"
PREEMPTED = "_preempted"
"""It ended early, with a checkpoint, see ``model.preemption``."""
SENTINELS = (ERROR, COMPLETE, PREEMPTED)
"""Any of them ends an attempt; of several the first counts."""
RECORD = "_watchdog.json"
STOP = "_stop"
"""A request to end the run, see ``model.stop_request``."""
STOP_LIMIT_BYTES = 4 * 1024
"""Most bytes of that request. Each beat looks for one, and few runs ever get one, so its module is loaded with it."""
LEARNED = "ft_state.json"
"""How long its sections usually take, and the limits that it has learned from that, see ``model.learned_limits``."""
SIMULATED_FAULT = "_simulated_fault.json"
"""A simulated fault has happened, see ``model.simulated_fault``."""
ALERTS = "_alerts.json"
"""Alerts raised by training, see ``model.raised_alert``."""

SWEEP_MARK = "_watchdog/last_pass.json"
"""Beside the runs: the mark that each pass over the fleet leaves."""

_MOST_CHARS: Final = 200
_ALLOWED = re.compile(r"[A-Za-z0-9._\-+=@:]{1,200}")
_UNFIT: Final = re.compile(r"(?:-*[^A-Za-z0-9._\-+=@:]+)+-*")
_DIGEST_CHARS: Final = 8
_READ_CHARS: Final = 10_000
"""How much of a text counts for the run id that is made of it."""


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
    if len(run_id) > _MOST_CHARS:
        raise InvalidRunIdError(f"run id {shown} has {len(run_id)} characters; {_MOST_CHARS} is the most")
    if run_id in {".", ".."}:
        raise InvalidRunIdError(f"run id {shown} names a folder itself; use for example mistral-20250804-171621")
    if run_id.startswith("_"):
        raise InvalidRunIdError(f"run id {shown} starts with '_', which is kept for the watchdog's own files")
    if not _ALLOWED.fullmatch(run_id):
        bad = sorted({c for c in run_id if not _ALLOWED.fullmatch(c)})
        listed = " ".join(repr(c) for c in bad[:8])
        raise InvalidRunIdError(f"run id {shown} contains {listed}; allowed are A-Z a-z 0-9 . _ - + = @ :")
    return run_id


def is_run_id(name: str) -> bool:
    """Whether a run may have this id."""
    try:
        return bool(check_run_id(name))
    except InvalidRunIdError:
        return False


def safe_run_id(text: str) -> tuple[str, str]:
    """The run id that people expect of ``text``, and a sentence about it: ``my-exp`` of ``my exp!``. The sentence is
    empty if the text is a run id. Each rank makes the same of it. Raises :class:`InvalidRunIdError` if it is blank.

    1. Accents are dropped, anything else that is not allowed becomes a dash, and an id begins with none of ``-._``.
    2. Where that loses letters or digits, or the text is too long, a digest of the text keeps different runs apart.
    """
    try:
        return check_run_id(text if text.strip() else ""), ""
    except InvalidRunIdError as wrong:
        if not text.strip():
            raise
        fault, text = wrong, text[:_READ_CHARS]
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    name = _UNFIT.sub("-", plain).lstrip("-._").rstrip("-")
    if not name or len(name) > _MOST_CHARS or any(each.isalnum() and not each.isascii() for each in plain):
        from hashlib import sha256  # noqa: PLC0415 - few names need it

        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        name = f"{name[: _MOST_CHARS - _DIGEST_CHARS - 1].rstrip('-') or 'run'}-{digest}"
    return name, f"{fault}; lastbeat calls this run {name}"


def waiting_record(run_id: str) -> str:
    """The key of the record of a run that was never seen. A permission for ``*/_watchdog.json`` covers it."""
    return f"_watchdog/unseen/{run_id}/{RECORD}"


def rank_key(rank: int) -> str:
    """The key of a rank's heartbeat in the run's folder."""
    return f"ranks/{rank}.json"


def curves_key(attempt: int) -> str:
    """The key of the curves of one attempt in the run's folder."""
    return f"{CURVES}{attempt}.json"


def rank_error_key(rank: int) -> str:
    """The key of the error of a rank that was not the first to fail."""
    return f"ranks/{rank}.error"
