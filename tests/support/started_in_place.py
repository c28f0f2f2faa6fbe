"""Commands that ``lastbeat exec --max-restarts`` starts again and again, and what became of each start."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from support.wrapped import left

WELL = 'print("step 90/100 loss 2.5", flush=True)'
"""What a start does that goes well."""


def by_start(*acts: str) -> tuple[str, ...]:
    """A command whose first start does the first of ``acts``, and so on; the last one is done by all that follow. Each
    leaves its number in the file ``starts``."""
    lines = ["import os, signal, subprocess, sys, time", 'n = int(os.environ["LASTBEAT_RESTARTS_IN_PLACE"])']
    lines += ['with open("starts", "a") as file: print(n, file=file)']
    for number, act in enumerate(acts):
        check = f"n == {number}" if number < len(acts) - 1 else "True"
        lines += [f"{'if' if number == 0 else 'elif'} {check}:", textwrap.indent(textwrap.dedent(act).strip(), "    ")]
    return (sys.executable, "-c", "\n".join(lines))


def starts(folder: Path) -> list[int]:
    """The numbers of those that have begun so far."""
    path = folder / "starts"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def document(folder: Path, name: str) -> dict[str, Any]:
    """A document of the run; empty while it is not there."""
    text = left(folder, name)
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
