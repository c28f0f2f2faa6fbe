"""Wall and CPU time of whole processes, several commands in turn so that all meet the same machine."""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """One process from start to exit; CPU is user and system together. Seconds."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Runs:
    runs: tuple[Run, ...]

    @property
    def wall_s(self) -> float:
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def least_wall_s(self) -> float:
        return min(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        return statistics.median(run.cpu_s for run in self.runs)


def once(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Run:
    """Raises ``RuntimeError`` with what the command said when it does not exit with 0."""
    began = time.perf_counter()
    with subprocess.Popen(
        list(command), cwd=folder, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        said = child.stdout.read() if child.stdout is not None else b""
        _, status, usage = os.wait4(child.pid, 0)
        took = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}:\n{said.decode(errors='replace')}")
    return Run(took, usage.ru_utime + usage.ru_stime)


def in_turn(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], folder: Path, times: int
) -> dict[str, Runs]:
    """Each command ``times`` times, after one run of each that is not counted (it compiles and warms)."""
    for command in commands.values():
        once(command, environment, folder)
    taken: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            taken[name].append(once(command, environment, folder))
    return {name: Runs(tuple(runs)) for name, runs in taken.items()}
