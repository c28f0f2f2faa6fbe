"""A run that is looked at again and again, with what its logs are said to say."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from lastbeat.model.cause import NOTHING, Cause, Evidence, Explanation
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import NeverSeen, Seen, Sentinel
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.watch.decide.transition import Decision, decide

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
OOM = Cause("oom", Evidence("train.log", 120, "CUDA out of memory", rank=3), 0.9, hint="Use a smaller batch.")
CRASH = Explanation(OOM, ended=True)
MAYBE = Explanation(replace(OOM, confidence=0.4))
HANG = Explanation(replace(OOM, error_type="hang", hint="py-spy dump"), ended=True)
DONE = Explanation(success=Evidence("train.log", 999, "[after training is done]"))


@dataclass
class Watched:
    """A run that is looked at again and again, each time with what the pass remembers alone."""

    policy: Policy = field(default_factory=Policy)
    now: datetime = START
    record: Record | None = None
    files: dict[str, Any] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    writes: int = 0
    last: Decision | None = None

    def after(self, seconds: float) -> "Watched":
        self.now += timedelta(seconds=seconds)
        return self

    def beat(self, **more: Any) -> "Watched":
        self.files["metadata"] = Heartbeat(self.now, f"m{self.now}", self.now, **more)
        return self

    def progress(self, step: int) -> "Watched":
        self.files["progress"] = Heartbeat(self.now, f"p{self.now}", self.now, step=step)
        return self

    def log(self, step: int | None = None, explanation: Explanation = NOTHING, **more: Any) -> "Watched":
        """New text in the log, which tells ``step``."""
        known = self.files.get("logs") or LogReport()
        fresh = replace(known, written_at=self.now, explanation=explanation, **{"last_seen": known.last_seen, **more})
        if step is not None:
            fresh = replace(fresh, step=step, progress_at=self.now)
        self.files["logs"] = fresh
        return self

    def unreadable(self) -> "Watched":
        self.files.pop("logs", None)
        return self

    def end(self, name: str, text: str = "boom") -> "Watched":
        self.files[name] = Sentinel(self.now, "1", len(text), text)
        return self

    def look(self) -> str:
        seen = Seen(**self.files) if self.files else NeverSeen()
        self.last = decide(self.record, "run-1", seen, self.policy, self.now)
        self.told += [event.value for event in self.last.events]
        if self.last.must_write:
            self.writes += 1
            self.record = replace(self.last.record, written_at=self.now)
        elif self.record is None:
            self.record = self.last.record
        return self.last.verdict.status.value

    @property
    def verdict(self) -> Any:
        assert self.last is not None
        return self.last.verdict


Act = Callable[[Watched], object]
Step = tuple[float, Act, str]
"""Seconds that pass, what then happens, and the status that the next look gives."""


def nothing(_run: Watched) -> None:
    pass
