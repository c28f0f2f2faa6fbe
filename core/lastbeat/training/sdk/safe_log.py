"""Logs without raising into training, although training's handlers and filters run in every logging call."""

import logging
import threading

from lastbeat.stores.port import StoreError
from lastbeat.training.sdk.values import as_text, type_name

log = logging.getLogger("lastbeat")

_MAX_NAMES = 100
"""Most names that get a warning, because training may produce new ones without end."""


def safe_log(level: int, message: str, *facts: object, to: logging.Logger = log) -> None:
    """Log a line. Never raises, whatever training's handlers and filters do."""
    try:
        to.log(level, message, *facts, stacklevel=2)
    except BaseException as fault:  # there is nowhere left to report it
        # In the main thread it may be Ctrl-C, or an exit that a signal handler asks for, and has to pass.
        if not isinstance(fault, Exception) and threading.current_thread() is threading.main_thread():
            raise


def fault_text(fault: BaseException) -> str:
    """The fault as text, with advice if the store has some."""
    if isinstance(fault, StoreError):
        return fault.told
    return f"{type_name(fault)}: {as_text(fault)}"


class WarnOnce:
    """Warns once for each name about values from training that cannot be used."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def warn(self, name: str, message: str, *facts: object) -> None:
        """Warn, unless ``name`` has had its warning."""
        if name not in self._warned and len(self._warned) < _MAX_NAMES:
            self._warned.add(name)
            safe_log(logging.WARNING, message, *facts)
