"""A log in a store in memory, and who follows it."""

import json

from lastbeat.model.codec import codec
from lastbeat.watch.observe.log_following import follow
from lastbeat.watch.observe.log_source import StoredLog
from lastbeat.watch.observe.tailed_log import Readers, TailedLog
from support.log_recorder import recorders
from support.memory import MemoryStore

KEY = "run-1/logs/train.log"
ROOM = 4 << 20


class Followed:
    """A log in a store, and who follows it."""

    def __init__(self, room: int = ROOM) -> None:
        self.store = MemoryStore()
        self.file = TailedLog("logs/train.log")
        self.readers, self.made = recorders()
        self.room = room

    def put(self, text: str) -> None:
        self.store.pass_time(60)
        self.store.put_text(KEY, text)

    def look(self) -> int:
        """Follow it; how many reads that took."""
        (entry,) = self.store.list("run-1/").entries
        before = len(self.store.calls)
        source = StoredLog(self.store, self.file.name, entry)
        if self.file.is_read(source):
            self.file.still = True
        else:
            follow(self.file, source, self.room, None, self.readers)
        return len(self.store.calls) - before

    def restart(self) -> None:
        self.file = kept(self.file)

    @property
    def text(self) -> str:
        """What was read, its last line as it is."""
        return said(self.file, self.readers, ended=True)


def kept(file: TailedLog) -> TailedLog:
    """As a later process knows it."""
    return codec(TailedLog).read(json.loads(json.dumps(document(file))))


def document(file: TailedLog) -> object:
    return codec(TailedLog).document(file.kept())


def said(file: TailedLog, readers: Readers, *, ended: bool = False) -> str:
    """The text that was read; with ``ended``, its last line as it is."""
    summary = file.summary(readers, ended=ended)
    return "" if summary is None else str(summary.text)  # type: ignore[attr-defined]


def lines(first: int, count: int) -> str:
    return "".join(
        f"step {number} of many, a line as long as lines are in most logs\n" for number in range(first, first + count)
    )
