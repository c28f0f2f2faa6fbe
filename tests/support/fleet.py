"""A fleet of runs in a store in memory: trainings write, time passes, passes look."""

import json
import time
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lastbeat.fleet.sweep import Sweep
from lastbeat.model.alert import Message
from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.model.record import Record
from lastbeat.record.codec import decode_record
from lastbeat.record.silences import Silences
from lastbeat.watchdog import WatchContext
from support.channel import ListChannel
from support.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastbeat.deliver.port import Channel
    from lastbeat.stores.port import Store


class FleetRun:
    """One run as its training sees it. ``skew_s`` is how far the instance's clock is ahead of the store's."""

    def __init__(self, store: MemoryStore, run_id: str, *, skew_s: float = 0.0) -> None:
        self.run_id = run_id
        self.skew_s = skew_s
        self._store = store

    def put(self, name: str, text: str = "", *, age_s: float = 0.0) -> None:
        modified = self._store.now - timedelta(seconds=age_s)
        self._store.put_text(f"{self.run_id}/{name}", text, modified=modified)

    def beat(self, *, age_s: float = 0.0, **fields: Any) -> None:
        document: dict[str, Any] = {
            "run_id": self.run_id,
            "phase": "train",
            "instance_id": "i-0abc",
            "last_update": self._at(age_s),
        }
        if self.skew_s < 0:
            # As lastbeat's own SDK does; who does not is believed to be late.
            document["clock_offset_s"] = -self.skew_s
        self.put("metadata.json", json.dumps({**document, **fields}), age_s=age_s)

    def progress(self, step: int, *, age_s: float = 0.0, **fields: Any) -> None:
        document = {"step": step, "total_steps": 1000, "loss": 2.5, "last_updated": self._at(age_s)}
        self.put("progress.json", json.dumps({**document, **fields}), age_s=age_s)

    def both(self, step: int, *, age_s: float = 0.0) -> None:
        self.beat(age_s=age_s)
        self.progress(step, age_s=age_s)

    def error(self, text: str = "RuntimeError: CUDA out of memory", *, age_s: float = 0.0) -> None:
        self.put("_error", text, age_s=age_s)

    def complete(self, *, age_s: float = 0.0) -> None:
        self.put("_complete", age_s=age_s)

    def log(self, text: str) -> None:
        self.put("logs/training_log_latest.txt", text)

    def delete(self, *names: str) -> None:
        """These files; without any, the whole folder with the record in it."""
        folder = f"{self.run_id}/"
        every = [key for key in tuple(self._store.held) if key.startswith(folder)]
        for key in [f"{folder}{name}" for name in names] or every:
            self._store.held.pop(key, None)

    @property
    def record(self) -> Record | None:
        """What the watchdog has written down about it."""
        held = self._store.held.get(f"{self.run_id}/_watchdog.json")
        return None if held is None else _decoded(held.body)

    def _at(self, age_s: float) -> str:
        return (self._store.now + timedelta(seconds=self.skew_s - age_s)).isoformat()


@lru_cache(maxsize=1024)
def _decoded(body: bytes) -> Record:
    """Asked for again and again, and seldom another one."""
    return decode_record(body)


class FleetScene:
    """Many runs below one root, and who passes over them."""

    def __init__(self, policy: Policy | None = None, fleet: FleetPolicy | None = None) -> None:
        self.store = MemoryStore()
        self.state = MemoryStore()
        self.through: Store = self.store
        """The store as passes are given it: with retries around it, perhaps."""
        self.channel = ListChannel()
        self.channels: list[Channel] = [self.channel]
        self.policy = policy or Policy()
        self.fleet = fleet or FleetPolicy()
        self.mask: Callable[[str], str] = str
        self.kept: Sweep | None = None
        self.last: PassReport | None = None

    @property
    def now(self) -> datetime:
        return self.store.now

    def _seconds(self) -> float:
        return self.store.now.timestamp()

    def run(self, run_id: str, *, skew_s: float = 0.0) -> FleetRun:
        return FleetRun(self.store, run_id, skew_s=skew_s)

    def after(self, seconds: float) -> None:
        self.store.pass_time(seconds)
        self.state.pass_time(seconds)

    def fresh_sweep(self, **options: Any) -> Sweep:
        """Another sweep, or this one after a restart: it knows only what is written down."""
        context = WatchContext(
            self.through, self.channels, self.policy, lambda: self.store.now, state=self.state,
            silences=Silences(self.through), mask=self.mask,
        )  # fmt: skip
        known = {each.name for each in fields(WatchContext)} & options.keys()
        context = replace(context, **{name: options.pop(name) for name in known})
        sweep = Sweep(context, self.fleet, **options)
        for paced in sweep._context.channels:
            # How long a channel is left alone is measured by this scene's time, too.
            paced._steady = self._seconds
        return sweep

    def sweep(self, *, restarted: bool = False, deadline: float | None = None) -> PassReport:
        """One pass; ``deadline`` is in seconds from now."""
        if restarted or self.kept is None:
            self.kept = self.fresh_sweep()
        until = None if deadline is None else time.monotonic() + deadline
        self.last = self.kept.run(deadline=until)
        return self.last

    def told(self, run_id: str) -> list[str]:
        """What people were told of one run, alone or as one of a group."""
        return [message.event.value for message in self.channel.sent if run_id in told_of(message)]


def told_of(message: Message) -> tuple[str, ...]:
    """The runs that an alert tells of: those of a group, or its own."""
    return message.members or (message.run_id,)


def running(count: int, **policies: Any) -> FleetScene:
    """So many runs, ``run-0000`` and on, that have just begun."""
    scene = FleetScene(**policies)
    for number in range(count):
        scene.run(f"run-{number:04}").both(1)
    return scene


def beat(scene: FleetScene, *, but: tuple[str, ...] = ()) -> None:
    """Both heartbeats of every run that there is."""
    names = {key.split("/")[0] for key in scene.store.held} - {"_watchdog"}
    for name in names.difference(but):
        scene.run(name).both(2)
