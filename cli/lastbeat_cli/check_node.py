"""``check-node``: check whether a job may start on this node."""

from typing import Final

import click

from lastbeat.training.node.checking import check_node
from lastbeat_cli import exits, options
from lastbeat_cli.document import tell_checks

EPILOG = """\
Exit status:
  0  the node is fine
  1  the node may be used, but there are warnings
  2  do not use the node
  3  wrong arguments

Examples:
  lastbeat check node
  lastbeat check node --gpus 8 --path /scratch --path /dev/shm
  lastbeat check node --json | jq '.checks[] | select(.word != "ok")'

This command is read-only and needs neither root nor a fleet. A Slurm prolog has no PATH:
/opt/lastbeat/bin/lastbeat check node --prolog --gpus 8
"""
_PATHS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - nothing is written there


@click.command("check-node", cls=options.Grouped, epilog=EPILOG)
@options.option("--gpus N", "Required number of GPUs [all detected].", type=click.IntRange(0, 64))
@options.option("--path DIR", "A file system that the job writes to; may be repeated.", name="paths", multiple=True)
@options.option(
    "--wait SECONDS",
    "Longest time for NVIDIA's driver to answer [30].",
    name="wait_s",
    type=options.DurationRange(1, 600),
    default=30.0,
)
@options.option("--prolog", "Exit with 0 on warnings, because Slurm drains a node for any other status of a prolog.")
@options.form
def command(*, gpus: int | None, paths: tuple[str, ...], wait_s: float, prolog: bool, as_json: bool) -> int:
    """Check this node before a job starts on it: GPUs, their errors in the kernel log, memory, disks and network.

    Prints one line for each check, with the remedy.
    """
    status = tell_checks(check_node(gpus, (*_PATHS, *paths), wait_s), as_json=as_json)
    return exits.OK if prolog and status == exits.WARNING else status
