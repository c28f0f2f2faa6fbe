"""Each fault that can be simulated, in one of four ranks of a PyTorch training under torchrun and ``lastbeat exec``:
what the watchdog says, how long after, what is started again, and whether the training ends as an undisturbed one."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.sdk import PEERS
from bench.server import CHECKOUT

_TRAINING = CHECKOUT / "tests" / "frameworks" / "scripts" / "faults.py"
_STEPS = 600
_STEP_LIMIT_S = 5
_WAIT_S = 300.0
_FAULTS = {
    "rank_killed": "rank_killed:2:8", "rank_hung": "rank_hung:1:8", "gpu_error": "gpu_error:3:8",
    "disk_full": "disk_full:0:8", "preempt": "preempt:2:8", "nan": "nan:0:8", "slow_rank": "slow_rank:1:8",
}  # fmt: skip
_TOLD_OF = "FT: Simulating fault"
Timed = list[tuple[float, str]]


@dataclass
class _Found:
    """What was seen of one training with a fault."""

    fault_at: float | None = None
    said: str = ""
    said_at: float | None = None
    done: list[str] = field(default_factory=list)
    again_at: float | None = None
    """The first step after a restart."""
    by_hand: bool = False
    """It was the scheduler's, or a person's, to start it again."""
    status: str = ""
    loss: str | None = None


def tables(progress: Callable[[str], None]) -> Iterator[str]:
    yield (
        "| fault in one of four ranks | the watchdog says | after | `lastbeat exec` | first step again after "
        "| in the end | last loss as undisturbed |"
    )
    yield "|---|---|---:|---|---:|---|---|"
    if not (PEERS / "bin" / "torchrun").exists():
        yield "| torch is not installed | | | | | | |"
        return
    progress("a training without a fault")
    undisturbed = _train("")
    loss = undisturbed.loss
    if undisturbed.status != "SUCCEEDED" or loss is None:
        raise RuntimeError(f"the training without a fault ended as {undisturbed.status}")
    for name, fault in _FAULTS.items():
        progress(name)
        found = _train(fault)
        cells = [
            f"`{name}`", found.said or "nothing", _since(found.fault_at, found.said_at),
            "; ".join(found.done) or "leaves it alone", _again(found), found.status,
            "yes" if found.loss == loss else "no",
        ]  # fmt: skip
        yield "| " + " | ".join(cells) + " |"


def _since(begin: float | None, end: float | None) -> str:
    return "" if begin is None or end is None else f"{end - begin:.1f} s"


def _again(found: _Found) -> str:
    return "started again by hand" if found.by_hand else _since(found.fault_at, found.again_at)


def _train(fault: str) -> _Found:
    with tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp") as folder:
        return _Training(Path(folder)).run(fault)


class _Training:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "ckpt").mkdir()
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("LASTBEAT_", "MONITORING_"))}
        self._environment = clean | {
            "PYTHONPATH": f"{CHECKOUT}/core{os.pathsep}{CHECKOUT}/cli",
            "MONITORING_ROOT": str(folder / "runs"),
            "LASTBEAT_BEAT_SECONDS": "1,ranks:1",
            "LASTBEAT_STRAGGLERS": "on,seconds:5",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, fault: str) -> _Found:
        """Until it has ended well, started once more where that is for others to do."""
        found = _Found()
        lines, looks = self._watched(fault)
        found.fault_at = next((at for at, line in lines if _TOLD_OF in line), None)
        if fault and found.fault_at is None:
            raise RuntimeError(f"{fault} did not happen:\n{''.join(line for _, line in lines)}")
        found.done = [_short(line) for _, line in lines if "restart" in line and "in place" in line]
        found.said, found.said_at = _first_news(looks, found.fault_at)
        found.status = self._status()
        if found.status != "SUCCEEDED":
            found.by_hand = True
            self._once(fault)
            found.status = self._status()
        found.again_at = self._first_step_after(found.fault_at)
        final = self._folder / "final"
        found.loss = final.read_text() if final.exists() else None
        return found

    def _watched(self, fault: str) -> tuple[Timed, Timed]:
        """What one training prints, and what a watchdog that looks each second says of it, to its end."""
        looks: Timed = []
        watch = (sys.executable, "-m", "lastbeat_cli", "watch", "--run-id", "faults", "--interval", "1", "--json")
        with self._reading(watch, self._environment, looks):
            lines = self._once(fault)
            # A look sees how it ended.
            time.sleep(2.5)
        return lines, looks

    def _status(self) -> str:
        """What a watchdog says now."""
        watch = (sys.executable, "-m", "lastbeat_cli", "watch", "--run-id", "faults", "--once", "--json")
        done = subprocess.run(
            watch, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        return str(json.loads(done.stdout)["status"])

    def _once(self, fault: str) -> Timed:
        command = (
            *(sys.executable, "-m", "lastbeat_cli", "exec", "--run-id", "faults", "--max-restarts", "2"),
            *("--policy", "default", "--checkpoint-dir", "ckpt", "--grace", "5"),
            *("--section-timeouts", f"setup:60,step:{_STEP_LIMIT_S},checkpointing:30", "--"),
            *(str(PEERS / "bin" / "torchrun"), "--standalone", "--nproc-per-node", "4", str(_TRAINING), str(_STEPS)),
        )
        lines: Timed = []
        with self._reading(command, self._environment | {"LASTBEAT_SIMULATE_FAULT": fault}, lines) as process:
            process.wait(_WAIT_S)
        return lines

    @contextmanager
    def _reading(self, command: Sequence[str], environment: dict[str, str], lines: Timed) -> Iterator[Any]:
        with subprocess.Popen(command, cwd=self._folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # fmt: skip

            def read() -> None:
                lines.extend((time.time(), line) for line in process.stdout or () if line.strip())

            reading = threading.Thread(target=read)
            reading.start()
            try:
                yield process
            finally:
                process.terminate()
                process.wait(_WAIT_S)
                reading.join()

    def _first_step_after(self, fault_at: float | None) -> float | None:
        place = self._folder / "first_steps"
        times = [float(line.split()[1]) for line in place.read_text().splitlines()] if place.exists() else []
        return next((at for at in times if fault_at is not None and at > fault_at), None)


def _short(line: str) -> str:
    """What lastbeat said, for a cell."""
    said = line.strip().removeprefix("lastbeat: ")
    return (said if len(said) < 100 else f"{said[:97]}…").replace("|", "/")


def _first_news(looks: Timed, fault_at: float | None) -> tuple[str, float | None]:
    """What is said first after the fault that was not said before, and when."""
    known: set[str] = set()
    for at, line in looks:
        if not line.startswith("{"):
            continue
        said = _news(json.loads(line))
        if fault_at is not None and at > fault_at and set(said) - known:
            return "; ".join(each for each in said if each not in known), at
        known.update(said)
    return "", None


def _news(look: dict[str, Any]) -> list[str]:
    said = [look["status"]]
    if look.get("cause"):
        said.append(f"cause `{look['cause']}`")
    if (look.get("attempt") or 1) > 1:
        said.append(f"RUNNING, attempt {look['attempt']}")
    conditions = [name for name in look.get("conditions") or () if name != "warning_in_log"]
    return said + [f"`{name}`" for name in conditions]
