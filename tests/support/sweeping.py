"""``lastbeat sweep`` as a process that goes on, and what it has printed until now."""

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.cli import LASTBEAT, environment, popen
from support.waiting import LIMIT_S

FAST = ("--interval", "0.2")


class Sweeping:
    """A sweep that goes on: what it prints goes to files, so that nobody has to read it for it to go on."""

    def __init__(
        self, home: Path, number: int, *arguments: str, shell: str = "", form: str = "--json", **settings: str
    ) -> None:
        self.out, self.err = home / f"out-{number}.jsonl", home / f"err-{number}.txt"
        command = [*LASTBEAT, "sweep", *FAST, *filter(None, [form]), *arguments]
        if shell:
            command = ["sh", "-c", f'{shell}; exec "$@"', "sh", *command]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            around = environment(home, LASTBEAT_OWN_LOG="info", ALERT_ON="none", **settings)
            self.process = popen(command, cwd=home, env=around, stdout=out, stderr=err)

    @property
    def said(self) -> str:
        return self.err.read_text(encoding="utf-8")

    @property
    def passes(self) -> list[dict[str, Any]]:
        *whole, _ = self.out.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in whole]

    def wait_for(self, seen: Callable[[], object]) -> None:
        end = time.monotonic() + LIMIT_S
        while not seen():
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def wait_for_passes(self, more: int) -> None:
        before = len(self.passes)
        self.wait_for(lambda: len(self.passes) >= before + more)

    @property
    def port(self) -> int:
        """Of the metrics, as it says itself."""
        self.wait_for(lambda: "metrics are at" in self.said)
        (port,) = re.findall(r"metrics are at http://\S+?:(\d+)/metrics", self.said)
        return int(port)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(LIMIT_S)
        assert "Traceback" not in self.said, self.said
        assert "Warning:" not in self.said, self.said
        return status
