"""``lastbeat dashboard`` as a process of its own, over any fleet root."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli import LASTBEAT, environment, popen
from support.waiting import LIMIT_S

INTERVAL_S = 1


@contextmanager
def run_dashboard(root: str | Path, home: Path, *arguments: str, **settings: str) -> Iterator[str]:
    """Its address. At its end it must leave as it was told to, and have had nothing to complain of but its store."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "dashboard.err").open("w+", encoding="utf-8") as said:
        command = ["--root", str(root), "--json", "--port", "0", "--interval", str(INTERVAL_S), *arguments]
        process = popen(
            [*LASTBEAT, "dashboard", *command],
            cwd=home,
            env=environment(home, **settings),
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            encoding="utf-8",
        )
        try:
            yield _address(process, said.name)
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(timeout=LIMIT_S)
            assert process.stdout is not None
            process.stdout.close()
    complaints = Path(said.name).read_text(encoding="utf-8")
    assert status == 0, complaints
    assert "Traceback" not in complaints, complaints


def _address(process: "subprocess.Popen[str]", complaints: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"the dashboard did not start: {Path(complaints).read_text(encoding='utf-8')}")
    address: str = json.loads(line)["url"]
    return address
