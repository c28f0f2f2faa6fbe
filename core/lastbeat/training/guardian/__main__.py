"""The guardian's process, started by ``start.py`` as a script: ``python -I -S …/guardian/__main__.py``.

Standard input is the socket that training's processes connect to. No other descriptor of training stays open.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
_NAME = "lastbeat-guard"


def _detach() -> None:
    """Detach from training: ignore signals, leave its children, and close its files."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if sys.argv[1:] != ["detached"]:
        # Training must not find a child that it did not start when it waits for its own. If no process can be forked,
        # this one stays a child.
        with suppress(OSError):
            if os.fork():
                os._exit(0)
    os.chdir("/")
    # Libraries open files without the flag that closes them here: GPUs, logs, locks.
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with suppress(OSError):
                os.close(descriptor)
    # Its name in `ps` and `killall`.
    with suppress(OSError):
        Path("/proc/self/comm").write_text(_NAME, "ascii")


def _main() -> None:
    _detach()
    here = Path(__file__).absolute().parent
    # The parent folder of lastbeat replaces this folder, whose modules must not be importable by their short names.
    sys.path[:] = [str(here.parent.parent.parent), *(entry for entry in sys.path if entry != str(here))]
    from lastbeat.training.guardian.watch import serve  # noqa: PLC0415 - only now it can be found

    serve(0)


if __name__ == "__main__":
    _main()
