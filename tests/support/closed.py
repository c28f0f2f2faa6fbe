"""Folders and files that cannot be looked at, and who cannot look at them."""

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534

_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_CAPBSET_DROP, _VERSION_3 = 24, 0x20080522
"""Of the kernel's capabilities."""


def give_rights_away() -> None:
    """From now on this process and whatever it becomes is bound by the modes of files, as whoever is not root is."""
    if os.geteuid() != 0:
        return
    system = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    done = [system.prctl(_CAPBSET_DROP, right, 0, 0, 0) for right in (_DAC_OVERRIDE, _DAC_READ_SEARCH)]
    done.append(system.capget(header, rights))
    for place in (0, 1):
        # Those in force, and those that may be put in force.
        rights[place] &= ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH)
    done.append(system.capset(header, rights))
    assert not any(done), f"root's rights cannot be given away: {os.strerror(ctypes.get_errno())}"


def become(user: int) -> None:
    """Have this process of root's be that user's. Whatever it may import it has to have imported: it may not even read
    the standard library."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


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
