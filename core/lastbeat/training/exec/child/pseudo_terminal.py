"""A pseudo-terminal for a child, so that a stream which was a terminal stays one."""

import fcntl
import os
import select
import signal
import struct
import termios
import threading
import time
from collections import deque
from typing import Any

_INTERRUPTS = 100
_KEYS_S = 2.0
"""Longest wait in s for a relay to notice its end, which it checks twice a second."""
_SIZE = struct.Struct("HHHH")  # rows, columns, width and height in pixels


class PseudoTerminal:
    """A copy of the terminal ``like`` for a child: same size, same settings, and its keyboard while it is ours.

    The child's end leaves output unchanged; the real terminal still turns ``\\n`` into a new line.
    """

    def __init__(self, like: int) -> None:
        self._like = like
        self.our_end, child_end = os.openpty()
        self.name = os.ttyname(child_end)
        self._child_end: int | None = child_end
        self._settings_before: list[Any] | None = None
        """The real terminal's settings before it was made raw."""
        self.interrupts: deque[tuple[float, int]] = deque(maxlen=_INTERRUPTS)
        """Monotonic times and numbers of signals by keys that requested the child's end."""
        self._keyboard = threading.Event()
        self._over = False
        self._relaying: threading.Thread | None = None
        settings = termios.tcgetattr(like)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(child_end, termios.TCSANOW, settings)
        self.resize()

    def child_started(self) -> None:
        """Close our copy of the child's end, so that the child's exit is an end of file."""
        if self._child_end is not None:
            os.close(self._child_end)
            self._child_end = None

    def resize(self) -> None:
        """Copy the real terminal's size."""
        try:
            size = fcntl.ioctl(self._like, termios.TIOCGWINSZ, bytes(_SIZE.size))
            fcntl.ioctl(self.our_end, termios.TIOCSWINSZ, size)
        except OSError:
            # The real terminal is gone; keep the last size.
            return

    def take_keyboard(self, keyboard: int) -> None:
        """Pass keys on, raw, while we are in the foreground of the terminal ``keyboard``.

        Call it again on return to the foreground. In the background the kernel would stop us for touching the terminal.
        """
        if not _in_foreground(keyboard):
            return
        try:
            settings = termios.tcgetattr(keyboard)
            before = [*settings[:6], list(settings[6])]
            # Like cfmakeraw(), but with output processing left on.
            settings[0] &= ~(
                termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON | termios.INLCR
                | termios.IGNCR
            )  # fmt: skip
            settings[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
            termios.tcsetattr(keyboard, termios.TCSADRAIN, settings)
        except termios.error:
            return
        if self._settings_before is None:
            self._settings_before = before
            self._relayed = keyboard
            relaying = threading.Thread(target=self._relay, args=(keyboard,), name="lastbeat-keyboard", daemon=True)
            relaying.start()
            self._relaying = relaying
        self._keyboard.set()

    def restore(self) -> None:
        """Restore the real terminal's settings."""
        if self._settings_before is not None and _in_foreground(self._relayed):
            try:
                termios.tcsetattr(self._relayed, termios.TCSADRAIN, self._settings_before)
            except termios.error:
                # The terminal is gone.
                return

    def let_go(self) -> None:
        """Leave the keyboard to another one, and restore the real terminal's settings until that takes it."""
        self._over = True
        self._keyboard.set()
        if self._relaying is not None:
            self._relaying.join(_KEYS_S)
        self.restore()

    def _signal_of(self, keys: bytes) -> int | None:
        """The signal that the kernel sends the child for these keys, by its terminal's current settings, or None."""
        settings = termios.tcgetattr(self.our_end)
        if not settings[3] & termios.ISIG:
            return None
        meant = {termios.VINTR: signal.SIGINT, termios.VQUIT: signal.SIGQUIT}
        return next((number for key, number in meant.items() if settings[6][key] in _bytes(keys)), None)

    def _relay(self, keyboard: int) -> None:
        ready = select.poll()
        ready.register(keyboard, select.POLLIN)
        while not self._over:
            self._keyboard.wait()
            if not _in_foreground(keyboard):
                self._keyboard.clear()
                continue
            if not ready.poll(500) or self._over:
                continue
            try:
                keys = os.read(keyboard, 4096)
                if not keys:
                    return
                if (number := self._signal_of(keys)) is not None:
                    self.interrupts.append((time.monotonic(), number))
                while keys:
                    keys = keys[os.write(self.our_end, keys) :]
            except (OSError, termios.error):
                # Either end is gone.
                return


def _bytes(keys: bytes) -> list[bytes]:
    return [keys[at : at + 1] for at in range(len(keys))]


def _in_foreground(keyboard: int) -> bool:
    try:
        return os.tcgetpgrp(keyboard) == os.getpgrp()
    except OSError:
        return False
