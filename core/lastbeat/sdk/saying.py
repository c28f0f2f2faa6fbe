"""Lines in training's log. Its handlers and filters are training's code, so a line that cannot be said is not said."""

import logging
import threading

from lastbeat.sdk.values import text, type_name
from lastbeat.stores.port import StoreError

log = logging.getLogger("lastbeat")

_MOST = 100
"""So many names are complained of, at most: training may make up ever new ones."""


def say(level: int, message: str, *facts: object) -> None:
    """Log a line. Never raises, whatever training's handlers and filters do."""
    try:
        log.log(level, message, *facts, stacklevel=2)
    except BaseException as fault:  # there is nowhere left to say it
        # In the main thread it may as well be Ctrl-C, or an exit that a signal's handler asks for.
        if not isinstance(fault, Exception) and threading.current_thread() is threading.main_thread():
            raise


def why(fault: BaseException) -> str:
    """What went wrong, in words."""
    if isinstance(fault, StoreError):
        return str(fault)
    return f"{type_name(fault)}: {text(fault)}"


class Complaints:
    """What is wrong with what training hands over, said once for each name."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def once(self, name: str, message: str, *facts: object) -> None:
        """Warn, unless that was done for ``name``."""
        if name not in self._said and len(self._said) < _MOST:
            self._said.add(name)
            say(logging.WARNING, message, *facts)
