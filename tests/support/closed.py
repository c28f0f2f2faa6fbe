"""Folders and files that cannot be looked at, and who cannot look at them."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534

# A process of root's may look at everything, unless it gives that right away, for itself and whatever it becomes.
_GIVE_AWAY = """
import ctypes, os, sys
if os.geteuid() == 0:
    system = ctypes.CDLL(None, use_errno=True)
    for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if system.prctl(24, right, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            sys.exit(f"root's rights cannot be given away: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
"""
BOUND = [sys.executable, "-c", _GIVE_AWAY]
"""What stands before a command makes it bound by the modes of files, as whoever is not root is anyway."""


@contextmanager
def closed(path: Path) -> Iterator[None]:
    """Nobody may look into ``path``, not even whoever may do everything."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        with as_nobody():
            yield
    finally:
        path.chmod(mode)


@contextmanager
def as_nobody() -> Iterator[None]:
    """This process has no rights of root's while the block lasts."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@contextmanager
def open_place() -> Iterator[Path]:
    """A new folder that everybody may look into, as pytest's own ones are not."""
    place = Path(tempfile.mkdtemp(prefix="lastbeat-test-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        for folder, _, _ in os.walk(place, onerror=lambda fault: Path(fault.filename).chmod(0o700)):
            Path(folder).chmod(0o700)
        shutil.rmtree(place)


# Whoever one becomes may not even read the standard library, so all that may be imported is imported before.
_BECOME = """
import importlib, os, pkgutil, sys
import lastbeat, lastbeat_cli
for package in (lastbeat, lastbeat_cli):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".integrations" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
for encoding in ("utf-8-sig", "idna"):
    "".encode(encoding)
user = int(sys.argv.pop(1))
os.setgroups([])
os.setgid(user)
os.setuid(user)
from lastbeat_cli.main import main
sys.exit(main())
"""


def lastbeat_as(user: int) -> list[str]:
    """The command line as ``user``, for root."""
    return [sys.executable, "-c", _BECOME, str(user)]
