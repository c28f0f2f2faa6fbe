"""Ctrl-C and SIGTERM as a wish, heard where nothing is half done."""

import signal
from types import FrameType


class StoppedError(Exception):
    """A person, or whoever started the demo, has asked it to stop."""


class Stop:
    """Whether somebody has asked.

    A handler that raises would do so anywhere: also inside ``subprocess.Popen``, between the fork and the moment when
    Python knows the child, which nobody would then end; and in the middle of ending one.
    """

    def __init__(self) -> None:
        # Not a threading.Event, whose lock the handler of one signal could find held by that of the other.
        self._asked = False

    def listen(self) -> None:
        """From now on neither signal raises or ends anything by itself."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._caught)

    def _caught(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True

    def check(self) -> None:
        """Raises StoppedError once somebody has asked."""
        if self._asked:
            raise StoppedError
