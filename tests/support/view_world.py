"""Trainings that report themselves through a day that is over in a second, and passes that look at them.

What trainings write is made by the SDK's own documents, and what the watchdog writes by passes of its own; only the
clock is turned by hand.
"""

import json
import logging
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.training.sdk.documents import AttemptIdentity, ProgressHistory, RunIdentity, metadata_document
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.ranks import Rank, rank_document, rank_zero_fields
from lastbeat.training.sdk.run import Run
from lastbeat.watch.record.silences import Silences
from lastbeat.watch.watchdog import WatchContext
from support.channel import ListChannel, down
from support.memory import MemoryStore
from support.view_places import Place, place_of
from support.world import ScriptedWorld, TrainingRun

if TYPE_CHECKING:
    from lastbeat.stores.port import Store

MINUTE, HOUR = 60.0, 3600.0
LOG = "logs/training_log_latest.txt"
POLICY = Policy(stall_s=15 * MINUTE)
GIB = 1 << 30
_LOG_LINES = 400


MARKED = FleetPolicy(interval_s=20 * MINUTE)
"""The mark says that the next pass comes late: no page says that nobody watches, however long a test looks at it."""


class SdkWorld(ScriptedWorld):
    """A fleet until ``now``. What is to happen is said first, in seconds before ``now`` (``-HOUR``), and then played,
    with a pass at each time of ``passes``."""

    def __init__(self, now: datetime, seed: int = 7) -> None:
        super().__init__(POLICY, origin=now)
        self.chance = random.Random(seed)
        self.slack, self.sns = ListChannel("slack:5f0c9a1e"), ListChannel("sns:77aa01b2")
        self.channels = [self.slack, self.sns]
        self.trainings: list[Training] = []
        self._mark = MarkWriter(self.store, MARKED)

    def passes(self, *spans: tuple[float, float, float]) -> None:
        """Passes from … to … every … seconds. They come after whatever else is to be done at the same time."""
        for begin_s, end_s, every_s in spans:
            for number in range(int((end_s - begin_s) // every_s) + 1):
                self.at(begin_s + number * every_s, lambda: self._mark.write(self.sweep()), last=True)

    def play(self, until_s: float = 0.0) -> "SdkWorld":
        with _quiet():
            return super().play(until_s)

    def training(self, run_id: str, **facts: Any) -> "Training":
        return Training(self, run_id, **facts)

    def sns_is_down(self, since_s: float) -> None:
        """From then on alerts wait."""
        self.at(since_s, lambda: setattr(self.sns, "fault", down))

    def play_into(self, at: "Path | Store | Place") -> None:
        """Play all of it and lay it there. Where files get other versions, a pass over the place itself follows."""
        place = place_of(at)
        self.play().lay(place)
        if not isinstance(place.store, MemoryStore):
            sweep(place, policy=self.policy)

    def lay(self, at: Place, only: Sequence[str] = ()) -> None:
        """All that was written, or the folders of these runs ``only``, with the times at which it was."""
        if at.store is not self.store and isinstance(at.store, MemoryStore):
            # The versions stay, too, so that the fleet's memory of them holds.
            wanted = {key: held for key, held in self.store.held.items() if not only or key.split("/")[0] in only}
            at.store.held.update(wanted)
            at.store._writes = max(at.store._writes, self.store._writes)
            at.store.now = self.now
            return
        for key, held in self.store.held.items():
            if not only or key.split("/")[0] in only:
                at.put(key, held.body, held.modified)


def sweep(
    at: "Place | Path | Store", channels: Sequence[ListChannel] | None = None, policy: Policy = POLICY
) -> PassReport:
    """One real pass over a place, by its own clock, with its mark."""
    store = place_of(at).store
    with _quiet():
        told = channels or [ListChannel()]
        context = WatchContext(store, told, policy, store.clock, silences=Silences(store))
        report = Sweep(context, FleetPolicy()).run()
    return MarkWriter(store, MARKED).write(report)


@contextmanager
def _quiet() -> Iterator[None]:
    """What goes wrong on purpose is not said by the hundred."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


class Training(TrainingRun):
    """One training that reports itself, each :meth:`report` a beat of the SDK's."""

    def __init__(
        self,
        world: SdkWorld,
        run_id: str,
        *,
        total: int | None = 20_000,
        step_s: float = 1.0,
        host: str | None = None,
        ranks: int = 1,
        loss: Callable[[int], float] | None = None,
        tokens: int = 0,
        skew_s: float = 0.0,
        gpus: int = 0,
    ) -> None:
        super().__init__(world.store, run_id, skew_s=skew_s)
        world.trainings.append(self)
        self.world, self.total, self.gpus = world, total, gpus
        self.ranks, self.step_s, self.tokens = ranks, step_s, tokens
        self.chance = random.Random(f"{run_id}/{world.chance.random()}")
        name, place = f"i-0{self.chance.getrandbits(64):016x}", self.chance.randrange(8, 250)
        self.instance = Instance(
            host or name, "us-east-1b", "p5.48xlarge" if gpus else "g5.xlarge", f"ip-10-0-{place}-17"
        )
        self.floor, self.span, self._drift = self.chance.uniform(0.6, 2.4), self.chance.uniform(1.5, 4), 0.0
        self.loss = loss or self._falling
        self.step, self.number = 0, 0
        self.lag = dict.fromkeys(range(ranks), 0)
        self.lines: list[str] = []
        self.more: dict[str, Any] = {}
        """What metadata.json says besides."""
        self.still = False
        self.begin()

    def begin(self) -> None:
        """Another attempt."""
        self.number += 1
        self.run = Run(self.run_id, None, self.total)
        self.pace, self.phases = ProgressHistory(), list[tuple[float, str]]()
        self.began, self._last = 0.0, 0.0

    @property
    def seconds(self) -> float:
        """Unix time by the instance's clock."""
        return self.instance_now.timestamp()

    def beats(self, begin_s: float, end_s: float, every_s: float | None = None) -> "Training":
        """Beat now and then from … to …: every five minutes, and every minute in the last hour."""
        when_s = begin_s
        while when_s < end_s:
            self.world.at(when_s, self.report)
            when_s += every_s or (5 * MINUTE if when_s < -HOUR else MINUTE)
        self.world.at(end_s, self.report)
        return self

    def phase(self, name: str, detail: str | None = None) -> None:
        """What it does from now on."""
        self.run.set_phase(name, detail)
        self.phases.append((round(self.seconds, 1), name))

    def report(self) -> None:
        """Write whatever a beat of the SDK writes."""
        now = self.seconds
        if not self.began:
            self.began = self._last = now
            self.phase("training")
        passed, self._last = now - self._last, now
        if not self.still:
            self.step += round(passed / self.step_s * self.chance.uniform(0.94, 1.04))
            value, rate = self.loss(self.step), self._rate(self.step)
            self.run.step(
                self.step,
                loss=value,
                learning_rate=rate,
                epoch=round(self.step / 5000, 2),
                tokens=round(self.tokens * passed / self.step_s),
                grad_norm=round(0.4 + self.chance.random() / 5, 4),
            )
            self.say(f"step {self.step}/{self.total} loss {value:.4f} lr {rate:.2e}")
        attempt = AttemptIdentity(RunIdentity(self.instance, "0.0.0"), self.number, self.began, 4242)
        document = metadata_document(self.run, attempt, now) | rank_zero_fields(Rank(0, self.ranks), begun=True)
        document |= {"beat_seconds": None, "phases": self.phases}
        document |= {"resources": self._resources(), "health": self._health(), **self.more}
        if self.skew_s:
            document["clock_offset_s"] = -self.skew_s
        self.put("metadata.json", _json(document))
        self.put("progress.json", _json(self.pace.document(self.run, now) or {}))
        if self.ranks > 1:
            self._rank_beats(now)

    def _rank_beats(self, now: float) -> None:
        """The document of each rank: the SDK's of one, with what differs from rank to rank."""
        one = Run(self.run_id, None, self.total)
        one.set_phase(*self.run.phase_now)
        one.step(self.step, loss=self.loss(self.step))
        document = rank_document(one, Rank(0, self.ranks), self.number, now)
        for rank in range(self.ranks):
            step = max(0, self.step - self.lag[rank])
            own = {"rank": rank, "local_rank": rank % 8, "host": f"ip-10-0-{rank // 8}-17", "step": step}
            self.put(f"ranks/{rank}.json", _json(document | own | {"loss": self.loss(step)}))

    def _resources(self) -> dict[str, Any]:
        used = [0.88 + self.chance.random() / 10 for _ in range(self.gpus)]
        gpus = [
            {
                "name": "NVIDIA H100 80GB HBM3",
                "utilization": round(share, 2),
                "memory_used_bytes": int((60 + 10 * share) * GIB),
                "memory_total_bytes": 80 * GIB,
            }
            for share in used
        ]
        return {
            "cpu": round(3 + self.chance.random(), 2),
            "rss_bytes": 23 * GIB,
            "memory_available_bytes": 310 * GIB,
            "memory_total_bytes": 512 * GIB,
            "gpus": gpus,
        }

    def _health(self) -> dict[str, Any]:
        """A well node over its last hours, in which a checkpoint was saved now and then."""
        busy = [round(0.95 - 0.4 * (place % 12 == 0), 2) for place in range(96)]
        series: dict[str, list[float | None]] = {"cpu": [0.3] * 96, "memory": [0.4] * 96, "disk": [0.5] * 96}
        if self.gpus:
            warm = [round(50 + 20 * share, 1) for share in busy]
            series |= {"gpu": [*busy], "gpu_temperature_c": [*warm], "gpu_power_w": [700 * share for share in busy]}
        history = {"from": round(self.seconds - 96 * 150), "each_s": 150.0, "series": series}
        return {"conditions": [], "history": history}

    def say(self, *lines: str) -> None:
        """Print these lines into its log."""
        stamp = datetime.fromtimestamp(self.seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        self.lines += [f"{stamp} INFO {line}" if not line.startswith((" ", "[")) else line
                       for line in lines]  # fmt: skip
        del self.lines[:-_LOG_LINES]
        self.put(LOG, "\n".join(self.lines) + "\n")

    def _falling(self, step: int) -> float:
        # Noise that lasts a while, as batches and data do.
        self._drift = 0.8 * self._drift + self.chance.gauss(0, 0.03 * self.floor)
        return self.floor + self.span * math.pow(1 + step / (0.02 * (self.total or 20_000)), -0.8) + self._drift

    def _rate(self, step: int) -> float:
        whole = self.total or 20_000
        warm = min(1.0, (step + 1) / (0.03 * whole))
        return 3e-4 * warm * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, step / whole))))


def _json(document: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in document.items() if value is not None}, ensure_ascii=False)
