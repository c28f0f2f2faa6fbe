"""A torchrun that loads torch once for all its ranks: ``forked.py RANKS SCRIPT ARGUMENT…``.

The agent is torchrun's own, with its rendezvous, its environment and its way to end ranks. They are forks of it, where
torchrun starts a Python for each, which keeps a core busy for seconds with loading torch.
"""

import runpy
import signal
import sys
import uuid

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def rank(script: str, *arguments: str) -> None:
    """What a rank runs, as if Python had been started with it."""
    # The agent's handlers are its own.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def main(ranks: int, script: str, *arguments: str) -> None:
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, rank)(script, *arguments)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
