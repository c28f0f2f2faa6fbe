"""What the same trainings come to under what people would use instead: observed, never assumed.

wandb (offline), knockknock and torchrun alone. Each training ends as in the matrix; what is written down is its exit
status, the last line of its output, what wandb keeps of its end, and each message that knockknock sends to a loopback
webhook. A hang is looked at for :data:`HANG_S` seconds.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from matrix.cases import CASES, Case, environment, training
from matrix.fleets import AT_ONCE, LIMIT_S, is_in, read
from support.http_sink import http_sink

PEERS = ("wandb", "knockknock", "torchrun")
HANG_S = 180.0
_WANDB_EXIT = Path(__file__).parent / "scripts" / "wandb_exit.py"


@dataclass
class Ended:
    """What was to be seen of one training."""

    case: Case
    peer: str
    exit: int | None = None
    """None: it had not ended when people stopped looking."""
    last_lines: list[str] = field(default_factory=list)
    messages: list[tuple[float, str]] = field(default_factory=list)
    """Seconds after what happened, first line of a message."""
    kept: str = ""
    """What wandb's own file says of the end."""
    ended_s: float | None = None
    """Seconds from what happened to the end of the command."""


def observe(folder: Path, python: str, peers: Sequence[str] = PEERS, cases: Sequence[Case] = CASES) -> Iterator[Ended]:
    """Each training under each peer, by an interpreter that has torch and the peers."""
    starting = threading.Semaphore(AT_ONCE)
    with ThreadPoolExecutor(len(peers) * len(cases)) as threads:
        pairs = [(peer, case) for case in cases for peer in peers]
        for ended in [
            threads.submit(_one, folder / peer / case.name, python, peer, case, starting) for peer, case in pairs
        ]:
            yield ended.result()


def _one(folder: Path, python: str, peer: str, case: Case, starting: threading.Semaphore) -> Ended:
    folder.mkdir(parents=True)
    ended = Ended(case, peer)
    with http_sink() as sink:
        way = peer if peer != "torchrun" else "plain"
        command = training(case, way, folder)
        if peer == "torchrun" and case.ranks == 1:
            alone = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
            at = command.index(sys.executable) + 1
            command[at:at] = alone
        command[command.index(sys.executable)] = python
        arrived: list[float] = []
        sink.heard = lambda: arrived.append(time.time())
        settings = {"SLACK_URL": f"{sink.url}/slack", "WANDB_MODE": "offline", "WANDB_DIR": str(folder)}
        ranks = [folder / f"rank-{rank}.json" for rank in range(case.ranks)]
        pids: list[int] = []
        with (folder / "output").open("w") as output, starting:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(folder, **settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _wait(lambda: all(path.exists() for path in ranks), process)
            # wandb starts its own service, the ranks meet.
            _wait(lambda: "step 5/" in (folder / "output").read_text(errors="replace"), process)
        pids = [read(path)["pid"] for path in ranks]
        happened_at = time.time()
        if case.gets is None:
            (folder / "go").touch()
        elif case.to_all:
            os.killpg(process.pid, case.gets)
        else:
            os.kill(pids[case.rank], case.gets)
        with suppress(subprocess.TimeoutExpired):
            ended.exit = process.wait(HANG_S)
            ended.ended_s = time.time() - happened_at
        # Whatever is still on its way.
        time.sleep(5)
        for group in filter(partial(is_in, folder), (process.pid, *pids)):
            for end in (os.killpg, os.kill):
                with suppress(ProcessLookupError):
                    end(group, signal.SIGKILL)
        ended.messages = [
            (at - happened_at, json.loads(request.body).get("text", "").split("\n")[0])
            for at, request in zip(arrived, sink.requests, strict=False)
        ]
    said = (folder / "output").read_text(errors="replace").splitlines()
    ended.last_lines = [line for line in said if line.strip() and not re.match(r"step \d", line)][-40:]
    if peer == "wandb":
        found = [_kept(python, path) for path in folder.glob("wandb/offline-run-*/*.wandb")]
        ended.kept = "; ".join(found) or "no file"
    return ended


def _kept(python: str, path: Path) -> str:
    done = subprocess.run([python, str(_WANDB_EXIT), str(path)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def _wait(found: Callable[[], object], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + LIMIT_S
    while not found():
        if time.monotonic() > deadline or process.poll() is not None:
            return
        time.sleep(0.05)
