"""Learns the limits of sections from the durations on all ranks, and keeps them in a file for the next attempt.

Rank 0 leads: it reads the durations in each rank's heartbeat, learns from them, and writes ``ft_state.json`` into the
run's folder. Every rank takes its limits from there. Nothing of this is urgent: a failed read or write is tried again
later, and until then limits stay as they are.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lastbeat.model import runid
from lastbeat.model.json_values import finite
from lastbeat.model.learned_limits import (
    BETWEEN,
    LIMIT_BYTES,
    MOST_SPANS,
    OUTSIDE,
    STARTING,
    Learned,
    LearnedState,
    SpanKey,
    Taken,
    encode_state,
    read_state,
    read_taken,
    taken_fields,
    together,
)
from lastbeat.stores.port import ConflictError, DeniedError, Entry, Expect, Store
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart, go_on
from lastbeat.training.sdk.documents import parsed, read_if_allowed
from lastbeat.training.sdk.sections import MOST_TOLD, STEP, SectionLimits

EVERY_S: Final = 300.0
"""Time in s between two readings: of all ranks' heartbeats by rank 0, of the learned limits by the others."""
_FIRST_S: Final = 60.0
"""Time in s to rank 0's second reading. It is short, so that a run killed within minutes has saved something."""
_RANK_BYTES: Final = 1 << 16
_RANK_FILE: Final = re.compile(r".*/ranks/(\d{1,9})\.json", re.ASCII)
_TRIES: Final = 3
_WARM_UP: Final = 3
_WARMS_UP: Final = frozenset({SpanKey("section", STEP), BETWEEN, OUTSIDE})


class SpanTimes:
    """Count and longest duration of ended spans, by kind and name. Threads that add at once may lose a sample."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[float]] = {}

    def add(self, key: tuple[str, str], seconds: float) -> None:
        """Add the duration of a span that has ended."""
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= MOST_SPANS:
                return
            # The first steps compile, and fill caches.
            known = self._found[key] = [-_WARM_UP if key in _WARMS_UP else 0, 0.0]
        known[0] += 1
        if seconds > known[1] and known[0] > 0:
            known[1] = seconds

    def warms_up(self, key: tuple[str, str]) -> bool:
        """Whether the next span with this key is a warm-up, which does not count."""
        known = self._found.get(key)
        return key in _WARMS_UP and (known is None or known[0] < 0)

    def taken(self) -> dict[SpanKey, Taken]:
        """Count and longest duration of each kind of span."""
        found = self._found.copy()
        return {
            SpanKey._make(key): Taken(int(count), longest_s) for key, (count, longest_s) in found.items() if count > 0
        }

    def fields(self) -> list[dict[str, Any]]:
        """:meth:`taken` as fields of a heartbeat."""
        return taken_fields(self.taken())

    def forget(self) -> None:
        """Drop all durations."""
        self._found = {}


def with_learned(by_hand: SectionLimits, known: Learned) -> SectionLimits:
    """The limits ``by_hand``, completed with learned ones. A limit from training or its settings outranks a learned
    one."""
    found = {key: each for key, each in known.items() if each.limit_s is not None}
    sections, usual_s = dict(by_hand.sections), dict[tuple[str, str], float]()
    for key, each in found.items():
        name = {"section": key.name, "between": STEP}.get(key.kind)
        if name is not None and name not in by_hand.without and name not in by_hand.sections:
            sections[name] = max(each.limit_s or 0.0, sections.get(name, 0.0))
            usual_s[key] = each.taken.longest_s
    limits = replace(by_hand, sections=sections, usual_s=usual_s)
    if by_hand.outside_by_hand:
        return limits
    if OUTSIDE in found:
        limits, usual_s[OUTSIDE] = replace(limits, outside_s=found[OUTSIDE].limit_s), found[OUTSIDE].taken.longest_s
    if STARTING in found:
        limits, usual_s[STARTING] = replace(limits, starting_s=found[STARTING].limit_s), found[STARTING].taken.longest_s
    return limits


class Learning(BeatTask):
    """Learns limits on rank 0; another rank takes them from there."""

    purpose = "keep the limits that it learns"

    def __init__(self, by_hand: SectionLimits, every_s: float = EVERY_S) -> None:
        self._by_hand = by_hand
        self._every_s = every_s
        self._next = 0.0
        self._has_asked = False
        self._state: LearnedState | None = None
        """The stored state; None until it has been read."""
        self._version: str | None = None
        self._sees_nothing = False
        self._reading: Iterator[None] | None = None
        self._asked: dict[SpanKey, Taken] = {}
        self._others: dict[SpanKey, Taken] = {}
        self._unfinished: dict[SpanKey, Taken] = {}

    def begin(self, start: RunStart) -> None:
        """Start counting durations in this process, unless it counts already."""
        if start.run.sections.times is None:
            start.run.sections.times = SpanTimes()

    def take_over(self, metadata: bytes) -> None:
        """Learn from the sections that the last attempt died in, whose least duration ``metadata`` has."""
        self._keep_unfinished(parsed(metadata), None)

    def follow(self, beat: Beat) -> None:
        """Take the limits that rank 0 has learned. Raises :class:`StoreError`."""
        if beat.ending is not None or not beat.has_heartbeat or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every_s
        self._read(beat.store, beat.folder + runid.LEARNED)
        if self._state is not None:
            beat.run.sections.limits = with_learned(self._by_hand, self._state.learned)

    def write(self, beat: Beat) -> None:
        """Read the other ranks' durations, learn from them, and store the result. Waits until the attempt has begun."""
        if beat.start_time is None:
            return
        if beat.ending is not None:
            # The sentinel waits for this.
            self._reading = None
            self._learn(beat, beat.start_time)
            return
        if self._reading is None:
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + (self._every_s if self._has_asked else min(_FIRST_S, self._every_s))
            self._has_asked = True
            self._reading = self._ranks(beat)
            self._asked = {}
        # A fault ends the reading.
        reading, self._reading = self._reading, None
        if not go_on(reading):
            self._reading = reading
            return
        self._others = self._asked
        self._learn(beat, beat.start_time)

    def _learn(self, beat: Beat, start_time: str) -> None:
        times, sections = beat.run.sections.times, beat.run.sections
        own = times.taken() if times is not None else {}
        if self._state is None:
            self._read(beat.store, beat.folder + runid.LEARNED)
        for _ in range(_TRIES):
            state = self._state or LearnedState()
            new = state.with_attempt(start_time, together([own, self._others, self._unfinished]))
            sections.limits = with_learned(self._by_hand, new.learned)
            if new == state:
                return
            try:
                expected = Expect.ANYTHING if self._sees_nothing else self._version or Expect.NOTHING
                self._version = beat.store.write(beat.folder + runid.LEARNED, encode_state(new), expected)
            except ConflictError:
                # A user has applied or reset the limits, or the answer to this rank's own last write was lost.
                known = state.forgotten_at
                self._read(beat.store, beat.folder + runid.LEARNED)
                if self._state is not None and self._state.forgotten_at != known and times is not None:
                    times.forget()
                    own, self._others, self._unfinished = {}, {}, {}
            else:
                self._state = new
                return

    def _read(self, store: Store, key: str) -> None:
        try:
            blob = store.read(key, LIMIT_BYTES)
        except DeniedError:
            # Some policies let training write but not read. Then each attempt starts without learned limits.
            self._state, self._sees_nothing = LearnedState(), True
            return
        self._version = blob.version if blob is not None else None
        self._state = (read_state(blob.body) if blob is not None else None) or LearnedState()

    def _ranks(self, beat: Beat) -> Iterator[None]:
        """Ask the other ranks for their durations, one rank after the other."""
        after = ""
        while True:
            try:
                page = beat.store.list(f"{beat.folder}ranks/", after)
            except DeniedError:
                # Some policies let training only write.
                return
            for entry in page.entries:
                number = _RANK_FILE.fullmatch(entry.key)
                if number is not None and int(number[1]) and entry.fault is None:
                    self._asked = together([self._asked, self._rank(beat, entry)])
                    yield
            if not page.more or not page.entries:
                return
            after = page.entries[-1].key

    def _rank(self, beat: Beat, entry: Entry) -> Mapping[SpanKey, Taken]:
        fits = entry.size_bytes <= _RANK_BYTES
        blob = read_if_allowed(beat.store, entry.key, _RANK_BYTES) if fits else None
        document = parsed(blob.body) if blob is not None else {}
        attempt = document.get("attempt")
        if attempt is None or attempt == beat.attempt:
            return read_taken(document.get("section_times"))
        self._keep_unfinished(document, beat.attempt)
        return {}

    def _keep_unfinished(self, document: Mapping[str, Any], attempt: int | None) -> None:
        """Learn from the sections that a process died in, except those that had overrun their limit."""
        number = document.get("attempt")
        last = attempt is None or number == attempt - 1
        if not last or document.get("status", "running") != "running":
            return
        sections = document.get("sections")
        for each in sections[:MOST_TOLD] if isinstance(sections, list) else ():
            section = each if isinstance(each, dict) else {}
            open_s, limit_s = finite(section.get("open_s")), finite(section.get("limit_s"))
            if section.get("name") is None or open_s is None or (limit_s is not None and open_s > limit_s):
                continue
            row = {"kind": "section", "name": section["name"], "samples": 0, "at_least_s": open_s}
            self._unfinished = together([self._unfinished, read_taken([row])])
