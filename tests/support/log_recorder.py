"""A reader that keeps what it was given to read, so that a test can see it."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from lastbeat.watch.observe.tailed_log import Readers, TextReader

GAP = "<gap>"


@dataclass
class Recorder:
    """Its text is all that it was fed with."""

    name: str
    next_line: int = 1
    text: str = ""
    finished: bool = False
    made: "list[Recorder]" = field(default_factory=list, repr=False)

    @property
    def step(self) -> int | None:
        steps = re.findall(r"step (\d+)", self.text)
        return int(steps[-1]) if steps else None

    def feed(self, data: bytes, at: datetime | None = None) -> None:
        assert not self.finished
        self.text += data.decode("latin-1")
        self.next_line += data.count(b"\n")

    def skipped(self, bytes_count: int) -> None:
        self.text += GAP

    def finish(self) -> None:
        self.finished = True

    def summary(self) -> Any:
        return SimpleNamespace(text=self.text, lines=self.next_line)

    def document(self) -> list[Any]:
        return [self.name, self.next_line, self.text]


def recorders() -> tuple[Readers, list[Recorder]]:
    """What makes them, and those that began anew, in their order."""
    made: list[Recorder] = []

    def fresh(name: str, rank: int | None, line: int) -> TextReader:
        made.append(Recorder(name, line))
        return made[-1]

    def restore(document: Any) -> TextReader:
        return Recorder(*document)

    return Readers(fresh, restore), made
