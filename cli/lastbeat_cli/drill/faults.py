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

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers.kubernetes.manifests import literal

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
    """Injects the faults that a launcher's jobs cannot cause themselves, and says how often to check on them.

    This base class serves any launcher whose jobs share folders with this machine.
    """

    requeues = False
    """Whether the scheduler itself restarts a preempted job, under the same id."""
    limited = False
    """Whether the scheduler can limit a job's memory."""
    python = "python3"
    """The Python interpreter of the jobs."""
    output = "{job_name}.log"
    """Name of the file for a job's output, in the launcher's notation."""
    pause_s = 1.0
    """Seconds between two checks; longer for a scheduler than for local processes."""
    interval_s = 5.0
    """Seconds between two passes of a supervisor."""
    stall_s = 20.0
    """Stall limit in seconds. On a shared file system a log may be seen some seconds late."""
    node_advice = (
        "give it a command that does, as --node-loss-command 'stop-machine {node}', and bring the node back afterwards"
    )
    """Advice to the user: how to take down a node of the drill's job."""

    def command(self, script: Path) -> tuple[str, ...]:
        """The command by which the launcher runs ``script``."""
        return ("/bin/sh", str(script))

    def options(self, scenario: str, given: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002 - for subclasses
        """The launcher's options for a job of ``scenario``, including those that the user gave."""
        return given

    def preempt(self, job: str, pid: int, script: Path) -> None:  # noqa: ARG002 - for subclasses
        """Preempt the job. Raises :class:`NotInjectedError`."""
        raise NotInjectedError("no job is preferred to another here")

    def named(self, name: str) -> tuple[str, ...]:  # noqa: ARG002 - for subclasses
        """Ids of all jobs with this name, read from the scheduler itself. Empty if a name is used only once."""
        return ()

    def why_no_node_is_lost(self, command: str | None) -> str | None:
        """Why no node can be taken down, or None if ``command`` does it."""
        return None if command is not None else f"a drill takes no node away by itself; {self.node_advice}"


class LocalSaboteur(Saboteur):
    """Injects faults into processes of this machine."""

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

    def why_no_node_is_lost(self, command: str | None) -> str | None:  # noqa: ARG002 - no command does it
        return "a local job has no node but this machine"


class SlurmSaboteur(Saboteur):
    """Injects faults into jobs of a Slurm cluster."""

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
        # The user's memory limit overrides the drill's, because the user knows what the cluster accepts.
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
    """Injects faults on a cluster without a shared folder: the job's script travels in its command."""

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
"""Launcher → its saboteur, for launchers whose traits alone do not decide it."""


def saboteur(launcher: str) -> Saboteur:
    """The saboteur for jobs of ``launcher``; launchers without their own get one by their traits."""
    plain = RemoteSaboteur() if launcher_traits(launcher).remote else Saboteur()
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
