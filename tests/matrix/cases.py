"""How trainings end, and who reports them: the two sides of the matrix."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from support.checkout import ROOT

SCRIPT = Path(__file__).parent / "scripts" / "train.py"
ADDRESS_SPACE_KB = 8 << 20
OWNER = "ada"


@dataclass(frozen=True)
class Case:
    """One way for a training to end.

    ``gets`` is the signal that it is sent once it trains: to its rank ``rank`` or, as a terminal does, to all its
    processes.
    """

    name: str
    says: str
    ranks: int = 1
    gets: signal.Signals | None = None
    rank: int = 0
    to_all: bool = False
    ulimit: str = ""
    lives: bool = False
    """Whether its processes are still there when people hear of it."""


# Those that take longest to be told of come first.
CASES = (
    Case("collective", "hang in a collective (gloo, 2 ranks)", ranks=2, lives=True),
    Case("lock", "hang in a lock", lives=True),
    Case("kill", "kill -9", gets=signal.SIGKILL),
    Case("segfault", "segfault"),
    Case("sigterm", "SIGTERM", gets=signal.SIGTERM),
    Case("end", "normal end"),
    Case("nan", "NaN loss, then its end"),
    Case("rank", "one rank of two killed", ranks=2, gets=signal.SIGKILL, rank=1),
    Case("ctrl-c", "Ctrl-C", gets=signal.SIGINT, to_all=True),
    Case("oom", "out of memory (ulimit -v)", ulimit=f"ulimit -v {ADDRESS_SPACE_KB}"),
    Case("disk", "disk full"),
    Case("exception", "exception"),
)


def training(case: Case, way: str, folder: Path) -> list[str]:
    """The command of a training, which reports to ``way`` (see ``scripts/train.py``) and waits in ``folder``."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(case.ranks)]
    command = [sys.executable, *(launcher if case.ranks > 1 else []), str(SCRIPT), case.name, way, str(folder)]
    return ["sh", "-c", f'{case.ulimit}; exec "$@"', "sh", *command] if case.ulimit else command


def _sdk(case: Case, folder: Path) -> list[str]:
    return training(case, "sdk", folder)


def _exec(case: Case, folder: Path) -> list[str]:
    return [sys.executable, "-m", "lastbeat_cli", "exec", "--run-id", case.name, "--", *training(case, "plain", folder)]


def _log(case: Case, folder: Path) -> list[str]:
    return training(case, "plain", folder)


class Way(Enum):
    """How lastbeat hears of a training."""

    SDK = "sdk"
    EXEC = "exec"
    LOG = "log"

    @property
    def says(self) -> str:
        return {"sdk": "SDK", "exec": "`lastbeat exec`", "log": "log only"}[self.value]

    @property
    def command(self) -> Callable[[Case, Path], list[str]]:
        return {"sdk": _sdk, "exec": _exec, "log": _log}[self.value]

    @property
    def limits(self) -> dict[str, str]:
        """Limits that are not the defaults: where those are off, or would have everybody wait for ten minutes."""
        if self is Way.LOG:
            # One case is told of at a time: runs that fall silent together would share one alert.
            return {"STALE_MINUTES": "1", "LASTBEAT_GROUPS": "runs:100"}
        return {"LASTBEAT_STALL_MINUTES": "1"}


def environment(home: Path, **settings: str) -> dict[str, str]:
    """What a process of the matrix sees: nothing of this machine's settings."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT / 'core'}{os.pathsep}{ROOT / 'cli'}",
        "OMP_NUM_THREADS": "1",
        "LASTBEAT_OWNER": OWNER,
        "AWS_EC2_METADATA_DISABLED": "true",
        **settings,
    }
