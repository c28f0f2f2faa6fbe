"""Runs in a store in memory: trainings write, time passes, watchers look at one run or sweep over all of them."""

import heapq
import json
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from lastbeat.fleet.sweep import Sweep
from lastbeat.model.alert import Message
from lastbeat.model.fleet import PassReport
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.record import Record
from lastbeat.watch.record.codec import decode_record
from lastbeat.watch.record.silences import Silences
from lastbeat.watch.watchdog import Watch, WatchContext
from support.channel import ListChannel
from support.memory import START, MemoryStore

if TYPE_CHECKING:
    from typing_extensions import Self

    from lastbeat.stores.port import Store

RUN = "mistral-20250804-171621"


class TrainingRun:
    """One run as its training writes it. ``skew_s`` is how far the instance's clock is ahead of the store's."""

    def __init__(self, store: MemoryStore, run_id: str, *, skew_s: float = 0.0) -> None:
        self.store, self.run_id, self.skew_s = store, run_id, skew_s

    @property
    def now(self) -> datetime:
        return self.store.now

    @property
    def instance_now(self) -> datetime:
        return self.now + timedelta(seconds=self.skew_s)

    def put(self, name: str, text: str | bytes = "", *, age_s: float = 0.0) -> None:
        self.store.put_text(f"{self.run_id}/{name}", text, modified=self.now - timedelta(seconds=age_s))

    def beat(self, *, age_s: float = 0.0, **more: Any) -> None:
        written = (self.instance_now - timedelta(seconds=age_s)).isoformat()
        document = {"run_id": self.run_id, "phase": "train", "instance_id": "i-0abc", "last_update": written}
        self.put("metadata.json", json.dumps({**document, **more}), age_s=age_s)

    def progress(self, step: int, *, age_s: float = 0.0, **more: Any) -> None:
        written = (self.instance_now - timedelta(seconds=age_s)).isoformat()
        document = {"step": step, "total_steps": 1000, "loss": 2.5, "last_updated": written}
        self.put("progress.json", json.dumps({**document, **more}), age_s=age_s)

    def both(self, step: int, *, age_s: float = 0.0) -> None:
        self.beat(age_s=age_s)
        self.progress(step, age_s=age_s)

    def rank(self, number: int, *, age_s: float = 0.0, **more: Any) -> None:
        document = {"rank": number, "host": f"host-{14 + number}", "status": "running", "beat_seconds": 60.0}
        self.put(f"ranks/{number}.json", json.dumps({**document, **more}), age_s=age_s)

    def error(self, text: str = "RuntimeError: CUDA out of memory", *, age_s: float = 0.0) -> None:
        self.put("_error", text, age_s=age_s)

    def complete(self, *, age_s: float = 0.0) -> None:
        self.put("_complete", age_s=age_s)

    def log(self, text: str) -> None:
        self.put("logs/training_log_latest.txt", text)

    def delete(self, *names: str) -> None:
        """Delete these files; without any, the whole folder with the record in it."""
        folder = f"{self.run_id}/"
        for key in [f"{folder}{name}" for name in names] or [key for key in self.store.held if key.startswith(folder)]:
            self.store.held.pop(key, None)

    @property
    def record(self) -> Record | None:
        """What the watchdog has written down about it."""
        held = self.store.held.get(f"{self.run_id}/_watchdog.json")
        return None if held is None else _decoded(held.body)


@lru_cache(maxsize=1024)
def _decoded(body: bytes) -> Record:
    """Tests ask again and again, and the record seldom changes."""
    return decode_record(body)


class World(TrainingRun):
    """A store with runs in it, and who watches them. The world itself writes as one of them, ``RUN``."""

    def __init__(
        self,
        policy: Policy | None = None,
        fleet: FleetPolicy | None = None,
        *,
        store: MemoryStore | None = None,
        skew_s: float = 0.0,
    ) -> None:
        super().__init__(store or MemoryStore(), RUN, skew_s=skew_s)
        self.state = MemoryStore()
        self.through: Store = self.store
        """The store as watchers are given it: with retries around it, perhaps."""
        self.channels: list[Any] = [ListChannel()]
        self.policy, self.fleet = policy or Policy(), fleet or FleetPolicy()
        self.options: dict[str, Any] = {}
        """What else watchers and sweeps are given, by its name in ``WatchContext``."""

    @property
    def channel(self) -> ListChannel:
        """The first channel; setting it replaces all."""
        return self.channels[0]  # type: ignore[no-any-return]

    @channel.setter
    def channel(self, channel: Any) -> None:
        self.channels = [channel]

    def run(self, run_id: str, *, skew_s: float = 0.0) -> TrainingRun:
        return TrainingRun(self.store, run_id, skew_s=skew_s)

    def beat_all(self, *, but: tuple[str, ...] = ()) -> None:
        """Write both heartbeats of every run that there is."""
        for run_id in {key.split("/")[0] for key in self.store.held}.difference(but, {"_watchdog"}):
            self.run(run_id).both(2)

    def after(self, seconds: float) -> None:
        self.store.pass_time(seconds)
        self.state.pass_time(seconds)

    def _seconds(self) -> float:
        return self.now.timestamp()

    def _context(self, options: dict[str, Any]) -> WatchContext:
        given = {"store": self.through, "channels": self.channels, "policy": self.policy, "state": self.state}
        return WatchContext(**{**given, "clock": lambda: self.now, **self.options, **options})

    def fresh_watch(self, run_id: str = RUN, **options: Any) -> Watch:
        """Another watcher, or this one after a restart: it knows only what is written down."""
        return Watch(run_id, self._context(options))

    @cached_property
    def watch(self) -> Watch:
        return self.fresh_watch()

    def look(self, *, restarted: bool = True) -> Outcome:
        """One pass, by default of a watcher that was just started, as ``--once`` is."""
        if restarted:
            self.watch = self.fresh_watch()
        return self.watch.tick()

    def record_after_look(self, *, restarted: bool = True) -> Record:
        """Look once, and return the record, which has to be there now."""
        record = self.look(restarted=restarted).record
        assert record is not None
        return record

    def fresh_sweep(self, **options: Any) -> Sweep:
        """Another sweep, or this one after a restart: it knows only what is written down."""
        known = {each.name for each in fields(WatchContext)} & options.keys()
        context = self._context({"silences": Silences(self.through)} | {name: options.pop(name) for name in known})
        sweep = Sweep(context, self.fleet, **options)
        for paced in sweep._context.channels:
            # How long a channel is left alone is measured by this world's time, too.
            paced._steady = self._seconds
        return sweep

    @cached_property
    def sweeper(self) -> Sweep:
        return self.fresh_sweep()

    def sweep(self, *, restarted: bool = False, deadline: float | None = None) -> PassReport:
        """One pass over all runs; ``deadline`` is in seconds from now."""
        if restarted:
            self.sweeper = self.fresh_sweep()
        return self.sweeper.run(deadline=None if deadline is None else time.monotonic() + deadline)

    def sweeps(self, count: int, *, but: tuple[str, ...] = (), restarted: bool = False) -> PassReport:
        """The report of the last of so many passes, a minute apart; before each of them every run beats but these."""
        for _ in range(count):
            self.after(60)
            self.beat_all(but=but)
            report = self.sweep(restarted=restarted)
        return report

    def told(self, run_id: str) -> list[str]:
        """What people were told of one run, alone or as one of a group."""
        return [message.event.value for message in self.channel.sent if run_id in told_of(message)]

    def record_writes(self) -> int:
        return sum(call == ("write", f"{RUN}/_watchdog.json") for call in self.store.calls)


class ScriptedWorld(World):
    """A world in which things happen when a script says so. Times are in seconds from ``origin``."""

    def __init__(self, policy: Policy, *, origin: datetime = START) -> None:
        super().__init__(policy)
        self.origin = origin
        self._due: list[tuple[float, bool, int, Callable[[], object]]] = []
        self._planned = 0

    @property
    def now_s(self) -> float:
        return (self.now - self.origin).total_seconds()

    def at(self, when_s: float, do: Callable[[], object], *, last: bool = False) -> None:
        """``do`` is done then; ``last``: after whatever else is done at the same time."""
        self._planned += 1
        heapq.heappush(self._due, (when_s, last, self._planned, do))

    def play(self, until_s: float = 0.0) -> "Self":
        """Do what is due until then, each at its time."""
        while self._due and self._due[0][0] <= until_s:
            when_s, _, _, do = heapq.heappop(self._due)
            self._turn_to(when_s)
            do()
        self._turn_to(until_s)
        return self

    def _turn_to(self, when_s: float) -> None:
        self.store.now = self.state.now = self.origin + timedelta(seconds=when_s)


def told_of(message: Message) -> tuple[str, ...]:
    """The runs that an alert tells of: those of a group, or its own."""
    return message.members or (message.run_id,)


def running(count: int, **options: Any) -> World:
    """So many runs, ``run-0000`` and on, that have just begun."""
    world = World(**options)
    for number in range(count):
        world.run(f"run-{number:04}").both(1)
    return world
