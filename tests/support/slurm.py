"""A real Slurm of several nodes on this machine, without systemd; everything of it lies in one folder."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import randrange

from support import slurmdbd
from support.waiting import LIMIT_S, until

WHY_NOT = (
    "slurmctld and munged are not installed: apt-get install slurm-wlm munge"
    if shutil.which("slurmctld") is None or shutil.which("munged") is None
    else "Slurm's daemons want root"
    if os.getuid()
    else None
)
"""Why none can be started here; None: it can."""
_START_S = LIMIT_S

_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge},cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
{accounting}\
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1,sched_interval=1
ReturnToService=1
JobRequeue=1
MinJobAge={forgets_s}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=2
CompleteWait=0
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=5
TCPTimeout=2
DefMemPerCPU=64
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=4096 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PreemptMode=REQUEUE
PartitionName=spare Nodes=ALL MaxTime=INFINITE State=UP PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
_NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none\n"


@contextmanager
def cluster(
    folder: Path, nodes: int = 3, *, accounting: bool = False, forgets_s: int = 300, prolog: Path | None = None
) -> Iterator[Path]:
    """A running cluster; yields its slurm.conf, for SLURM_CONF. ``folder`` needs a short path: sockets lie in it.

    ``accounting``: with slurmdbd, so that ``sacct`` answers. ``forgets_s``: how long the controller knows of a job that
    has ended; it looks for those to forget every so often. ``prolog`` is run on a node before a job's first process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # munged wants its socket to be within everybody's reach.
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    munge, key = folder / "munge.sock", folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    ports = _free_ports(nodes + 2)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text(
        _CONF.format(
            host=host,
            folder=folder,
            munge=munge,
            nodes=nodes,
            controller=ports[0],
            first=ports[2],
            last=ports[-1],
            forgets_s=forgets_s,
            accounting=slurmdbd.CLUSTER_LINES.format(port=ports[1], munge=munge) if accounting else _NO_ACCOUNTING,
        )
        + (f"Prolog={prolog}\n" if prolog is not None else "")
    )
    running: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], more: dict[str, str] | None = None) -> None:
        with (folder / f"{command[0]}.said").open("ab") as said:
            environment = {**os.environ, **(more or {})}
            running.append(
                subprocess.Popen(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment)
            )

    try:
        munged = ["munged", "--foreground", f"--key-file={key}", f"--socket={munge}", f"--pid-file={folder}/munged.pid"]
        start([*munged, f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"])
        until(munge.exists, bool, _START_S)
        if accounting:
            slurmdbd.begin(folder, host, ports[1], munge, start)
            slurmdbd.register(conf, "test")
        start(["slurmctld", "-D", "-f", str(conf)])
        for number in range(1, nodes + 1):
            start(["slurmd", "-D", "-N", f"n{number}", "-f", str(conf)])
        until(lambda: _idle(conf), lambda idle: idle == nodes, _START_S)
        yield conf
    finally:
        _end_jobs(conf)
        for daemon in reversed(running):
            # One that a test has suspended hears nothing else.
            daemon.send_signal(signal.SIGCONT)
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(running):
            _wait(daemon)


@contextmanager
def suspended(conf: Path, daemon: str) -> Iterator[None]:
    """``slurmctld`` or ``slurmdbd`` answers nobody meanwhile."""
    pid = int((conf.parent / f"{daemon}.pid").read_text(encoding="ascii"))
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _wait(daemon: "subprocess.Popen[bytes]") -> None:
    try:
        daemon.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _free_ports(count: int) -> list[int]:
    """Neighbouring ports below those that the kernel gives away."""
    for _ in range(200):
        first = randrange(20_000, 30_000)
        held: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
        return list(range(first, first + count))
    raise AssertionError("no free ports between 20000 and 30000")


def ask(conf: Path, *command: str) -> str:
    """One of Slurm's commands; "" if it failed."""
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _idle(conf: Path) -> int:
    return ask(conf, "sinfo", "-h", "-N", "-p", "main", "-o", "%T").split().count("idle")


def _end_jobs(conf: Path) -> None:
    ask(conf, "scancel", "--signal=KILL", "--full", "--me")
    ask(conf, "scancel", "--me")
    end = time.monotonic() + 15
    while ask(conf, "squeue", "-h").strip() and time.monotonic() < end:
        time.sleep(0.1)
