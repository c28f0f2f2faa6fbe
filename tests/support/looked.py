"""One run as people look at it in depth, in a store in memory."""

from collections.abc import Callable
from typing import Any

from lastbeat.model.view import RunView
from lastbeat.stores.port import DeniedError, StoreError
from lastbeat.views.one_run import RunWatch
from support.world import RUN, World

LOG = "logs/training_log_latest.txt"
STEPS = "".join(f"step {number}/1000 loss 2.5\n" for number in range(1, 101))
OOM = (
    "Traceback (most recent call last):\n"
    '  File "/opt/train.py", line 7, in <module>\n'
    "    loss.backward()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def view_of(world: World, **options: Any) -> RunView:
    found = RunWatch(world.store, world.policy, RUN, **options).look()
    assert found is not None
    return found


def failed(world: World) -> None:
    """It ran, was seen, and died of what its log shows."""
    world.both(100)
    world.look()
    world.after(60)
    world.put(LOG, STEPS + OOM)
    world.error(OOM)
    world.look()


def refuse(*names: str, error: type[StoreError] = DeniedError) -> Callable[[str, str], None]:
    def before(operation: str, key: str) -> None:
        if operation == "read" and key.removeprefix(f"{RUN}/") in names:
            raise error(f"{key} may not be read")

    return before
