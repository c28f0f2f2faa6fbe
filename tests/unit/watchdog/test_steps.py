"""A tick is what its picture says: observe, decide, explain, record, carry out, settle, in this order and no other."""

import sys
import threading
from itertools import groupby

import pytest

from lastbeat.alerts.port import Receipt
from lastbeat.model.alert import Message
from lastbeat.watch import watchdog
from lastbeat.watch.decide.transition import decide
from lastbeat.watch.record.silences import Silences
from support.growing import LoggedWorld
from support.memory import MemoryStore

STEPS = {
    "_observe": "observe",
    "decide": "decide",
    "_explain": "explain",
    "_record": "record",
    "carry_out": "carry out",
    "_settle": "settle",
}
CRASH = (
    "step 7/1000 loss 2.5\n"
    "Traceback (most recent call last):\n"
    '  File "train.py", line 210, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


class Traced:
    """Which step of the tick each call of a store, of the state and of a channel comes from."""

    def __init__(self, world: LoggedWorld) -> None:
        self.calls: list[tuple[str, str]] = []
        for name, store in (("store", world.store), ("state", world.state)):
            self._watch(name, store)
        self._send = world.channel.send
        world.channel.send = self._sent  # type: ignore[method-assign]

    def _watch(self, name: str, store: MemoryStore) -> None:
        store.before = lambda operation, _key: self.calls.append((self._step(), f"{name} {operation}"))

    def _sent(self, message: Message, receipt: Receipt | None = None) -> Receipt | None:
        # Sent on a thread of the channel's own, which begins in the step that waits for it.
        self.calls.append(("carry out", "send"))
        return self._send(message, receipt)

    def _step(self) -> str:
        if threading.current_thread() is not threading.main_thread():
            # Only what settles makes its requests on threads, to give up those that hang.
            return "settle"
        frame = sys._getframe()
        while frame is not None:
            code = frame.f_code
            if code is decide.__code__:
                return "decide"
            if code.co_filename == watchdog.__file__ and code.co_name in STEPS:
                return STEPS[code.co_name]
            frame = frame.f_back  # type: ignore[assignment]
        return "none"

    @property
    def order(self) -> list[str]:
        return [step for step, _ in groupby(self.calls, key=lambda call: call[0])]


@pytest.mark.parametrize(
    ("deed", "order"),
    [
        pytest.param("beat", ["observe", "record", "settle"], id="the first look writes its record"),
        pytest.param("nothing", ["observe", "settle"], id="a healthy run is only looked at"),
        pytest.param(
            "crash", ["observe", "explain", "record", "carry out", "settle"], id="a failure is explained and told"
        ),
        pytest.param("hang", ["observe", "explain", "record", "carry out", "settle"], id="so is a silence"),
    ],
)
@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_every_call_comes_from_its_step_and_the_steps_from_first_to_last(
    deed: str, order: list[str], restarted: bool
) -> None:
    world = LoggedWorld()
    world.beat()
    world.write("step 6/1000 loss 2.6\n")
    world.options["silences"] = Silences(world.store)
    if deed != "beat":
        world.look()
    if deed == "crash":
        world.after(30)
        world.write(CRASH)
        world.error(CRASH)
    elif deed == "hang":
        world.put("logs/stacks.txt", 'Thread 1 "MainThread":\n  train.py:7 step\n')
        world.after(1200)
    traced = Traced(world)
    world.look(restarted=restarted)
    assert traced.order == order
    assert "decide" not in traced.order, "deciding touches nothing"
