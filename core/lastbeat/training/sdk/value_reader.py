"""Reads values from training, so that a beat never waits long for a value that hangs."""

from collections.abc import Callable, Sequence
from typing import Any

from lastbeat.training.sdk.safe_log import WarnOnce
from lastbeat.training.sdk.timed_calls import CallThread
from lastbeat.training.sdk.values import (
    as_bool,
    as_int,
    as_number,
    as_process_count,
    as_text,
    safe_to_read,
    value_label,
)

LIMIT_S = 2.0
ReadAs = Callable[[object], Any]
"""One of the ``as_…`` functions of ``values``."""
_REASONS: dict[ReadAs, str] = {
    as_number: "is not a number",
    as_int: "is not a whole number",
    as_process_count: "is not a whole number from 0 to 999,999,999",
    as_text: "cannot be turned into text",
    as_bool: "is neither true nor false",
}


class ValueReader:
    """Reads values from training. Values that may hang are read in another thread, with a time limit.

    Reading a tensor waits for everything that its device has queued before it. If a collective hangs, that wait never
    ends, and this is when heartbeats are needed most. At most one thread of this reader ever waits.
    """

    def __init__(self, limit_s: float = LIMIT_S, warnings: WarnOnce | None = None) -> None:
        self._limit_s = limit_s
        self._thread: CallThread[None] = CallThread("lastbeat-numbers")
        self._warnings = warnings

    def read(self, asked: Sequence[tuple[str, object, ReadAs]]) -> list[Any]:
        """Read each (name, value, function). The result is None for a value that cannot be read, or not in time.

        1. Values that are safe to read are read at once.
        2. The others are read in the other thread, in order, until the time is up.
        3. Each name whose value is left out gets one line in the log.
        """
        found: list[Any] = [read_as(value) if safe_to_read(value) else None for _, value, read_as in asked]
        slow = [index for index, (_, value, _) in enumerate(asked) if not safe_to_read(value)]
        answers, timeout_reason = self._read_slowly([asked[index][1:] for index in slow]) if slow else ([], "")
        for index, answer in zip(slow, answers, strict=False):
            found[index] = answer
        late = set(slow[len(answers) :])
        for index, (name, value, read_as) in enumerate(asked):
            if found[index] is None and value is not None and self._warnings is not None:
                reason = timeout_reason if index in late else _REASONS[read_as]
                if name and reason:
                    self._warnings.warn(name, "lastbeat leaves %s out: %s %s", name, value_label(value), reason)
        return found

    def close(self) -> None:
        """Let the other thread end."""
        self._thread.close()

    def _read_slowly(self, asked: Sequence[tuple[object, ReadAs]]) -> tuple[list[Any], str]:
        """The values that could be read in time, from the first on, and the reason why the rest is missing."""
        answers: list[Any] = []

        def read() -> None:
            for value, read_as in asked:
                answers.append(read_as(value))

        try:
            self._thread.call(read, self._limit_s)
        except TimeoutError:
            return list(answers), f"could not be read within {self._limit_s:g} s"
        except RuntimeError:
            # No thread can start: the process is at its limit, or ends.
            return [], ""
        return answers, ""
