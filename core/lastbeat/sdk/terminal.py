"""A pseudo-terminal in front of a child, so that what was a terminal stays one."""

import fcntl
import os
import select
import struct
import termios
import threading
from typing import Any

_SIZE = struct.Struct("HHHH")  # rows, columns, width and height in pixels


class Terminal:
    """The terminal ``like`` once more, for a child: same size, same settings, and its keyboard where we have it.

    The child's side passes output through untouched; the real terminal keeps turning ``\\n`` into a new line.
    """

    def __init__(self, like: int) -> None:
        self._like = like
        self.ours, theirs = os.openpty()
        self.name = os.ttyname(theirs)
        self._theirs: int | None = theirs
        self._before: list[Any] | None = None
        """The real terminal's settings, while its keys go to the child as they are."""
        self._keyboard = threading.Event()
        settings = termios.tcgetattr(like)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        self.resize()

    def child_started(self) -> None:
        """From now on only the child's side counts."""
        if self._theirs is not None:
            os.close(self._theirs)
            self._theirs = None

    def resize(self) -> None:
        """Give the child the size of the real one."""
        try:
            size = fcntl.ioctl(self._like, termios.TIOCGWINSZ, bytes(_SIZE.size))
            fcntl.ioctl(self.ours, termios.TIOCSWINSZ, size)
        except OSError:
            # The real one is gone; the last size stands.
            return

    def take_keyboard(self, keyboard: int) -> None:
        """Pass keys on, raw, while we are in the foreground of the terminal ``keyboard``; call it again after being
        brought there. In the background touching the terminal would stop us."""
        if not _in_foreground(keyboard):
            return
        try:
            settings = termios.tcgetattr(keyboard)
            before = [*settings[:6], list(settings[6])]
            # As cfmakeraw(), but output goes on being processed.
            settings[0] &= ~(
                termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON | termios.INLCR
                | termios.IGNCR
            )  # fmt: skip
            settings[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
            settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
            termios.tcsetattr(keyboard, termios.TCSADRAIN, settings)
        except termios.error:
            return
        if self._before is None:
            self._before = before
            self._relayed = keyboard
            threading.Thread(target=self._relay, args=(keyboard,), name="lastbeat-keyboard", daemon=True).start()
        self._keyboard.set()

    def restore(self) -> None:
        """Leave the real terminal as it was found."""
        if self._before is not None and _in_foreground(self._relayed):
            try:
                termios.tcsetattr(self._relayed, termios.TCSADRAIN, self._before)
            except termios.error:
                # It is gone, and so are its settings.
                return

    def _relay(self, keyboard: int) -> None:
        ready = select.poll()
        ready.register(keyboard, select.POLLIN)
        while True:
            self._keyboard.wait()
            if not _in_foreground(keyboard):
                self._keyboard.clear()
                continue
            if not ready.poll(500):
                continue
            try:
                keys = os.read(keyboard, 4096)
                if not keys:
                    return
                while keys:
                    keys = keys[os.write(self.ours, keys) :]
            except OSError:
                # Either side is gone: there is nothing to type any more.
                return


def _in_foreground(keyboard: int) -> bool:
    try:
        return os.tcgetpgrp(keyboard) == os.getpgrp()
    except OSError:
        return False
