"""``check-node``: check whether a job may start on this node."""

import sys
from dataclasses import asdict
from typing import Final

import click

from lastbeat.model.text import one_line
from lastbeat.training.node.checking import NodeCheck, NodeNeeds, check_node
from lastbeat_cli import exits, options
from lastbeat_cli.document import dump

EPILOG = """\
\b
Exit status:
  0  the node is fine
  1  the node may be used, but there are warnings
  2  do not use the node
  3  wrong arguments

\b
Examples:
  lastbeat check node
  lastbeat check node --gpus 8 --path /scratch --path /dev/shm
  lastbeat check node --json | jq '.checks[] | select(.word != "ok")'

This command is read-only and needs neither root nor a fleet. A Slurm prolog has no PATH:
/opt/lastbeat/bin/lastbeat check node --prolog --gpus 8
"""
_PATHS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - nothing is written there


@click.command("check-node", cls=options.Grouped, epilog=EPILOG)
@options.option("--gpus", type=click.IntRange(0, 64), metavar="N", help="Required number of GPUs [all detected].")
@options.option(
    "--path", "paths", multiple=True, metavar="DIR", help="A file system that the job writes to; may be repeated."
)
@options.option(
    "--wait",
    "wait_s",
    type=options.DurationRange(1, 600),
    default=30.0,
    metavar="SECONDS",
    help="Longest time for NVIDIA's driver to answer [30].",
)
@options.option(
    "--prolog",
    is_flag=True,
    help="Exit with 0 on warnings, because Slurm drains a node for any other status of a prolog.",
)
@options.form
def command(*, gpus: int | None, paths: tuple[str, ...], wait_s: float, prolog: bool, as_json: bool) -> int:
    """Check this node before a job starts on it: GPUs, their errors in the kernel log, memory, disks and network.

    Prints one line for each check, with the remedy.
    """

    made: list[NodeCheck] = []
    for check in check_node(NodeNeeds(gpus, (*_PATHS, *paths)), wait_s):
        made.append(check)
        if not as_json:
            remedy = f" → {check.remedy}" if check.remedy else ""
            print(f"{check.word:<4}  {one_line(f'{check.name}: {check.detail}{remedy}')}", flush=True)
    if as_json:
        print(dump({"checks": [asdict(check) for check in made]}))
    sys.stdout.flush()
    words = {check.word for check in made}
    if "fail" in words:
        return exits.CRITICAL
    return exits.WARNING if "warn" in words and not prolog else exits.OK
