"""A run in a store in memory: training writes, time passes, watchers look."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lastbeat.deliver.port import Channel
from lastbeat.effects.executor import Executor
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.watchdog import Watch, WatchContext
from support.channel import ListChannel
from support.memory import MemoryStore

RUN = "mistral-20250804-171621"


class Scene:
    """``skew_s`` is how far the instance's clock is ahead of the store's."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.store = MemoryStore()
        self.state = MemoryStore()
        self.channel = ListChannel()
        self.policy = policy or Policy()
        self.skew_s = 0.0
        self.executors = list[Executor]()
        self.watch = self.fresh_watch()

    def fresh_watch(self, **options: Any) -> Watch:
        """Another watcher, or this one after a restart: it knows only what is written down."""
        context = WatchContext(self.store, self.channels, self.policy, lambda: self.store.now, state=self.state)
        return Watch(RUN, replace(context, **{"executors": self.executors, **options}))

    @property
    def channels(self) -> list[Channel]:
        return [self.channel]

    @property
    def now(self) -> datetime:
        return self.store.now

    @property
    def instance_now(self) -> datetime:
        return self.store.now + timedelta(seconds=self.skew_s)

    def after(self, seconds: float) -> None:
        self.store.pass_time(seconds)
        self.state.pass_time(seconds)

    def put(self, name: str, text: str = "", *, age_s: float = 0.0) -> None:
        self.store.put_text(f"{RUN}/{name}", text, modified=self.now - timedelta(seconds=age_s))

    def beat(self, *, age_s: float = 0.0, **fields: Any) -> None:
        written = self.instance_now - timedelta(seconds=age_s)
        document = {"run_id": RUN, "phase": "train", "instance_id": "i-0abc", "last_update": written.isoformat()}
        self.put("metadata.json", json.dumps({**document, **fields}), age_s=age_s)

    def progress(self, step: int, *, age_s: float = 0.0, **fields: Any) -> None:
        written = self.instance_now - timedelta(seconds=age_s)
        document = {"step": step, "total_steps": 1000, "loss": 2.5, "last_updated": written.isoformat()}
        self.put("progress.json", json.dumps({**document, **fields}), age_s=age_s)

    def both(self, step: int, *, age_s: float = 0.0) -> None:
        self.beat(age_s=age_s)
        self.progress(step, age_s=age_s)

    def delete(self, name: str) -> None:
        self.store.delete(f"{RUN}/{name}")

    def look(self, *, restarted: bool = True) -> Outcome:
        """One pass, by default of a watcher that was just started, as ``--once`` is."""
        if restarted:
            self.watch = self.fresh_watch()
        return self.watch.tick()

    def record_writes(self) -> int:
        return sum(call == ("write", f"{RUN}/_watchdog.json") for call in self.store.calls)
