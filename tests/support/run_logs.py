"""A run's logs in a store in memory, and who reads them."""

import json
from datetime import datetime, timedelta
from typing import Any

from lastbeat.explain.signals.loading import load
from lastbeat.model.codec import codec
from lastbeat.model.log_report import LogReport
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import LogReadLimits, RunLogs, RunLogsState
from support.memory import MemoryStore

RUN = "run-1"
MAIN = "logs/training_log_latest.txt"
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79 GiB total)\n"
CRASH = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n{OOM}'


def kept(logs: RunLogs) -> Any:
    """What is kept between processes, as JSON data."""
    return json.loads(json.dumps(codec(RunLogsState).document(logs.state())))


def steps(first: int, count: int) -> str:
    return "".join(f"step {number}/10000 loss 2.5\n" for number in range(first, first + count))


class LogScene:
    """A run's logs in a store, and who reads them."""

    def __init__(self, limits: LogReadLimits | None = None, mask: dict[str, str] | None = None) -> None:
        self.store = MemoryStore()
        self.limits = limits or LogReadLimits()
        self.mask = mask or {}
        self.logs = self.fresh()

    def fresh(self) -> RunLogs:
        def mask(text: str) -> str:
            for secret, instead in self.mask.items():
                text = text.replace(secret, instead)
            return text

        return RunLogs(self.store, RUN, lambda: load("default"), mask, limits=self.limits)

    def put(self, name: str, text: str, *, age_s: float = 0.0) -> None:
        self.store.put_text(f"{RUN}/{name}", text, modified=self.store.now - timedelta(seconds=age_s))

    def look(self, since: datetime | None = None, *, restarted: bool = False) -> LogReport:
        if restarted:
            document = kept(self.logs)
            self.logs = self.fresh()
            self.logs.restore(document)
        files = run_files(self.store, RUN)
        self.store.calls.clear()
        return self.logs.look(files, since)

    @property
    def reads(self) -> int:
        return sum(operation == "read" for operation, _ in self.store.calls)
