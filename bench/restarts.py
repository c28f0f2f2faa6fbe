"""From the death of a job to the next one: ``lastbeat supervise`` on local processes and on a real Slurm, beside the
loops that people write."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.sdk import PEERS
from bench.server import CHECKOUT

CHILD = str(CHECKOUT / "bench" / "restarts_child.py")
LASTBEAT = (sys.executable, "-m", "lastbeat_cli")
INTERVAL_S = 2
TRIES = 5
"""The most that loops begin a job which fails every time."""
_LIMIT_S = 300.0
_FAULTS = 2
"""Of one supervised run: what the budget of the policy ``default`` allows. It also restarts a SIGKILL of which nobody
knows who sent it, which megatron_transient does not."""


@dataclass(frozen=True)
class Event:
    what: str
    at: float
    pid: int
    job: str | None


Fault = Callable[[Event, Mapping[str, str]], None]
"""Does it to the job that an event tells of; with the environment of Slurm's commands."""


def events(folder: Path, what: str) -> list[Event]:
    file = folder / "events"
    lines = file.read_text().splitlines() if file.exists() else []
    return [each for each in (Event(**json.loads(line)) for line in lines) if each.what == what]


def tables(progress: Callable[[str], None], runs: int) -> Iterator[str]:
    """``runs``: supervised runs of each kind, each with two faults."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp")))
        # Slurm's authentication wants its socket to be within everybody's reach.
        scratch.chmod(0o755)
        conf = _slurm(stack, scratch / "slurm")
        progress("from a fault to the next job")
        yield from _recoveries(scratch, conf, runs)
        yield ""
        progress("the loops that people write")
        yield from _loops(scratch, conf)


def polling(progress: Callable[[str], None], minutes: float) -> Iterator[str]:
    """What supervisors take that look every 30 s at jobs that run."""
    progress(f"supervisors for {minutes:g} minutes")
    child = "import time\nfor step in range(10**6): print(f'step {step}/1000000 loss 2.5', flush=True); time.sleep(5)"
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lb-", dir="/tmp")))
        scratch.chmod(0o755)
        conf = _slurm(stack, scratch / "slurm")
        running: dict[str, subprocess.Popen[bytes]] = {}
        for launcher in ("local", *(["slurm"] if conf is not None else [])):
            folder = scratch / f"{launcher}-job"
            folder.mkdir()
            more = {} if conf is None else {"SLURM_CONF": str(conf)}
            command = _supervise(folder, launcher, 30, (sys.executable, "-c", child))
            at = command.index("--")
            supervisor = _started([*command[:at], "--cancel-on-exit", *command[at:]], folder, more)
            running[launcher] = stack.enter_context(supervisor)
        # They have started, and looked once more.
        time.sleep(40)
        before = {name: (_cpu_s(each.pid), time.monotonic()) for name, each in running.items()}
        time.sleep(minutes * 60)
        yield "| a supervisor that looks every 30 s, its first 40 s aside | over | of a core | most memory |"
        yield "|---|---:|---:|---:|"
        for name, each in running.items():
            used_s, took_s = _cpu_s(each.pid) - before[name][0], time.monotonic() - before[name][1]
            figures = f"{took_s / 60:.0f} min | {used_s / took_s:.2%} | {_most_mb(each.pid):.0f} MB"
            with_its = "" if name == "local" else ", with the commands of Slurm that it runs"
            yield f"| `lastbeat supervise`, {name}, the runs in a directory{with_its} | {figures} |"
            each.send_signal(signal.SIGINT)
            each.wait(60)


def _slurm(stack: ExitStack, folder: Path) -> Path | None:
    sys.path.insert(0, str(CHECKOUT / "tests"))
    from support import slurm  # noqa: PLC0415 - the tests' own cluster, and how it is started

    return None if slurm.WHY_NOT else stack.enter_context(slurm.cluster(folder))


def _recoveries(scratch: Path, conf: Path | None, runs: int) -> Iterator[str]:
    yield f"| a fault to the next job's first line, a look every {INTERVAL_S} s, no delay | median | least | most |"
    yield "|---|---:|---:|---:|"
    rows: list[tuple[str, str, str, Fault | None]] = [
        ("local", "SIGKILL of the job", "wait", _kill),
        ("local", "a crash line, and its end", "crash", None),
    ]
    if conf is not None:
        rows += [("slurm", "`scancel`", "wait", _scancel), ("slurm", "a crash line, and its end", "crash", None)]
    for launcher, name, how, fault in rows:
        waits: list[float] = []
        for number in range(runs):
            folder = scratch / f"{launcher}-{how}-{number}"
            waits += _supervised(folder, launcher, how, fault, conf)
        figures = " | ".join(f"{each:.1f} s" for each in (statistics.median(waits), min(waits), max(waits)))
        yield f"| {launcher}: {name} ({len(waits)} times) | {figures} |"
    if conf is None:
        yield "| Slurm | not installed | | |"


def _supervised(folder: Path, launcher: str, how: str, fault: Fault | None, conf: Path | None) -> list[float]:
    """Seconds from each fault to the next job."""
    more = {} if conf is None else {"SLURM_CONF": str(conf)}
    ends: list[float] = []
    command = _supervise(folder, launcher, INTERVAL_S, _job(folder, launcher, how, _FAULTS), "default")
    with _started(command, folder, more) as supervisor:
        for number in range(_FAULTS if fault is not None else 0):
            _until(lambda number=number: len(events(folder, "begin")) > number)  # type: ignore[misc]
            # Anywhere between two looks, and once there are steps to be seen.
            time.sleep(2 + 0.7 * number)
            ends.append(time.time())
            if fault is not None:
                fault(events(folder, "begin")[-1], more)
        _until(lambda: supervisor.poll() is not None)
    begins = [each.at for each in events(folder, "begin")][1:]
    ends = ends or [each.at for each in events(folder, "end")]
    if len(begins) != _FAULTS or len(ends) != _FAULTS or not events(folder, "done"):
        raise RuntimeError(f"{folder}: {len(ends)} faults, {len(begins)} restarts; see {folder}/supervisor.log")
    return [begin - end for begin, end in zip(begins, ends, strict=True)]


def _kill(job: Event, _more: Mapping[str, str]) -> None:
    os.kill(job.pid, signal.SIGKILL)


def _scancel(job: Event, more: Mapping[str, str]) -> None:
    subprocess.run(["scancel", str(job.job)], env={**os.environ, **more}, check=True)


def _loops(scratch: Path, conf: Path | None) -> Iterator[str]:
    yield "| the same job under | a failure costs, median | an oom that comes each time: restarts |"
    yield "|---|---:|---:|"
    slurm = {} if conf is None else {"SLURM_CONF": str(conf)}
    torchrun = PEERS / "bin" / "torchrun"
    ways: dict[str, Callable[[Path, str, int], Sequence[str]] | None] = {
        f"`lastbeat supervise`, local, {INTERVAL_S} s": _by_lastbeat("local"),
        f"`lastbeat supervise`, Slurm, {INTERVAL_S} s": _by_lastbeat("slurm") if conf is not None else None,
        f"`torchrun --max-restarts {TRIES - 1}`": _by_torchrun if torchrun.exists() else None,
        f"`srun` in a shell loop, {TRIES} tries": _by_srun if conf is not None else None,
        f"`scontrol requeue` in the batch script, {TRIES} tries": _by_requeue if conf is not None else None,
    }
    for name, way in ways.items():
        if way is None:
            yield f"| {name} | not installed | |"
            continue
        found = []
        for how, times in (("crash", _FAULTS), ("oom", 10**6)):
            folder = scratch / f"{way.__name__}-{name[1:9].strip()}-{'slurm' in name.lower()}-{how}"
            folder.mkdir()
            with _started(way(folder, how, times), folder, slurm) as loop:
                _until(lambda loop=loop: loop.poll() is not None)  # type: ignore[misc]
            found.append(folder)
        crashed, oom = found
        ends, begins = events(crashed, "end"), events(crashed, "begin")[1:]
        costs = [begin.at - end.at for end, begin in zip(ends, begins, strict=False)]
        cost = f"{statistics.median(costs):.1f} s" if costs and events(crashed, "done") else "it did not come back"
        yield f"| {name} | {cost} | {len(events(oom, 'begin')) - 1} |"


def _by_lastbeat(launcher: str) -> Callable[[Path, str, int], Sequence[str]]:
    def command(folder: Path, how: str, times: int) -> Sequence[str]:
        return _supervise(folder, launcher, INTERVAL_S, _job(folder, launcher, how, times))

    return command


def _by_torchrun(folder: Path, how: str, times: int) -> Sequence[str]:
    ends = ("--nnodes=1", "--nproc-per-node=1", "--master-port=0", f"--max-restarts={TRIES - 1}")
    return (str(PEERS / "bin" / "torchrun"), *ends, CHILD, str(folder), how, str(times))


def _by_srun(folder: Path, how: str, times: int) -> Sequence[str]:
    script = 'for try in $(seq "$1"); do srun -n1 --quiet "${@:2}" && exit 0; sleep 1; done; exit 1'
    return ("bash", "-c", script, "loop", str(TRIES), sys.executable, CHILD, str(folder), how, str(times))


def _by_requeue(folder: Path, how: str, times: int) -> Sequence[str]:
    script = folder / "job.sbatch"
    job = f"{sys.executable} {CHILD} {folder} {how} {times}"
    script.write_text(
        f"#!/bin/bash\n#SBATCH --requeue --output={folder}/out --open-mode=append\n{job} && exit 0\n"
        f'[ "${{SLURM_RESTART_COUNT:-0}}" -ge {TRIES - 1} ] || scontrol requeue "$SLURM_JOB_ID"\nexit 1\n'
    )
    return ("sbatch", "--wait", str(script))


def _job(folder: Path, launcher: str, how: str, times: int) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    if launcher == "local":
        return sys.executable, CHILD, str(folder), how, str(times)
    script = folder / "train.sbatch"
    script.write_text(f"#!/bin/bash\nexec {sys.executable} {CHILD} {folder} {how} {times}\n")
    return (str(script),)


def _supervise(
    folder: Path, launcher: str, interval_s: float, job: Sequence[str], policy: str = "megatron_transient"
) -> list[str]:
    ends = ["--policy", policy, "--interval", str(interval_s), "--root", str(folder / "runs")]
    if launcher == "slurm":
        ends += ["--output", f"{folder}/job-%j.out"]
    return [*LASTBEAT, "supervise", "--run-id", "run", "--launcher", launcher, *ends, "--", *job]


def _started(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """It ends with ``with``."""
    (folder / "runs").mkdir(exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("LASTBEAT_", "SLURM_"))},
        "PYTHONPATH": f"{CHECKOUT}/core:{CHECKOUT}/cli",
        "LASTBEAT_STATE_DIR": str(folder / "state"),
        "LASTBEAT_RESTART_DELAY_SECONDS": "0",
        **more,
    }
    with (folder / "supervisor.log").open("wb") as said:
        return subprocess.Popen(list(command), cwd=folder, env=environment, stdout=said, stderr=said)


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"not so within {_LIMIT_S:g} s")
        time.sleep(0.05)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    # Its own, and that of the commands it ran.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _most_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000
