"""A log in a store in memory, and who follows it."""

from lastbeat.observe.file_log import FileLog
from lastbeat.observe.log_following import follow
from lastbeat.observe.log_source import StoredLog
from support.log_recorder import recorders
from support.memory import MemoryStore

KEY = "run-1/logs/train.log"
ROOM = 4 << 20


class Followed:
    """A log in a store, and who follows it."""

    def __init__(self, room: int = ROOM) -> None:
        self.store = MemoryStore()
        self.file = FileLog("logs/train.log", None)
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
        self.file = FileLog.restore(self.file.state())

    @property
    def text(self) -> str:
        """What was read, its last line as it is."""
        account = self.file.account(self.readers, ended=True)
        return "" if account is None else str(account.text)  # type: ignore[attr-defined]


def lines(first: int, count: int) -> str:
    return "".join(
        f"step {number} of many, a line as long as lines are in most logs\n" for number in range(first, first + count)
    )
