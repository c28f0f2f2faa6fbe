"""What takes long to make is made by one worker of a test run, and looked at by all of them."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder in which ``make`` has been at work, by whichever worker came first; nobody changes it afterwards."""
    own = factory.getbasetemp()
    whole = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, done = whole / name, whole / f"{name}.done"
    with (whole / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
