"""Signals of the operating system by name or number, as settings and training say them."""

import re
import signal
from typing import Final

_SPELT: Final = re.compile(r"(?:SIG)?([A-Z][A-Z0-9]{1,8})|([1-9]\d?)")
_NEVER: Final = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGCHLD, signal.SIGSEGV})
"""Signals that a program cannot handle, or that mean something else."""


def signal_number(said: object) -> int:
    """Return the number of ``SIGUSR1``, ``usr1``, ``10`` or ``signal.SIGUSR1``.

    Raises ``ValueError`` with the end of a sentence."""
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
