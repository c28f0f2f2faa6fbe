"""Compiles tests before several workers start: else each of them would compile all of them, at the same time."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

_WORTH_IT: Final = 50
"""From this many files on it takes longer to compile them in each worker than to start further processes."""


def compile_tests(places: Iterable[str], processes: int) -> None:
    """Have pytest collect the files below ``places`` that it has not compiled yet, in ``processes`` at a time.

    Does nothing if these are few, or Python is to write no bytecode. What is wrong in a file, each worker says.
    """
    files = [] if sys.dont_write_bytecode else sorted(_uncompiled(places))
    if len(files) < _WORTH_IT:
        return
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0", "-p", "no:cacheprovider"]
    begun = [
        subprocess.Popen([*collect, *files[number::processes]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(processes)
    ]
    for each in begun:
        each.wait()


def _uncompiled(places: Iterable[str]) -> Iterator[str]:
    ending = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    for place in places:
        path = Path(place.partition("::")[0])
        for file in path.rglob("test_*.py") if path.is_dir() else [path]:
            if not (file.parent / "__pycache__" / f"{file.stem}{ending}").exists():
                yield str(file)
