"""SIGKILL at a chosen moment of what a process asks its servers: none is wasted on an interpreter that starts."""

import signal
import subprocess
import threading


class Assassin:
    """Give :meth:`event` to whoever serves the process: it is called for each thing that the process brings about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._victim: subprocess.Popen[str] | None = None
        self._left = 0
        self.seen = 0
        """Events since the last :meth:`aim`."""

    def aim(self, victim: "subprocess.Popen[str]", at: int) -> None:
        """Kill ``victim`` at its event with this number, counted from 1, if it has so many; 0: let it live."""
        with self._lock:
            self._victim, self._left, self.seen = victim, at, 0

    def event(self) -> None:
        """Something happened that the process brought about."""
        with self._lock:
            self.seen += 1
            self._left -= 1
            if self._left == 0 and self._victim is not None:
                self._victim.send_signal(signal.SIGKILL)
