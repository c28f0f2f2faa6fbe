"""Instead of what understands a log: something that keeps what it was given to read, so that a test can see it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

from lastbeat.observe.file_log import Readers

GAP = "<gap>"


@dataclass
class Recorder:
    """Has the interface of a ``LogReader``, and its text is all that it was fed with."""

    name: str
    line: int = 1
    text: str = ""
    finished: bool = False
    made: "list[Recorder]" = field(default_factory=list, repr=False)

    def feed(self, data: bytes, at: datetime | None = None) -> None:
        assert not self.finished
        self.text += data.decode("latin-1")
        self.line += data.count(b"\n")

    def skipped(self, bytes_count: int) -> None:
        self.text += GAP

    def finish(self) -> None:
        self.finished = True

    def account(self) -> Any:
        steps = re.findall(r"step (\d+)", self.text)
        step = int(steps[-1]) if steps else None
        return SimpleNamespace(progress=SimpleNamespace(step=step), text=self.text, lines=self.line)

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "splitter": {"number": self.line}, "text": self.text}


def recorders() -> tuple[Readers, list[Recorder]]:
    """What makes them, and those that began anew, in their order."""
    made: list[Recorder] = []

    def fresh(name: str, rank: int | None, line: int) -> Any:
        made.append(Recorder(name, line))
        return made[-1]

    def restore(state: Mapping[str, Any]) -> Any:
        return Recorder(cast("str", state["name"]), state["splitter"]["number"], state["text"])

    return Readers(fresh, restore), made
