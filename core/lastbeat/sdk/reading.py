"""Numbers read for a beat, without the beat ever waiting for a device that hangs."""

import threading
from collections.abc import Sequence

from lastbeat.sdk.values import number

Number = float | str | None
LIMIT_S = 2.0


def at_hand(value: object) -> bool:
    """Whether reading ``value`` cannot wait for anything."""
    return value is None or isinstance(value, (int, float, str)) or type(value).__module__ == "numpy"


class Reader:
    """Reads numbers, tensors in a thread of its own.

    Reading a tensor waits for all that its device was told before. When a collective hangs that wait is for ever, and
    just then the heartbeats are needed that say so. At most one thread ever waits.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._thread: threading.Thread | None = None

    def read(self, values: Sequence[object]) -> list[Number]:
        """Each value as :func:`lastbeat.sdk.values.number` gives it; None where that was not to be had in time."""
        if all(map(at_hand, values)):
            return [number(value) for value in values]
        found: list[Number] = [number(value) if at_hand(value) else None for value in values]
        if self._thread is not None and self._thread.is_alive():
            return found
        answers: list[Number] = []
        thread = threading.Thread(target=_read, args=(values, answers), name="lastbeat-numbers", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # No more threads: the process is at its limit, or at its end.
            return found
        self._thread = thread
        thread.join(self._limit_s)
        return answers if len(answers) == len(values) else found


def _read(values: Sequence[object], answers: list[Number]) -> None:
    for value in values:
        answers.append(number(value))  # noqa: PERF401 - each is known as soon as it is read
