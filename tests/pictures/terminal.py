"""Takes the pictures of the terminal that the documents show: what tmux shows, as text, at 80 and at 200 columns.

``make pictures`` calls it, with the fleet that the pictures of the page show. Look at each afterwards: would a person
be content?
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from support import view_scenes as scenes
from support.checkout import ROOT
from support.cli import LASTBEAT, environment
from support.s3 import run_s3_server
from support.view_places import bucket

FOLDER = ROOT / "docs" / "pictures"
BUCKET = "ml-research"
SIZES = ((80, 24), (200, 50))
PATIENCE_S = 60.0


class Tmux:
    """A terminal of tmux's own server, in which a program runs."""

    def __init__(self, command: Sequence[str], size: tuple[int, int], cwd: Path, settings: dict[str, str]) -> None:
        self._socket = str(cwd / f"tmux-{time.monotonic_ns()}")
        columns, lines = map(str, size)
        given = {**environment(cwd), **settings, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        # tmux passes on what its server was started with.
        self._environ = {**given, "TERM": os.environ.get("TERM", "xterm")}
        program = "TERM=tmux-256color exec " + shlex.join(command)
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", columns, "-y", lines, "-c", str(cwd), program)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-S", self._socket, *arguments],
            env=self._environ,
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def shown(self) -> str:
        """The screen as text, without the space behind its lines."""
        lines = [line.rstrip() for line in self._tmux("capture-pane", "-p").split("\n")]
        return "\n".join(lines).rstrip("\n") + "\n"

    def wait_for(self, condition: Callable[[str], bool]) -> str:
        limit = time.monotonic() + PATIENCE_S
        while not condition(shown := self.shown()):
            if time.monotonic() > limit:
                sys.exit(f"the terminal does not show what it should:\n{shown}")
            time.sleep(0.2)
        return shown

    def end(self) -> None:
        self._tmux("kill-server")


Shot = tuple[str, Sequence[str], Callable[[str], bool]]
"""Name, arguments of lastbeat, and what shows that it is all there."""
SHOTS: tuple[Shot, ...] = (
    ("fleet", ("fleet",), lambda shown: scenes.HEALTHY in shown and "still to be read" not in shown),
    ("top", ("top", scenes.HEALTHY), lambda shown: "Speed" in shown),
    ("show", ("fleet", scenes.OOM), lambda shown: "1 shown" in shown),
)


def main() -> int:
    if shutil.which("tmux") is None:
        sys.exit("tmux is not installed: apt-get install tmux")
    FOLDER.mkdir(exist_ok=True)
    with run_s3_server() as server, tempfile.TemporaryDirectory() as folder:
        server.client().create_bucket(Bucket=BUCKET)
        scenes.every_status(bucket(server, BUCKET), datetime.now(timezone.utc))
        settings = {**server.environment(), "MONITORING_ROOT": f"s3://{BUCKET}/training-runs"}
        for size in SIZES:
            for shot in SHOTS:
                path = FOLDER / f"terminal-{shot[0]}-{size[0]}.txt"
                path.write_text(_take(shot, size, Path(folder), settings), encoding="utf-8")
                print(path.relative_to(ROOT))  # noqa: T201 - a command
    return 0


def _take(shot: Shot, size: tuple[int, int], cwd: Path, settings: dict[str, str]) -> str:
    name, arguments, ready = shot
    screen = Tmux([*LASTBEAT, *arguments], size, cwd, settings)
    try:
        shown = screen.wait_for(ready)
        if name == "show":
            # As people come to it: from the table.
            screen.press("Enter")
            shown = screen.wait_for(lambda now: "q back" in now and f"Run {scenes.OOM}" in now)
    finally:
        screen.end()
    return shown


if __name__ == "__main__":
    sys.exit(main())
