"""Slurm's commands as far as an agent asks them about jobs that wait or run, without a cluster: each call is noted."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = """\
#!{python} -S
import sys
sys.path.insert(0, {support!r})
from fake_slurm import answer
answer({folder!r}, sys.argv)
"""
_CONFIG = "ClusterName             = test\nSlurmctldHost[0]        = head\n"
PLACE = f"test@head uid {os.getuid()}"
"""What a launcher calls this cluster."""


@dataclass(frozen=True)
class FakeSlurm:
    """The commands lie in ``folder``, which belongs on the PATH."""

    folder: Path

    def install(self) -> None:
        """Put squeue and scontrol there, for a cluster without jobs."""
        self.folder.mkdir()
        self.show()
        text = _PROGRAM.format(python=sys.executable, support=str(Path(__file__).parent), folder=str(self.folder))
        for name in ("squeue", "scontrol"):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)

    def show(self, *jobs: dict[str, str]) -> None:
        """Let squeue list ``jobs``: column → value, as --Format names it."""
        (self.folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")

    def calls(self, *program: str) -> list[list[str]]:
        """The arguments of the calls so far that begin with ``program``."""
        path = self.folder / "calls.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        calls: list[list[str]] = [json.loads(line) for line in lines]
        return [call for call in calls if call[: len(program)] == list(program)]


def job(number: int, state: str = "RUNNING", **more: str) -> dict[str, str]:
    """One job as squeue lists it."""
    return {
        "JobID": f"{number}", "JobArrayID": f"{number}", "State": state, "Reason": "None", "RestartCnt": "0",
        "StartTime": "2026-11-22T18:44:05", "NodeList": "n1", "BatchHost": "n1", "UserName": "ada",
        "STDOUT": f"/scratch/{number}.log", "Name": f"run-{number}-r0", **more,
    }  # fmt: skip


def answer(folder: str, arguments: list[str]) -> None:
    """Be the command that ``arguments`` call."""
    program, *given = [Path(arguments[0]).name, *arguments[1:]]
    with Path(folder, "calls.jsonl").open("a", encoding="utf-8") as calls:
        calls.write(json.dumps([program, *given]) + "\n")
    if program == "scontrol":
        if given[:2] == ["show", "config"]:
            sys.stdout.write(_CONFIG)
            return
        sys.exit("scontrol_print_job error: Invalid job id specified")
    said = dict(each.partition("=")[::2] for each in given)
    asked = set(said["--jobs"].split(","))
    columns = [each.partition(":")[::2] for each in said["--Format"].split(",")]
    if "--clusters" in said:
        sys.stdout.write(f"CLUSTER: {said['--clusters']}\n")
    for each in json.loads(Path(folder, "jobs.json").read_text(encoding="utf-8")):
        if each["JobID"] in asked:
            sys.stdout.write("".join(f"{each[name]}{suffix}" for name, suffix in columns) + "\n")
