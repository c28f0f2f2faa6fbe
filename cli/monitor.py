#!/usr/bin/env python3
"""``python cli/monitor.py --run-id X --once``: ``lastbeat watch`` from this checkout, installed or not."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# This checkout's own code comes before any installed one, whatever the current folder.
sys.path[:0] = [str(_HERE.parent / "core"), str(_HERE)]


def main() -> int:
    """Run ``watch`` and return its exit status."""
    if sys.version_info < (3, 10):  # noqa: UP036 - an older Python gets this far, and needs a message
        print(f"Error: lastbeat needs Python 3.10 or newer; this is {sys.version.split()[0]}", file=sys.stderr)
        return 3
    try:
        from lastbeat_cli import frame  # noqa: PLC0415 - a missing library must end in a plain message
        from lastbeat_cli.watch.command import command  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        print(
            f"Error: the Python package {missing.name!r} is not installed for {sys.executable}; run 'make demo' in "
            f"{_HERE.parent} once and use .venv/bin/python, or 'pip install {_HERE.parent}'",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        return 130
    return frame.run(command, sys.argv[1:], "monitor.py")


if __name__ == "__main__":
    sys.exit(main())
