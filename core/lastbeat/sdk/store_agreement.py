"""All ranks of a training stop at the same call, because one of them is told to: through the store, where no
torch.distributed connects them. Training's own thread only counts its calls; another one asks.

The protocol, over ``stopping.json`` and the answers beside it (``model.stop_plan``)::

    rank 3    told to stop ── asks ── answers ········· sees call 250 ··········· its call 250: stops
    rank 0    ··············· sees that, answers ·· all have answered: writes 250 ·· its call 250: stops
    rank 1    ··········· sees that, answers ··············· sees call 250 ······ its call 250: stops

Each write of the document is conditional, so of several that ask one is heard, and of several that decide one does.
Who asked and rank 0 decide; should both have died, anybody does a while later. After :data:`ROLL_CALL_S` the call is
decided without those that have not answered: they are dead, or never look. The call lies far enough ahead that all have
seen it when they get there, by the pace that they answered with. None of them ever waits: one that sees it too late,
because its store took far longer than before, stops then, and says so.

The document names its attempt. One of an earlier attempt stops nobody, and is overwritten; a process that an earlier
attempt left behind overwrites nothing.
"""

import atexit
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lastbeat.model.stop_plan import (
    KEY,
    LIMIT_BYTES,
    StopAnswer,
    StopPlan,
    encode_plan,
    read_answer,
    read_plan,
    stop_call,
)
from lastbeat.sdk.first_error import rank_zero_state, started_at
from lastbeat.sdk.fork_guard import delay_unsafe_forks
from lastbeat.sdk.safe_log import fault_text, safe_log
from lastbeat.stores.port import Blob, ConflictError, Expect, StoreError

if TYPE_CHECKING:
    from lastbeat.sdk.run import Run, RunPlace

LOOK_S: Final = 5.0
"""So often each rank looks whether somebody asks, where that costs money,"""
LOOK_FREE_S: Final = 2.0
"""and where it does not."""
IDLE_S: Final = 8.0
"""Between two looks at most, however long its steps take."""
_RANKS_PER_S: Final = 200
"""So many ranks look in a second, as long as :data:`IDLE_S` allows it."""
QUICK_S: Final = 0.5
"""Between two looks while all are about to stop."""
_QUICK_PER_S: Final = 2000
ROLL_CALL_S: Final = 12.0
"""So long all are waited for."""
TAKE_OVER_S: Final = 5.0
"""So long after that others than rank 0 and who asked decide."""
ALONE_S: Final = 20.0
"""So long a rank that is told to stop tries to ask the others,"""
_UNDECIDED_S: Final = 60.0
"""and so long it waits for a decision, once it has answered."""
_IDLE_PAUSE_S: Final = 1.0
_WINDOW_S: Final = 1.0
"""In a shorter time nobody can tell a pace,"""
_WINDOWS_LEAST: Final = 4
"""nor in fewer of them: in the first training compiles, and is many times as fast later."""
_LATELY: Final = 12
"""So many of the last looks and seconds tell reaction and pace."""
_STOP_S: Final = 1.0
_ANSWERS_MOST: Final = 200_000
_NAMED: Final = 8


class Pace:
    """How often a second training asks, at its fastest of the last seconds in which it did. While it evaluates or saves
    it does not, and what counts is how fast it may go on then."""

    def __init__(self) -> None:
        self.known_since = math.inf
        """When it could be told first, by the monotonic clock."""
        self._last: tuple[float, int] | None = None
        self._lately: deque[float] = deque(maxlen=_LATELY)

    def add(self, now: float, calls: int) -> None:
        """It had asked so often then, by the monotonic clock."""
        if self._last is None:
            self._last = now, calls
        waited_s, more = now - self._last[0], calls - self._last[1]
        if more > 0 and waited_s >= _WINDOW_S:
            self._lately.append(more / waited_s)
            self._last = now, calls
            if len(self._lately) >= _WINDOWS_LEAST:
                self.known_since = min(now, self.known_since)

    @property
    def per_s(self) -> float | None:
        """None: nobody knows yet."""
        return max(self._lately) if len(self._lately) >= _WINDOWS_LEAST else None


class StoreAgreement:
    """One rank's part.

    :meth:`ask` belongs to training's thread, and touches two attributes until this rank is told to stop. :meth:`look`
    belongs to the asking thread: it makes a few requests, and what it finds is :attr:`at`.
    """

    def __init__(self, run: "Run", every: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._every = every
        self._clock = clock
        self.calls = 0
        """How often training has asked."""
        self.at: int | None = None
        """The call at which this rank stops."""
        self.why = ""
        """What all of them stop for, once that is decided."""
        self.told = False
        """This rank is told to stop."""
        self._ends_since: float | None = None
        """When this rank was first told to stop by what will end it soon."""
        self._heard = -math.inf
        """When a look last worked."""
        self._attempt: tuple[int, str] | None = None
        """Number and start, as rank 0 says."""
        self._foreign: str | None = None
        """Version of a document of another attempt."""
        self._clear: float | None = None
        """When nobody had asked yet, last."""
        self._asked_since: float | None = None
        """When this rank saw that somebody asks, and could answer."""
        self._asks = False
        """It was this one."""
        self._answers: list[str] = []
        self._answered: StopPlan | None = None
        self._took: deque[float] = deque(maxlen=_LATELY)
        """How long the last looks took, in s."""
        self._pace = Pace()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._asks_nobody = False
        """No thread could start."""

    # Training's thread.

    def ask(self, *, here: bool) -> bool:
        """Whether this rank stops now. ``here``: it is told to. Never waits, never raises."""
        self.calls = calls = self.calls + 1
        if here and self.at is None:
            self._wait_or_give_up()
        at = self.at
        return at is not None and calls >= at

    def _wait_or_give_up(self) -> None:
        """This rank is told to stop. One that cannot ask the others, or hears of no decision, stops alone, if it would
        be ended soon anyway. That is found here, since the asking thread may hang in its store."""
        if not self.told:
            self.told = True
            self._wake.set()
        if not self._run.ends_soon:
            return
        now = self._clock()
        if self._ends_since is None:
            self._ends_since = now
        no_thread = self._asks_nobody or (self._thread is not None and not self._thread.is_alive())
        # As long as the store answers, and nobody could tell where this rank will be, it waits for its own pace.
        waits_since = max(self._ends_since, min(self._heard, self._pace.known_since))
        if no_thread or now - waits_since >= (_UNDECIDED_S if self._answers else ALONE_S):
            self.why = self._run.stop_wanted or ""
            what = "lastbeat could not agree with the other ranks within %.0f s: this one stops alone"
            safe_log(logging.WARNING, what, now - self._ends_since)
            self.at = self.calls

    def start(self) -> None:
        """Ask the others in a thread from now on. Returns at once."""
        self._pid = os.getpid()
        thread = threading.Thread(target=self._ask_on, name="lastbeat-agreement", daemon=True)
        delay_unsafe_forks(thread)
        try:
            thread.start()
        except RuntimeError as error:
            safe_log(logging.WARNING, "lastbeat cannot ask the other ranks whether to stop: %s", error)
            self._asks_nobody = True
            return
        self._thread = thread
        # As the beat thread: it must not be inside the store's client when the interpreter exits.
        atexit.register(self.close)

    def leave(self) -> None:
        """Ask no more. Returns at once."""
        self._closed = True
        self._wake.set()

    def close(self) -> None:
        """Ask no more; waits for a question that is under way, but not long."""
        self.leave()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(_STOP_S)
            atexit.unregister(self.close)

    # The asking thread.

    def _ask_on(self) -> None:
        # The first look shows that nobody asks yet.
        logged, looked_at, looked_calls = logging.NOTSET, -math.inf, 0
        while not self._over:
            place = self._run.place
            if place is not None and self._is_due(place, looked_at, looked_calls):
                looked_at, looked_calls = self._clock(), self.calls
                try:
                    self.look(place)
                    logged = logging.NOTSET
                except BaseException as fault:  # noqa: BLE001 - whatever it is, training goes on, and so do the looks
                    # Of an outage that meets nobody's stop the beat thread tells enough.
                    level = logging.WARNING if self.told else logging.DEBUG
                    if level > logged:
                        what = "lastbeat cannot ask the other ranks whether to stop, and keeps trying: %s"
                        safe_log(level, what, fault_text(fault))
                        logged = level
            self._wake.wait(_IDLE_PAUSE_S if self._asked_since is None and not self.told else QUICK_S)
            self._wake.clear()
            self._pace.add(self._clock(), self.calls)

    @property
    def _over(self) -> bool:
        return self._closed or self._run.ended or self.at is not None

    def _is_due(self, place: "RunPlace", looked_at: float, looked_calls: int) -> bool:
        """Whether to look again: quickly while somebody asks; else not before ``every`` more calls, or a while."""
        waited_s = self._clock() - looked_at
        if self.told or self._asked_since is not None:
            return waited_s >= quick_s(place.rank.world)
        if waited_s < look_s(place.rank.world, free=place.store.traits.prices.free):
            return False
        return self.calls >= looked_calls + self._every or waited_s >= IDLE_S

    def look(self, place: "RunPlace") -> None:
        """One look, and what follows from it. Raises :class:`StoreError`.

        1. Read the document. If nobody asks in this attempt, ask, if this rank is told to stop.
        2. If it is decided, take that.
        3. Else leave an answer, and decide, if that is this rank's turn.
        """
        began = self._clock()
        self._pace.add(began, self.calls)
        try:
            blob, plan = self._read(place)
            if plan is None:
                if self._attempt is not None or blob is None or read_plan(blob.body) is None:
                    self._clear = began
                self._asked_since = None
                if self.told:
                    self._ask(place, blob)
                    blob, plan = self._read(place)
            if plan is not None and blob is not None:
                self._follow(place, plan, blob)
            self._heard = self._clock()
        finally:
            self._took.append(self._clock() - began)

    def _read(self, place: "RunPlace") -> tuple[Blob | None, StopPlan | None]:
        """The document as it is, and what it says of this attempt."""
        blob = place.store.read(f"{self._run.run_id}/{KEY}", LIMIT_BYTES)
        return blob, self._of_this_attempt(place, blob)

    def _follow(self, place: "RunPlace", plan: StopPlan, blob: Blob) -> None:
        if plan.at is not None:
            self._take(place, plan)
            return
        if self._asked_since is None or self._answered is None:
            # The others are waited for from its answer on: until then they may have compiled, too.
            self._asked_since = self._clock()
        if self._answered is None:
            self._answer(place, plan)
        if self._decides(place):
            self._decide(place, plan, blob)

    def _of_this_attempt(self, place: "RunPlace", blob: Blob | None) -> StopPlan | None:
        """What a document says of this attempt; None: nothing."""
        plan = read_plan(blob.body) if blob is not None else None
        if blob is None or plan is None or blob.version == self._foreign:
            return None
        if (plan.attempt, plan.start_time) != self._attempt:
            # This rank may not have known its attempt yet.
            self._learn_attempt(place)
        if (plan.attempt, plan.start_time) == self._attempt:
            return plan
        if self._attempt is not None:
            self._foreign = blob.version
        return None

    def _learn_attempt(self, place: "RunPlace") -> None:
        started = started_at(place.store, self._clock() - place.started)
        state = rank_zero_state(place.store, self._run.run_id, started)
        if state.begun and state.runs and state.attempt is not None and state.start_time is not None:
            self._attempt = state.attempt, state.start_time

    def _ask(self, place: "RunPlace", blob: Blob | None) -> None:
        """Ask all ranks to stop, unless somebody else does at this moment."""
        self._learn_attempt(place)
        before = read_plan(blob.body) if blob is not None else None
        if self._attempt is None or (before is not None and before.attempt > self._attempt[0]):
            return
        where = f" on {place.rank.host}" if place.rank.host else ""
        plan = StopPlan(*self._attempt, f"rank {place.rank.number}{where}", self._run.stop_wanted or "")
        with suppress(ConflictError):
            expected = Expect.NOTHING if blob is None else blob.version
            place.store.write(f"{self._run.run_id}/{KEY}", encode_plan(plan), expected)
        self._asks = True

    def _answer(self, place: "RunPlace", plan: StopPlan) -> None:
        per_s = self._pace.per_s
        if per_s is None:
            # It has just begun, and compiles. Nobody could tell where it will be.
            return
        reaction_s = quick_s(place.rank.world) + max(self._took, default=0.0)
        answer = StopAnswer(place.rank.number, self.calls, per_s, reaction_s)
        key = f"{self._run.run_id}/{plan.folder}{answer.name}"
        # Noted first: its own answer may get lost, and it is written again then.
        self._answers.append(key)
        place.store.write(key, b"")
        self._answered = plan

    def _decides(self, place: "RunPlace") -> bool:
        """Whether this rank looks who has answered: who asked, and rank 0; the others when those seem to be dead."""
        if self._asked_since is None or self._answered is None:
            return False
        waited_s = self._clock() - self._asked_since
        # Not all of them at the same moment.
        patience_s = ROLL_CALL_S + TAKE_OVER_S + place.rank.number % 16 * QUICK_S
        return self._asks or place.rank.leads or waited_s >= patience_s

    def _decide(self, place: "RunPlace", plan: StopPlan, blob: Blob) -> None:
        answers = self._read_answers(place, plan)
        missing = sorted(set(range(place.rank.world)) - {each.rank for each in answers})
        now = self._clock()
        if not answers or (missing and now - (self._asked_since or now) < ROLL_CALL_S):
            return
        # All answers are younger: nobody had asked then, or nobody had begun.
        at = stop_call(answers, now - (place.started if self._clear is None else self._clear), self._every)
        with suppress(ConflictError):
            place.store.write(f"{self._run.run_id}/{KEY}", encode_plan(replace(plan, at=at)), blob.version)
            self._take(place, replace(plan, at=at))
        if missing:
            named = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
            what = "%d of %d ranks did not answer within %g s (%s), and are not waited for"
            safe_log(logging.WARNING, what, len(missing), place.rank.world, ROLL_CALL_S, named)

    def _read_answers(self, place: "RunPlace", plan: StopPlan) -> list[StopAnswer]:
        """Of this attempt, by this run's ranks: several of one where it could not tell whether one was written."""
        folder, after, found = f"{self._run.run_id}/{plan.folder}", "", list[StopAnswer]()
        while len(found) < _ANSWERS_MOST:
            page = place.store.list(folder, after)
            read = (read_answer(entry.key.removeprefix(folder)) for entry in page.entries)
            found += [answer for answer in read if answer is not None and answer.rank < place.rank.world]
            if not page.more or not page.entries:
                break
            after = page.entries[-1].key
        return found

    def _take(self, place: "RunPlace", plan: StopPlan) -> None:
        """It is decided."""
        if self.at is not None:
            # It hung in the store, and has stopped alone.
            return
        calls = self.calls
        self.why = plan.summary
        self.at = plan.at
        ahead = (plan.at or 0) - calls
        if ahead > 0:
            what = "all %d ranks stop at the same step, %d from here: %s"
            safe_log(logging.WARNING, what, place.rank.world, ahead, plan.summary)
        else:
            what = "all ranks were to stop %d steps ago, of which this one hears only now, and stops: %s"
            safe_log(logging.WARNING, what, -ahead, plan.summary)
        for key in self._answers:
            with suppress(StoreError):
                place.store.delete(key)


def look_s(world: int, *, free: bool) -> float:
    """Between two looks of a rank while nobody asks."""
    return min(IDLE_S, max(LOOK_FREE_S if free else LOOK_S, world / _RANKS_PER_S))


def quick_s(world: int) -> float:
    """The same while somebody does."""
    return max(QUICK_S, world / _QUICK_PER_S)
