"""The actions and questions of a drill that differ between launchers."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from lastbeat.launchers import registry
from lastbeat.launchers.kubernetes.manifests import literal

_CALL_S: Final = 60.0
_LOSS_S: Final = 300.0
"""Longest time, in seconds, that the command for node loss may take."""
_REQUEUED: Final = ("--requeue",)
# A job that Slurm requeues by itself does not end with its node.
_OF_SCENARIOS: Final = {"oom": (*_REQUEUED, "--mem=512M"), "node_lost": ("--no-requeue",)}
_IMAGE: Final = "python:3.12-slim"
"""Image of the drill's pods."""
_MINUTES: Final = "--time=20"


class NotInjectedError(Exception):
    """The fault cannot be injected here, so the scenario is skipped. ``str()`` says why."""


class Saboteur:
    """How a launcher's jobs are drilled: the faults that they cannot make themselves, and how often to look. As it is,
    it serves a launcher that shares folders with this machine and of which a drill knows nothing more."""

    requeues = False
    """Whether a preempted job is started again by the scheduler itself, under the same id."""
    limited = False
    """Whether a job's memory may be limited by the scheduler."""
    python = "python3"
    """The Python of the jobs."""
    output = "{job_name}.log"
    """Name of the file for a job's output, in the launcher's notation."""
    pause_s = 1.0
    """Between two looks: a scheduler is asked less often."""
    interval_s = 5.0
    """Between two passes of a supervisor."""
    stall_s = 20.0
    """The limit on standing still. A log on a file system that machines share may be seen some seconds late."""
    node_advice = (
        "give it a command that does, as --node-loss-command 'stop-machine {node}', and bring the node back afterwards"
    )
    """How a node is lost that a job of the drill runs on."""

    def command(self, script: Path) -> tuple[str, ...]:
        """How ``script`` is named to the launcher."""
        return ("/bin/sh", str(script))

    def options(self, scenario: str, given: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002 - some differ by it
        """The launcher's options for a job of ``scenario``, with those that the user gave."""
        return given

    def preempt(self, job: str, pid: int, script: Path) -> None:  # noqa: ARG002 - some need them
        """What happens to a job that another one is preferred to. Raises :class:`NotInjectedError`."""
        raise NotInjectedError("no job is preferred to another here")

    def named(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 - a name is used once, but for Slurm's
        """Ids of all jobs that have this name, as far as the launcher itself may not be believed about it."""
        return ()

    def why_no_node_is_lost(self, command: str | None) -> str | None:
        """Why no node can be taken away, or None if ``command`` does."""
        return None if command is not None else f"a drill takes no node away by itself; {self.node_advice}"


class LocalSaboteur(Saboteur):
    """Of processes of this machine."""

    python = sys.executable
    pause_s = 0.1
    interval_s = 0.5
    stall_s = 4.0

    def preempt(self, job: str, pid: int, script: Path) -> None:
        with suppress(OSError):
            # Another process may have this pid by now.
            if str(script).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGTERM)
                return
        raise NotInjectedError(f"process {pid} of job {job} is not there")

    def why_no_node_is_lost(self, command: str | None) -> str | None:  # noqa: ARG002 - none does
        return "a local job has no node but this machine"


class SlurmSaboteur(Saboteur):
    """Of a cluster of Slurm."""

    requeues = True
    limited = True
    output = "{job_name}-%j.log"
    node_advice = (
        "give it a command that does, as --node-loss-command 'ssh {node} systemctl stop slurmd', and bring the node "
        "back afterwards"
    )

    def command(self, script: Path) -> tuple[str, ...]:
        return (str(script),)

    def options(self, scenario: str, given: tuple[str, ...]) -> tuple[str, ...]:
        asked = ["--open-mode=append", *_OF_SCENARIOS.get(scenario, _REQUEUED)]
        if not any(each.startswith(("--time", "-t")) for each in given):
            asked.append(_MINUTES)
        # A user who names a limit of memory knows what the cluster takes.
        kept = (
            each for each in asked if not (each.startswith("--mem") and any(its.startswith("--mem") for its in given))
        )
        return (*kept, *given)

    def preempt(self, job: str, pid: int, script: Path) -> None:  # noqa: ARG002 - as of Saboteur
        _call("scontrol", "requeue", job)

    def named(self, name: str) -> tuple[str, ...]:
        told = _call("squeue", "--noheader", "--states=all", "--me", f"--name={name}", "--format=%A")
        return tuple(dict.fromkeys(told.split()))


class RemoteSaboteur(Saboteur):
    """Of a cluster that shares no folder with this machine: the job's script travels with its command."""

    def __init__(self, node_advice: str = Saboteur.node_advice) -> None:
        self.node_advice = node_advice

    def command(self, script: Path) -> tuple[str, ...]:
        return ("sh", "-c", script.read_text(encoding="utf-8"), script.name)


class KubernetesSaboteur(RemoteSaboteur):
    """Injects faults on a Kubernetes cluster: the script stands in a manifest."""

    def command(self, script: Path) -> tuple[str, ...]:
        said = literal(script.read_text(encoding="utf-8"))
        container = {"name": "train", "image": _IMAGE, "command": ["sh", "-c", said, script.name]}
        pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"backoffLimit": 0, "template": pod}
        manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "drill"}, "spec": spec}
        path = script.with_suffix(".manifest.json")
        path.write_text(json.dumps(manifest), encoding="utf-8")
        return (str(path),)


_SABOTEURS: Final[Mapping[str, Saboteur]] = {
    "kubernetes": KubernetesSaboteur(
        "as --node-loss-command 'stop-machine {node}', and bring the node back afterwards"
    ),
    "local": LocalSaboteur(),
    "ray": RemoteSaboteur(
        "give it a command that does, as --node-loss-command 'lose-node {node}', and resources that only workers have, "
        """as --option=--entrypoint-resources='{"worker": 1}': without any, a job runs on the head"""
    ),
    "ray-pod": RemoteSaboteur("the jobs run in the head's pod, and with it the cluster is lost"),
    "slurm": SlurmSaboteur(),
}
"""By launcher, where a drill knows more of it than its traits."""


def saboteur(launcher: str) -> Saboteur:
    """What drills the jobs of ``launcher``."""
    plain = RemoteSaboteur() if registry.traits(launcher).remote else Saboteur()
    return _SABOTEURS.get(launcher, plain)


def lose(node: str, command: str) -> None:
    """Take ``node`` down by ``command``, run without a shell. Raises :class:`NotInjectedError`."""
    _call(*(each.replace("{node}", node) for each in shlex.split(command)), limit_s=_LOSS_S)


def _call(*command: str, limit_s: float = _CALL_S) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's command or Slurm's own, as a list
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInjectedError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise NotInjectedError(f"{command[0]} ended with {done.returncode}: {said[-1][:300] if said else 'no word'}")
    return done.stdout[:100_000]
