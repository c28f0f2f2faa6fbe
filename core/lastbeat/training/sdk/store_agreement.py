"""Stops all ranks of a run at the same call once one of them has a request to stop. They agree through the store, for
ranks that torch.distributed does not connect. Training's own thread only counts its calls; another one asks.

The protocol, over ``stopping.json`` and the answers beside it (``model.stop_plan``)::

    rank 3    must stop ───── asks ── answers ········· sees call 250 ··········· its call 250: stops
    rank 0    ··············· sees that, answers ·· all have answered: writes 250 ·· its call 250: stops
    rank 1    ··········· sees that, answers ··············· sees call 250 ······ its call 250: stops

Each write of the document is conditional, so one of several requests wins, and one of several decisions. The asking
rank and rank 0 decide; if both have died, any other rank decides a while later. After :data:`ROLL_CALL_S` the call is
decided without the ranks that have not answered: they are dead, or never check. The call lies far enough ahead that all
ranks have seen it when they get there, by the pace in their answers. No rank ever waits. One that sees the call too
late, because its store took far longer than before, stops at once and logs that.

The document names its attempt. One of an earlier attempt has no effect and is overwritten. A process that an earlier
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
from lastbeat.stores.port import Blob, ConflictError, Expect, StoreError
from lastbeat.training.sdk.first_error import rank_zero_state, started_at
from lastbeat.training.sdk.fork_guard import delay_unsafe_forks
from lastbeat.training.sdk.safe_log import fault_text, safe_log

if TYPE_CHECKING:
    from lastbeat.training.sdk.run import Run, RunPlace

LOOK_S: Final = 5.0
"""Time in s between two checks of a rank for a stop, if requests to the store cost money."""
LOOK_FREE_S: Final = 2.0
"""Time in s between two checks of a rank for a stop, if requests are free."""
IDLE_S: Final = 8.0
"""Most time in s between two checks, even if steps take longer."""
_RANKS_PER_S: Final = 200
"""Most checks per second by all ranks together, as far as :data:`IDLE_S` allows."""
QUICK_S: Final = 0.5
"""Time in s between two checks while the ranks agree on a stop."""
_QUICK_PER_S: Final = 2000
"""Most checks per second by all ranks together while they agree on a stop."""
ROLL_CALL_S: Final = 12.0
"""Most time in s that a decision waits for the answers of all ranks."""
TAKE_OVER_S: Final = 5.0
"""Time in s after the roll call until ranks other than rank 0 and the asking one decide."""
ALONE_S: Final = 20.0
"""A rank that must stop but cannot ask the others stops alone after this many s."""
_UNDECIDED_S: Final = 60.0
"""A rank that has answered but sees no decision stops alone after this many s."""
_IDLE_PAUSE_S: Final = 1.0
_WINDOW_S: Final = 1.0
"""Shortest window in s that yields a reliable pace."""
_WINDOWS_LEAST: Final = 4
"""Least number of windows for a pace. The first ones include compilation, and later ones are many times as fast."""
_LATELY: Final = 12
"""Number of latest checks that give the reaction time, and of latest windows that give the pace."""
_STOP_S: Final = 1.0
_ANSWERS_MOST: Final = 200_000
_NAMED: Final = 8


class Pace:
    """Calls per second of training, at its fastest lately. While training evaluates or saves it makes no calls, and its
    pace afterwards is what counts."""

    def __init__(self) -> None:
        self.known_since = math.inf
        """When the pace was first known, by the monotonic clock; infinite before that."""
        self._last: tuple[float, int] | None = None
        self._lately: deque[float] = deque(maxlen=_LATELY)

    def add(self, now: float, calls: int) -> None:
        """Note that training had made ``calls`` calls at ``now``, by the monotonic clock."""
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
        """Calls per second; None until enough windows are known."""
        return max(self._lately) if len(self._lately) >= _WINDOWS_LEAST else None


class StoreAgreement:
    """One rank's side of the agreement.

    :meth:`ask` belongs to training's thread, and touches only two attributes until this rank has to stop. :meth:`look`
    belongs to the asking thread: it makes a few requests, and sets :attr:`at` once the call is decided.
    """

    def __init__(self, run: "Run", every: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._every = every
        self._clock = clock
        self.calls = 0
        """Number of calls of :meth:`ask`."""
        self.at: int | None = None
        """The call at which this rank stops."""
        self.why = ""
        """Why all ranks stop, once that is decided."""
        self.must_stop = False
        """Whether this rank has a request to stop."""
        self._ends_since: float | None = None
        """When this rank first got a request from something that will end it soon."""
        self._last_look = -math.inf
        """When a check last succeeded."""
        self._attempt: tuple[int, str] | None = None
        """Number and start of the attempt, from rank 0."""
        self._foreign: str | None = None
        """Version of a document of another attempt."""
        self._clear: float | None = None
        """Last check without a request of any rank."""
        self._asked_since: float | None = None
        """When this rank saw a request of any rank, and could answer."""
        self._is_asker = False
        """Whether this rank has asked the others to stop."""
        self._answers: list[str] = []
        self._answered: StopPlan | None = None
        self._took: deque[float] = deque(maxlen=_LATELY)
        """Durations of the last checks in s."""
        self._pace = Pace()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._thread_failed = False
        """Whether the asking thread could not start."""

    # Training's thread.

    def ask(self, *, here: bool) -> bool:
        """Whether this rank stops now. ``here`` says that it has a request to stop. Never waits, never raises."""
        self.calls = calls = self.calls + 1
        if here and self.at is None:
            self._wait_or_give_up()
        at = self.at
        return at is not None and calls >= at

    def _wait_or_give_up(self) -> None:
        """Wait for a decision of all ranks, or let this rank stop alone.

        A rank that would be ended soon anyway stops alone if it cannot ask the others, or sees no decision. That is
        checked here, because the asking thread may hang in its store.
        """
        if not self.must_stop:
            self.must_stop = True
            self._wake.set()
        if not self._run.ends_soon:
            return
        now = self._clock()
        if self._ends_since is None:
            self._ends_since = now
        no_thread = self._thread_failed or (self._thread is not None and not self._thread.is_alive())
        # While the store answers and this rank's pace is unknown, it waits for its pace: no call could be chosen.
        waits_since = max(self._ends_since, min(self._last_look, self._pace.known_since))
        if no_thread or now - waits_since >= (_UNDECIDED_S if self._answers else ALONE_S):
            self.why = self._run.stop_wanted or ""
            what = "lastbeat could not agree with the other ranks within %.0f s: this one stops alone"
            safe_log(logging.WARNING, what, now - self._ends_since)
            self.at = self.calls

    def start(self) -> None:
        """Start the asking thread. Returns at once."""
        self._pid = os.getpid()
        thread = threading.Thread(target=self._ask_on, name="lastbeat-agreement", daemon=True)
        delay_unsafe_forks(thread)
        try:
            thread.start()
        except RuntimeError as error:
            safe_log(logging.WARNING, "lastbeat cannot ask the other ranks whether to stop: %s", error)
            self._thread_failed = True
            return
        self._thread = thread
        # Like the beat thread, it must not be inside the store's client when the interpreter exits.
        atexit.register(self.close)

    def leave(self) -> None:
        """End the asking thread. Returns at once."""
        self._closed = True
        self._wake.set()

    def close(self) -> None:
        """End the asking thread, and wait up to ``_STOP_S`` for its pending request."""
        self.leave()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join(_STOP_S)
            atexit.unregister(self.close)

    # The asking thread.

    def _ask_on(self) -> None:
        # The first check comes early, to know a time without a request.
        logged, looked_at, looked_calls = logging.NOTSET, -math.inf, 0
        while not self._over:
            place = self._run.place
            if place is not None and self._is_due(place, looked_at, looked_calls):
                looked_at, looked_calls = self._clock(), self.calls
                try:
                    self.look(place)
                    logged = logging.NOTSET
                except BaseException as fault:  # noqa: BLE001 - whatever it is, training goes on, and so do the checks
                    # While no rank has to stop, the beat thread's warning about an outage is enough.
                    level = logging.WARNING if self.must_stop else logging.DEBUG
                    if level > logged:
                        what = "lastbeat cannot ask the other ranks whether to stop, and keeps trying: %s"
                        safe_log(level, what, fault_text(fault))
                        logged = level
            self._wake.wait(_IDLE_PAUSE_S if self._asked_since is None and not self.must_stop else QUICK_S)
            self._wake.clear()
            self._pace.add(self._clock(), self.calls)

    @property
    def _over(self) -> bool:
        return self._closed or self._run.ended or self.at is not None

    def _is_due(self, place: "RunPlace", looked_at: float, looked_calls: int) -> bool:
        """Whether to check again: soon after a request, otherwise after ``every`` more calls, or :data:`IDLE_S`."""
        waited_s = self._clock() - looked_at
        if self.must_stop or self._asked_since is not None:
            return waited_s >= quick_s(place.rank.world)
        if waited_s < look_s(place.rank.world, free=place.store.traits.prices.free):
            return False
        return self.calls >= looked_calls + self._every or waited_s >= IDLE_S

    def look(self, place: "RunPlace") -> None:
        """Check the document once, and act on it. Raises :class:`StoreError`.

        1. Read the document. If no rank of this attempt has asked and this rank has to stop, ask.
        2. If the call is decided, adopt it.
        3. Otherwise leave an answer, and decide if that is this rank's task.
        """
        began = self._clock()
        self._pace.add(began, self.calls)
        try:
            blob, plan = self._read(place)
            if plan is None:
                if self._attempt is not None or blob is None or read_plan(blob.body) is None:
                    self._clear = began
                self._asked_since = None
                if self.must_stop:
                    self._ask(place, blob)
                    blob, plan = self._read(place)
            if plan is not None and blob is not None:
                self._follow(place, plan, blob)
            self._last_look = self._clock()
        finally:
            self._took.append(self._clock() - began)

    def _read(self, place: "RunPlace") -> tuple[Blob | None, StopPlan | None]:
        """The document, and its plan for this attempt. Either is None if there is none."""
        blob = place.store.read(f"{self._run.run_id}/{KEY}", LIMIT_BYTES)
        return blob, self._of_this_attempt(place, blob)

    def _follow(self, place: "RunPlace", plan: StopPlan, blob: Blob) -> None:
        if plan.at is not None:
            self._take(place, plan)
            return
        if self._asked_since is None or self._answered is None:
            # The wait for the others begins with this rank's answer: until then they may have compiled too.
            self._asked_since = self._clock()
        if self._answered is None:
            self._answer(place, plan)
        if self._decides(place):
            self._decide(place, plan, blob)

    def _of_this_attempt(self, place: "RunPlace", blob: Blob | None) -> StopPlan | None:
        """The plan in a document if it is of this attempt, or None."""
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
        """Ask all ranks to stop, unless another rank asks at this moment."""
        self._learn_attempt(place)
        before = read_plan(blob.body) if blob is not None else None
        if self._attempt is None or (before is not None and before.attempt > self._attempt[0]):
            return
        where = f" on {place.rank.host}" if place.rank.host else ""
        plan = StopPlan(*self._attempt, f"rank {place.rank.number}{where}", self._run.stop_wanted or "")
        with suppress(ConflictError):
            expected = Expect.NOTHING if blob is None else blob.version
            place.store.write(f"{self._run.run_id}/{KEY}", encode_plan(plan), expected)
        self._is_asker = True

    def _answer(self, place: "RunPlace", plan: StopPlan) -> None:
        per_s = self._pace.per_s
        if per_s is None:
            # Training has just begun and compiles, so its pace is unknown.
            return
        reaction_s = quick_s(place.rank.world) + max(self._took, default=0.0)
        answer = StopAnswer(place.rank.number, self.calls, per_s, reaction_s)
        key = f"{self._run.run_id}/{plan.folder}{answer.name}"
        # Noted first: the answer to this write may be lost, and the key is then written again.
        self._answers.append(key)
        place.store.write(key, b"")
        self._answered = plan

    def _decides(self, place: "RunPlace") -> bool:
        """Whether this rank decides now: the asking rank and rank 0 do, and the others when those seem to be dead."""
        if self._asked_since is None or self._answered is None:
            return False
        waited_s = self._clock() - self._asked_since
        # Ranks take over one after the other, not all at once.
        patience_s = ROLL_CALL_S + TAKE_OVER_S + place.rank.number % 16 * QUICK_S
        return self._is_asker or place.rank.leads or waited_s >= patience_s

    def _decide(self, place: "RunPlace", plan: StopPlan, blob: Blob) -> None:
        answers = self._read_answers(place, plan)
        missing = sorted(set(range(place.rank.world)) - {each.rank for each in answers})
        now = self._clock()
        if not answers or (missing and now - (self._asked_since or now) < ROLL_CALL_S):
            return
        # All answers are younger than this check without a request, or than the start of the run.
        at = stop_call(answers, now - (place.started if self._clear is None else self._clear), self._every)
        with suppress(ConflictError):
            place.store.write(f"{self._run.run_id}/{KEY}", encode_plan(replace(plan, at=at)), blob.version)
            self._take(place, replace(plan, at=at))
        if missing:
            named = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
            what = "%d of %d ranks did not answer within %g s (%s), and are not waited for"
            safe_log(logging.WARNING, what, len(missing), place.rank.world, ROLL_CALL_S, named)

    def _read_answers(self, place: "RunPlace", plan: StopPlan) -> list[StopAnswer]:
        """The answers of this run's ranks in this attempt. A rank that retried an uncertain write may have several."""
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
        """Adopt the decided call, and log it."""
        if self.at is not None:
            # The asking thread hung in the store, and this rank has stopped alone.
            return
        calls = self.calls
        self.why = plan.summary
        self.at = plan.at
        ahead = (plan.at or 0) - calls
        if ahead > 0:
            what = "all %d ranks stop at the same step, %d from here: %s"
            safe_log(logging.WARNING, what, place.rank.world, ahead, plan.summary)
        else:
            what = "all ranks were to stop %d steps ago; this one learns that only now, and stops: %s"
            safe_log(logging.WARNING, what, -ahead, plan.summary)
        for key in self._answers:
            with suppress(StoreError):
                place.store.delete(key)


def look_s(world: int, *, free: bool) -> float:
    """Time in s between two checks of a rank while no rank has asked to stop."""
    return min(IDLE_S, max(LOOK_FREE_S if free else LOOK_S, world / _RANKS_PER_S))


def quick_s(world: int) -> float:
    """Time in s between two checks of a rank after one has asked to stop."""
    return max(QUICK_S, world / _QUICK_PER_S)
