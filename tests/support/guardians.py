"""The guardians of trainings that a test has started."""

import os
from pathlib import Path


def guardians(folder: Path) -> list[int]:
    """The processes, reports that they write among them, of trainings whose home is ``folder``."""
    mine = f"HOME={folder}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if b"guardian/__main__.py" in command and mine in environment.split(b"\0") and not _is_shell(process):
            found.append(int(process.name))
    return found


def _is_shell(process: Path) -> bool:
    """Whether it only starts one."""
    try:
        return (process / "comm").read_text().strip() in {"sh", "dash", "bash"}
    except OSError:
        return True


def resident_bytes(process: int) -> int:
    """What it has in memory."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
