"""Signals by which a training is told to save a checkpoint and end: their names, and who ignores them."""

import re
import signal
from typing import Final

_SPELT: Final = re.compile(r"(?:SIG)?([A-Z][A-Z0-9]{1,8})|([1-9]\d?)")
_NEVER: Final = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGCHLD, signal.SIGSEGV})
"""What cannot be handled, or means something else."""


def signal_number(said: object) -> int:
    """``SIGUSR1``, ``usr1``, ``10`` or ``signal.SIGUSR1`` as a number. Raises ``ValueError`` with the end of a
    sentence."""
    text = str(int(said)) if isinstance(said, int) and not isinstance(said, bool) else said
    found = _SPELT.fullmatch(text.strip().upper()) if isinstance(text, str) and len(text) < 20 else None
    if found is None:
        raise ValueError("is no signal")
    try:
        number = signal.Signals(int(found[2])) if found[2] else signal.Signals[f"SIG{found[1]}"]
    except (ValueError, KeyError):
        raise ValueError("is no signal of this system") from None
    if number in _NEVER:
        raise ValueError("is no signal that a training can answer by ending early; use SIGTERM, SIGUSR1 or SIGUSR2")
    return int(number)


def ignore_stop_signals(_worker: object = None) -> None:
    """See :func:`lastbeat.ignore_stop_signals`."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
