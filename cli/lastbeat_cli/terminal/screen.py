"""A full terminal screen, drawn line by line. The terminal is always restored at the end.

Only changed lines are written, so a still picture costs nothing and nothing flickers.
"""

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final

from lastbeat.views.lines import paint
from lastbeat.views.lines.paint import Line
from lastbeat_cli.terminal.keys import Keys

# Alternate screen, hidden cursor, no line wrapping, bracketed paste.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h\x1b[2J"
_LEAVE: Final = "\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
_ESCAPE_S: Final = 0.05
"""After an escape, the rest of a key's sequence arrives within this many seconds."""
_PASTE_S: Final = 1.0
"""Longest pause within a pasted text, in seconds."""
_CHUNK: Final = 1024
"""Bytes written to the terminal at once."""
_PATIENCE_S: Final = 5.0
"""A picture is dropped if the terminal does not accept it within this many seconds."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Screen:
    """A context that takes over the terminal, and restores it at its end."""

    def __init__(self) -> None:
        self.ended = False
        """Whether a signal, or the closing of the terminal, has ended the screen."""
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._encoding = sys.stdout.encoding or "ascii"
        self._colours = paint.coloured(sys.stdout)
        self._keys = Keys()
        self._back: list[str] = []
        self._shown: list[str] = []
        self._suspend = False
        self._stale = False
        # A pipe, so that signals and other threads can both end a sleep.
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def __enter__(self) -> "Screen":
        self._modes = termios.tcgetattr(self._in)
        self._before = {number: signal.signal(number, self._caught) for number in _ENDING}
        for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH):
            self._before[number] = signal.signal(number, self._caught)
        self._woken_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            self._take()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._give_back()
        signal.set_wakeup_fd(self._woken_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        # The pipe stays open: another thread may be about to wake a screen that is gone.

    def wake(self) -> None:
        """End the sleep of :meth:`wait`. Thread-safe."""
        with suppress(OSError):  # A full pipe wakes it, too.
            os.write(self._wake_write, b".")

    @property
    def size(self) -> tuple[int, int]:
        """The terminal's current columns and lines."""
        try:
            size = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return max(size.columns, 1) if size.columns else 80, max(size.lines, 1) if size.lines else 24

    def draw(self, lines: Sequence[Line]) -> None:
        """Show ``lines`` from the top; lines beyond the terminal's height are left out."""
        _, height = self.size
        wanted = [paint.rendered(each, colours=self._colours) for each in lines[:height]]
        told: list[str] = []
        for index in range(max(len(wanted), len(self._shown))):
            new = wanted[index] if index < len(wanted) else ""
            if index >= len(self._shown) or self._shown[index] != new:
                # Erased first: after a line that fills the terminal, the cursor still stands on its last character.
                told.append(f"\x1b[{index + 1};1H\x1b[2K{new}")
        self._shown = wanted
        if told:
            self._write("".join(told))

    def wait(self, seconds: float) -> list[str]:
        """Wait for keys and return them; empty after ``seconds``, or if :meth:`wake` or a signal ended the wait."""
        if self.ended:
            return []
        keys, self._back = self._back, []
        keys += self._read(0.0 if keys else seconds)
        while self._keys.waiting and not self.ended:
            keys += self._rest_of_key()
        if self._suspend:
            self._sleep()
        if self._stale or "redraw" in keys:
            self._stale = False
            self.redraw()
        return keys

    def put_back(self, keys: Sequence[str]) -> None:
        """Make :meth:`wait` return these keys again: the next screen handles them."""
        self._back = [*keys, *self._back]

    def _rest_of_key(self) -> list[str]:
        limit = time.monotonic() + (_PASTE_S if self._keys.pasting else _ESCAPE_S)
        # A wake-up in between must not split a key.
        while self._keys.waiting and not self.ended and (left := limit - time.monotonic()) > 0:
            if keys := self._read(left):
                return keys
        return self._keys.flush()

    def redraw(self) -> None:
        """Clear the screen, so that the next picture is drawn whole."""
        self._shown = []
        self._write("\x1b[2J")

    def _read(self, seconds: float) -> list[str]:
        ready, _, _ = select.select([self._in, self._wake_read], [], [], max(seconds, 0.0))
        if self._wake_read in ready:
            with suppress(OSError):
                os.read(self._wake_read, 4096)
        if self._in not in ready:
            return []
        try:
            data = os.read(self._in, 1024)
        except OSError:  # On Linux: the other side of the terminal has closed.
            data = b""
        if not data:
            self.ended = True
        return self._keys.feed(data)

    def _caught(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self._suspend = True
        elif number in {signal.SIGWINCH, signal.SIGCONT}:
            self._stale = True
        else:
            if self.ended:  # A second signal ends the process at once, after the terminal is restored.
                self._give_back()
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self.ended = True
        # The byte that wakes the sleep comes from the C handler.

    def _sleep(self) -> None:
        """Handle Ctrl-Z: restore the terminal for the shell, and stop until ``fg``."""
        self._suspend = False
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Execution continues here after ``fg``.
        signal.signal(signal.SIGTSTP, self._caught)
        with suppress(OSError, termios.error):
            self._modes = termios.tcgetattr(self._in)
            self._take()

    def _take(self) -> None:
        modes = termios.tcgetattr(self._in)
        # Keys arrive one by one without echo; Ctrl-C and Ctrl-Z stay signals.
        modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        modes[0] &= ~(termios.IXON | termios.ICRNL)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._in, termios.TCSANOW, modes)
        self._shown = []
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        with suppress(OSError, termios.error):
            termios.tcsetattr(self._in, termios.TCSANOW, self._modes)

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "backslashreplace")
        limit = time.monotonic() + _PATIENCE_S
        while data and time.monotonic() < limit:
            # A stopped terminal accepts no output. Short waits let a signal through.
            if not select.select([], [self._out], [], 0.1)[1]:
                continue
            try:
                data = data[os.write(self._out, data[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError:  # The terminal is gone.
                self.ended = True
                return
