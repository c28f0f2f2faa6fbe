"""Three training runs, watched as yours would be: one completes, one raises in the middle, one is killed.

All parts are real and lie on this machine: training in a process of its own that reports itself into a
directory, ``cli/monitor.py`` watching that directory, and a web server that takes Slack's place. Exit status
0 means that each run got its right verdict and exactly one alert.
"""

import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from demo import slack
from demo.scene import SCENES, Scene, Seen, play
from demo.stopping import Stop, StoppedError

CHECKOUT = Path(__file__).resolve().parent.parent
OTHERS_SETTINGS = ("LASTBEAT_", "MONITORING_", "SLACK_", "SNS_", "AWS_", "STALE_", "ALERT_")


def main() -> int:
    # A terminal tells its width; a pipe gets one that README files like.
    console = Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 100)
    stop = Stop()
    stop.listen()
    began = time.monotonic()
    try:
        with _stage() as (root, url, messages):
            seen = [_show(scene, console, root, url, messages, stop) for scene in SCENES]
    except StoppedError:
        console.print("Stopped; its processes have ended and its files are removed.")
        return 130
    return _conclude(console, seen, time.monotonic() - began)


@contextmanager
def _stage() -> Iterator[tuple[Path, str, "queue.Queue[slack.Json]"]]:
    """A fleet root, a webhook's URL and what arrives there; all gone afterwards."""
    messages: queue.Queue[slack.Json] = queue.Queue()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lastbeat-demo-"))
        url = stack.enter_context(slack.webhook(messages.put))
        yield Path(folder) / "training-runs", url, messages


def _show(
    scene: Scene, console: Console, root: Path, url: str, messages: "queue.Queue[slack.Json]", stop: Stop
) -> Seen:
    console.rule(f"[bold]{scene.title}", align="left")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS_SETTINGS)}
    # A run that dies misses its two heartbeats one after the other; the warning in between is left out.
    environment |= {"SLACK_WEBHOOK_URL": url, "ALERT_ON": "failed,timed_out,succeeded,recovered"}
    environment |= {"PYTHONPATH": str(CHECKOUT / "core"), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    # The demo lasts seconds, and so do its heartbeats. One of the runs goes down as with its node, where nobody is left
    # to tell.
    environment |= {"LASTBEAT_BEAT_SECONDS": "0.25", "LASTBEAT_GUARDIAN": "off"}
    seen = Seen(scene)
    # Whatever goes wrong here, the scene's processes end before its folder is removed.
    with closing(play(scene, CHECKOUT, root, environment, messages, stop)) as events:
        for event in events:
            if event.message is not None:
                seen.alerts.append(slack.plain(event.message))
                console.print(slack.render(event.message))
                continue
            if event.status is not None:
                seen.verdicts.append(event.status)
            style = {"lastbeat": "bold", "training": "dim", "demo": "yellow"}[event.who]
            colour = _COLOURS.get(event.status or "", "")
            clock = time.strftime("%H:%M:%S")
            console.print(Text.assemble(f"{clock}  ", (f"{event.who:<9} ", style), (event.what, f"{style} {colour}")))
    console.print()
    return seen


_COLOURS = {"RUNNING": "blue", "SUCCEEDED": "green", "FAILED": "red", "TIMED_OUT": "red"}


def _conclude(console: Console, seen: Sequence[Seen], took_s: float) -> int:
    faults = [fault for one in seen for fault in one.faults()]
    for one in seen:
        verdicts = " → ".join(one.verdicts)
        count = len(one.alerts)
        console.print(Text(f"{one.scene.run_id:<18} {verdicts:<28} {count} alert{'' if count == 1 else 's'}"))
    for fault in faults:
        console.print(Text(f"not as it should be: {fault}", "bold red"))
    if not faults:
        console.print(f"Three runs, three verdicts, one alert each, in {took_s:.0f} s. Now yours: README.md")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"the demo could not go on: {error}")
