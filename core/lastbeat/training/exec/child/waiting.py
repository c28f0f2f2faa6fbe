"""Finds where the processes of a command hang: Python's stacks by py-spy, if that is installed, and the kernel's
information about the others.

Nothing here stops a process or waits for one. py-spy only reads memory (``--nonblocking``), for a limited time. Only
files of /proc are read that need no lock of a process's memory map, because a reader of ``cmdline`` or ``maps`` of a
stuck process would hang at that lock as well.
"""

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 32 * 1024
MOST_PROCESSES: Final = 64
_MOST_THREADS: Final = 16
_MOST_PYTHONS: Final = 8
_MOST_FRAMES: Final = 48
_TREE_LINES: Final = 5
_READ_BYTES: Final = 4096
_PY_SPY_BYTES: Final = 256 * 1024
_EACH_S: Final = 3.0
"""Time limit in s of py-spy for one process; it usually takes a tenth of a second."""
_ALL_S: Final = 6.0
_NAME_LIMIT: Final = 60
_LINE_LIMIT: Final = 200
_PROC: Final = Path("/proc")
_STATES: Final = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep (a disk, a network file system or a driver)",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "dead, and its parent has not taken note",
    "I": "idle",
}
# Number → name of system calls on x86_64, the only relevant architecture with numbers of its own.
_CALLS: Final = {
    0: "read", 1: "write", 7: "poll", 17: "pread64", 23: "select", 35: "nanosleep", 42: "connect", 43: "accept",
    45: "recvfrom", 47: "recvmsg", 61: "wait4", 74: "fsync", 202: "futex", 230: "clock_nanosleep", 232: "epoll_wait",
    247: "waitid", 257: "openat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
}  # fmt: skip
_PYTHON: Final = re.compile(r"python[\d.]*")
_THREAD: Final = re.compile(r"Thread (?:0x)?[0-9A-Fa-f]{1,16} \([^)]{0,60}\)(?:: \"(?P<name>.{0,200})\")?")
_FRAME: Final = re.compile(r"\s{2,12}(?P<function>\S.{0,200}) \((?P<file>[^()]{1,400}?)(?::(?P<line>\d{1,9}))?\)")
_KERNEL: Final = re.compile(r"\[<\w{1,20}>\] (?P<function>[\w.]{1,80})\+")
_HARMFUL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class WaitingThread:
    """A thread, or a process by its main thread, and the place where it waits."""

    number: int
    name: str
    state: str
    waits_in: str = ""
    """The kernel's function and the system call, as far as known."""
    kernel_frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.number} {self.name}: {self.state}{f' in {self.waits_in}' if self.waits_in else ''}"


@dataclass(frozen=True, slots=True)
class WaitingProcess:
    """One process of the command."""

    main: WaitingThread
    depth: int
    leaf: bool
    """Whether it has no children."""
    is_python: bool
    threads: tuple[WaitingThread, ...] = ()
    """Further threads."""


def dump_waiting(
    root: int, numbers: Collection[int], head: str, processes: Path = _PROC, py_spy: str | None = None
) -> bytes:
    """Where the process ``root`` and its descendants ``numbers`` hang, below the line ``head``; at most
    ``LIMIT_BYTES``, laid out as ``sdk.stacks`` does. Its first block is for alerts: the tree of processes, then the
    innermost frames of the one that the others wait for. ``py_spy`` is its path, if not that of PATH. Never raises."""
    tree = _tree(root, numbers, processes)
    stacks = _python_stacks(tree, py_spy or shutil.which("py-spy"))
    blocks = [head[:_LINE_LIMIT], _first_block(tree, stacks)]
    for process in tree:
        blocks += stacks.get(process.main.number, ()) or _kernel_blocks(process)
    kept, room = list[str](), LIMIT_BYTES - 200
    for index, block in enumerate(blocks):
        room -= len(block.encode("utf-8", "replace")) + 2
        if room < 0:
            kept.append(f"… and {len(blocks) - index} more threads")
            break
        kept.append(block)
    return ("\n\n".join(kept) + "\n").encode("utf-8", "replace")


def _first_block(tree: Sequence[WaitingProcess], stacks: dict[int, list[str]]) -> str:
    """The block for alerts. It shows the first leaf with a stack, which is mostly rank 0."""
    leaves = [process for process in tree if process.leaf] or list(tree)
    shown = next((process for process in leaves if stacks.get(process.main.number)), leaves[0] if leaves else None)
    lines = [f"  {'  ' * process.depth}{process.main}"[:_LINE_LIMIT] for process in tree[:_TREE_LINES]]
    if len(tree) > _TREE_LINES:
        lines[-1] = f"  … and {len(tree) - _TREE_LINES + 1} more processes"
    if shown is None:
        return 'Thread "the command", which has ended:'
    own = stacks.get(shown.main.number, [])
    frames = own[0].split("\n")[1:] if own else [f"  {name} (in the kernel)" for name in shown.main.kernel_frames[::-1]]
    title = f'Thread "{shown.main.name} {shown.main.number}" (main), most recent call last, after all processes:'
    return "\n".join((title, *lines, *frames[-(12 - len(lines)) :]))


def _kernel_blocks(process: WaitingProcess) -> Iterator[str]:
    for thread in (process.main, *process.threads):
        frames = (f"  {name} (in the kernel)" for name in thread.kernel_frames[::-1])
        yield "\n".join((f'Thread "{thread.name} {thread.number}":', f"  {thread}"[:_LINE_LIMIT], *frames))


# Information from Linux.


def _tree(root: int, numbers: Collection[int], processes: Path) -> list[WaitingProcess]:
    """``root`` first, then every process below its parent."""
    parents = {number: _parent(number, processes) for number in sorted({root, *numbers})[: 4 * MOST_PROCESSES]}
    below: dict[int, list[int]] = {}
    for number, parent in parents.items():
        if number != root and parent is not None:
            below.setdefault(parent, []).append(number)
    found, waiting, seen = list[WaitingProcess](), [(root, 0)], set[int]()
    while waiting and len(found) < MOST_PROCESSES:
        number, depth = waiting.pop()
        main = _thread(number, processes / str(number))
        # Process ids are reused while we read, which may make a cycle.
        if number in seen or main is None:
            continue
        seen.add(number)
        children = below.get(number, [])
        waiting += [(child, depth + 1) for child in reversed(children)]
        found.append(
            WaitingProcess(main, depth, not children, _is_python(number, processes), _threads(number, processes))
        )
    return found


def _threads(number: int, processes: Path) -> tuple[WaitingThread, ...]:
    folder = processes / str(number) / "task"
    try:
        names = [name for name in os.listdir(folder) if name.isascii() and name.isdigit()]  # noqa: PTH208 - names
    except OSError:
        return ()
    others = sorted(int(name) for name in names if int(name) != number)[:_MOST_THREADS]
    found = (_thread(other, folder / str(other)) for other in others)
    return tuple(thread for thread in found if thread is not None)


def _thread(number: int, folder: Path) -> WaitingThread | None:
    stat = _read(folder / "stat")
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    if not fields:
        return None
    kernel = tuple(found["function"] for found in _KERNEL.finditer(_read(folder / "stack")))[:_TREE_LINES]
    state = _STATES.get(fields[0], fields[0][:1])
    waits_in = "" if fields[0] == "R" else _waits_in(folder)
    return WaitingThread(number, _HARMFUL.sub("?", name)[:_NAME_LIMIT], state, waits_in, kernel)


def _waits_in(folder: Path) -> str:
    place = _HARMFUL.sub("", _read(folder / "wchan"))[:_NAME_LIMIT]
    call = _read(folder / "syscall").partition(" ")[0]
    name = _CALLS.get(int(call)) if call.isascii() and call.isdigit() and os.uname().machine == "x86_64" else None
    parts = [place if place not in {"", "0"} else "", f"(system call {name})" if name else ""]
    return " ".join(part for part in parts if part)


def _parent(number: int, processes: Path) -> int | None:
    fields = _read(processes / str(number) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else None


def _is_python(number: int, processes: Path) -> bool:
    try:
        program = str((processes / str(number) / "exe").readlink())
    except OSError:
        return False
    return _PYTHON.fullmatch(program.removesuffix(" (deleted)").rpartition("/")[2]) is not None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


# Information from py-spy.


def _python_stacks(tree: Sequence[WaitingProcess], py_spy: str | None) -> dict[int, list[str]]:
    """Process → its threads' stacks, the main thread's first. Leaves come first: parents mostly wait for them."""
    if py_spy is None:
        return {}
    until = time.monotonic() + _ALL_S
    pythons = sorted((process for process in tree if process.is_python), key=lambda process: not process.leaf)
    found = {}
    for process in pythons[:_MOST_PYTHONS]:
        number = process.main.number
        printed = _printed(
            [py_spy, "dump", "--nonblocking", "--pid", str(number)], min(until, time.monotonic() + _EACH_S)
        )
        found[number] = _blocks(printed, number)
    return found


def _printed(command: Sequence[str], until: float) -> str:
    """The bounded output of ``command`` until then; empty if it cannot be run."""
    if time.monotonic() >= until:
        return ""
    try:
        process = subprocess.Popen(  # noqa: S603 - our own words
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return ""
    pipe, taken = process.stdout.fileno() if process.stdout is not None else -1, bytearray()
    try:
        while len(taken) < _PY_SPY_BYTES:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([pipe], [], [], left_s)[0]:
                break
            chunk = os.read(pipe, _PY_SPY_BYTES)
            if not chunk:
                break
            taken += chunk
    finally:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        # A process that is stuck in the kernel is abandoned.
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    return taken.decode("utf-8", "replace")


def _blocks(printed: str, number: int) -> list[str]:
    """py-spy's threads, which it prints innermost frame first, as Python prints tracebacks."""
    found: list[tuple[bool, str, list[str]]] = []
    for line in printed.split("\n"):
        thread = _THREAD.match(line)
        if thread is not None:
            name = _HARMFUL.sub("?", thread["name"] or "")[:_NAME_LIMIT]
            found.append((name != "MainThread", name, []))
            continue
        frame = _FRAME.fullmatch(line)
        if frame is not None and found and len(found[-1][2]) < _MOST_FRAMES:
            file, function = (_HARMFUL.sub("?", frame[part]) for part in ("file", "function"))
            found[-1][2].append(
                f'  File "{file[-_LINE_LIMIT:]}", line {frame["line"] or 0}, in {function[:_LINE_LIMIT]}'
            )
    found.sort(key=lambda thread: thread[0])
    return [
        "\n".join((f'Thread "{name}" of process {number}, most recent call last:', *reversed(frames)))
        for _, name, frames in found[:_MOST_THREADS]
        if frames
    ]
