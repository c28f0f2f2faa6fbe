"""A little training that makes some steps and, in its first start, hangs or crashes: FOLDER HOW WHAT. It tells in
FOLDER when it begins, makes its first step, hangs, and is asked to end."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

STEPS, EACH_S, HANGS_AT = 40, 0.05, 20


def tell(folder: Path, what: str) -> None:
    with (folder / "events").open("a") as events:
        events.write(json.dumps([what, time.time()]) + "\n")


def steps_of(how: str, stack: ExitStack) -> Callable[[int], None]:
    """What says that a step is made."""
    if how == "sdk":
        import lastbeat  # noqa: PLC0415 - only where it is measured

        return stack.enter_context(lastbeat.run()).step
    if how == "nvrx":
        from nvidia_resiliency_ext.fault_tolerance import (  # type: ignore[import-not-found] # noqa: PLC0415 - as above
            RankMonitorClient,
        )

        client = RankMonitorClient()
        client.init_workload_monitoring()
        return lambda _step: client.send_heartbeat()
    return lambda step: print(f"step {step}/{STEPS} loss 2.5", flush=True)


def main() -> None:
    folder, how, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    first = not (folder / "events").exists()
    tell(folder, "begin")

    def asked(*_: object) -> None:
        tell(folder, "asked")
        if what != "deaf":
            os._exit(1)

    signal.signal(signal.SIGTERM, asked)
    with ExitStack() as stack:
        step_made = steps_of(how, stack)
        for step in range(STEPS):
            time.sleep(EACH_S)
            step_made(step)
            if step == 0:
                tell(folder, "step")
            if first and step == HANGS_AT:
                tell(folder, "over")
                if what == "crash":
                    sys.exit("RuntimeError: NCCL error: unhandled system error")
                while True:
                    time.sleep(60)


if __name__ == "__main__":
    main()
