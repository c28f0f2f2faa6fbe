"""What training handed over, read for a beat, without the beat ever waiting for what hangs."""

from collections.abc import Callable, Sequence
from typing import Any

from lastbeat.sdk.aside import Aside
from lastbeat.sdk.saying import Complaints
from lastbeat.sdk.values import at_hand, count, number, shown, text, truth, whole

Number = float | str | None
LIMIT_S = 2.0
How = Callable[[object], Any]
"""One of the functions of ``values``."""
_WHAT: dict[How, str] = {
    number: "is no number",
    whole: "is no whole number",
    count: "is no whole number from 0 to 999,999,999",
    text: "cannot be made a text",
    truth: "says neither yes nor no",
}


class Reader:
    """Reads what training hands over: what is not at hand in a thread of its own.

    Reading a tensor waits for all that its device was told before. When a collective hangs that wait is for ever, and
    just then the heartbeats are needed that say so. At most one thread ever waits.
    """

    def __init__(self, limit_s: float = LIMIT_S, complaints: Complaints | None = None) -> None:
        self._limit_s = limit_s
        self._aside: Aside[None] = Aside("lastbeat-numbers")
        self._complaints = complaints

    def read(self, values: Sequence[object]) -> list[Any]:
        """Each value as :func:`lastbeat.sdk.values.number` gives it; None where that was not to be had in time."""
        return self.told([("", value, number) for value in values])

    def told(self, asked: Sequence[tuple[str, object, How]]) -> list[Any]:
        """Name, value and how to read it → what was read; None where it cannot be read, or not in time. Of each name
        that is so the log gets one line."""
        found: list[Any] = [how(value) if at_hand(value) else None for _, value, how in asked]
        waiting = [index for index, (_, value, _) in enumerate(asked) if not at_hand(value)]
        read, why = self._read([asked[index][1:] for index in waiting]) if waiting else ([], "")
        for index, answer in zip(waiting, read, strict=False):
            found[index] = answer
        late = set(waiting[len(read) :])
        for index, (name, value, how) in enumerate(asked):
            if found[index] is None and value is not None and self._complaints is not None:
                reason = why if index in late else _WHAT[how]
                if name and reason:
                    self._complaints.once(name, "lastbeat leaves %s out: %s %s", name, shown(value), reason)
        return found

    def close(self) -> None:
        """Nothing is read any more."""
        self._aside.close()

    def _read(self, asked: Sequence[tuple[object, How]]) -> tuple[list[Any], str]:
        """What could be read in time, from the first on, and why no more."""
        answers: list[Any] = []

        def read() -> None:
            for value, how in asked:
                answers.append(how(value))

        try:
            self._aside.ask(read, self._limit_s)
        except TimeoutError:
            return list(answers), f"could not be read within {self._limit_s:g} s"
        except RuntimeError:
            # No more threads: the process is at its limit, or at its end.
            return [], ""
        return answers, ""
