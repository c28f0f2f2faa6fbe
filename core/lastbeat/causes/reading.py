"""A log as it grows → an :class:`Account` of what it says.

The account is the same however the text is cut and whoever goes on reading. In a log of a healthy run hardly a line
is looked at: those that may mean something, one in :data:`EACH`, and of the lines of steps the last ones before either.
While something is open (a traceback, or a report that further steps may prove harmless) every line is.
"""

from bisect import bisect_left
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from lastbeat.causes.mentions import Account
from lastbeat.causes.story import Step, Story
from lastbeat.causes.wrapped import unwrapped
from lastbeat.codec import codec
from lastbeat.model.signal import Catalogue
from lastbeat.model.times import format_time, parse_time
from lastbeat.scanning.matching import matcher_of
from lastbeat.scanning.prefilter import Prefilter
from lastbeat.scanning.splitting import Batch, Splitter

EACH: Final = 512
_LAST_STEPS: Final = 4
_STEP_LIMIT: Final = 500


class LogReader:
    """Reads one file, from wherever it is fed, and remembers little."""

    def __init__(self, catalogue: Catalogue, file: str, *, rank: int | None = None) -> None:
        self._prefilter = Prefilter(matcher_of(catalogue))
        self._splitter = Splitter()
        self._story = Story(catalogue, file, rank)
        self._order = 0
        """So many lines, and states of overwritten ones, were read."""
        self._steps: list[Step] = []
        """The last lines of steps, which nothing has been made of yet."""

    def feed(self, data: bytes, at: datetime | None = None) -> None:
        """Read on. ``at`` is when the store first had this text."""
        self._take(self._splitter.feed(data, at), at)

    def finish(self, at: datetime | None = None) -> None:
        """No more text: what stands on the last line without an end counts, too."""
        self._take(self._splitter.finish(at), at)

    def skipped(self, bytes_count: int) -> None:
        """Text was left out here."""
        self._splitter.skip()
        self._story.skipped(bytes_count)

    def account(self) -> Account:
        """What the text says so far."""
        return self._story.ahead(self._steps)

    def _take(self, batch: Batch, at: datetime | None) -> None:
        count = len(batch)
        if not count:
            return
        begun, position = self._order, 0
        suspicious = list(self._prefilter.lines(batch))
        while position < count:
            if not self._story.attentive(begun + position):
                upcoming = bisect_left(suspicious, position)
                stop = suspicious[upcoming] if upcoming < len(suspicious) else count
                stop = min(stop, position + (-(begun + position) - 1) % EACH)
                self._skim(batch, position, stop, at)
                position = stop
                if position >= count:
                    break
            self._catch_up()
            self._story.line(begun + position + 1, unwrapped(batch.line(position)), at)
            position += 1
        self._order = begun + count
        self._story.read_to(batch.number(count - 1))

    def _skim(self, batch: Batch, start: int, stop: int, at: datetime | None) -> None:
        """Nothing here but steps, perhaps: keep the last few."""
        if start >= stop:
            return
        last: list[Step] = []
        for index in self._prefilter.progress(batch, start, stop):
            line = batch.line(index)
            last.append((line.text[:_STEP_LIMIT], line.time))
            if self._story.awaited:
                self._story.see(line.text, at)
            if len(last) == _LAST_STEPS:
                break
        self._steps = [*self._steps, *reversed(last)][-_LAST_STEPS:]

    def _catch_up(self) -> None:
        steps, self._steps = self._steps, []
        for text, time in steps:
            self._story.progressed(text, time)

    def state(self) -> dict[str, Any]:
        """All that a later process needs to go on reading, as JSON knows it: less than 64 KB."""
        return {
            "order": self._order,
            "steps": [[text, format_time(time)] for text, time in self._steps],
            "splitter": {"number": self._splitter.number, **codec(Splitter).document(self._splitter)},
            "story": self._story.state(),
        }

    @classmethod
    def restore(cls, catalogue: Catalogue, state: Mapping[str, Any]) -> "LogReader":
        """Go on where :meth:`state` was taken. A state that is damaged raises KeyError, TypeError or ValueError."""
        reader = cls(catalogue, "")
        try:
            reader._story = Story.restore(catalogue, state["story"])
            reader._order = int(state["order"])
            reader._steps = [(str(text), parse_time(time)) for text, time in state["steps"][-_LAST_STEPS:]]
            reader._splitter = codec(Splitter).read(state["splitter"])
        except (AttributeError, OverflowError) as error:
            # No mapping where one should be, an infinite number of lines.
            raise ValueError(str(error)) from error
        return reader
