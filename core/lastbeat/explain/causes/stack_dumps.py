"""Parses stack dumps of hanging threads, from faulthandler, py-spy and gdb."""

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final

from lastbeat.explain.causes.mentions import text_of
from lastbeat.explain.causes.tracebacks import place_of
from lastbeat.explain.scanning.splitting import Line
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

_THREAD: Final = Pattern(
    r"\s{0,8}(?:Current thread|Thread) (?:0x[0-9a-fA-F]{1,16}|\d{1,10})(?: \[[^\]]{0,60}\])?"
    r"(?: \([^)]{0,60}\)){0,3}:?(?: \"[^\"]{0,80}\")?"
)
_FAULTHANDLER: Final = Pattern(
    r"\s{0,8}File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9}),? in (?P<function>.{1,120})"
)
_PY_SPY: Final = Pattern(r"\s{2,12}(?P<function>\S.{0,120}) \((?P<file>[^():]{1,300})(?::(?P<line>\d{1,9}))?\)")
_LIBRARY: Final = Pattern(
    r"site-packages|dist-packages|/lib/python\d|<frozen |(?:^|/)(?:threading|queue|socket|selectors|subprocess|"
    r"connection|process|popen_\w{1,20}|runpy|spawn|util|thread|_base|base_events|events|runners|ssl|synchronize|"
    r"queues|pool|managers|weakref|contextlib|concurrent/\S{0,40})\.py$|\.so\b|^<|torch/"
)
_WAITING: Final = Pattern(r"^(?:acquire|__enter__|lock|_acquire_restore|wait_for_lock)$")
# Locks that are only held for a moment. A thread that is stuck on one waits for a thread that is stuck itself.
_BRIEF_LOCK: Final = Pattern(r"logging/__init__\.py:(?:acquire|_acquireLock)|_bootstrap>?:acquire|_ModuleLock")
_GDB: Final = "Traceback (most recent call first)"
_STACKS_LIMIT: Final = 16
"""Most stacks that are kept: the first, and the latest others."""
_NAME_LIMIT: Final = 60
"""Most characters of a function's or file's name."""
_PATH_LIMIT: Final = 120
"""Most characters of a path, or of a stack's first line."""


@dataclass(slots=True)
class Stack:
    """One thread's or one rank's stack in a dump."""

    line: int
    rank: int | None
    innermost: str
    """File and function of the innermost frame."""
    site: str
    """The innermost frame of the program's own code."""
    text: str = ""
    """The first line of the stack."""

    @property
    def frame(self) -> str:
        """The frame at ``site`` for display, as ``train.py:12 in step``; empty if there is none."""
        file, _, rest = self.site.partition(":")
        line, _, function = rest.partition(":")
        return f"{file}:{line} in {function}" if function else ""


@dataclass(eq=False, repr=False)
class StackDumpParser:
    """Collects the stacks of dumps, line by line."""

    FORM: ClassVar = Form.SPARSE

    found: list[Stack] = field(default_factory=list)
    open: bool = False
    """Whether the last stack may continue."""
    gdb: bool = False
    current: bool = False
    """Whether the last stack is of the thread that wrote the dump."""

    def __post_init__(self) -> None:
        del self.found[_STACKS_LIMIT:]
        self.open = self.open and bool(self.found)

    def begins(self, text: str) -> bool:
        if text.startswith(_GDB):
            return True
        return text.lstrip().startswith(("Thread ", "Current thread ")) and _THREAD.match(text) is not None

    def read(self, rank: int | None, line: Line) -> bool:
        """Read a line. Returns whether it belongs to a stack."""
        text = line.text
        if self.begins(text):
            self.open = True
            self.gdb, self.current = text.startswith(_GDB), text.lstrip().startswith("Current")
            if len(self.found) >= _STACKS_LIMIT:
                del self.found[1]
            self.found.append(Stack(line.number, rank, "", "", text_of(line.raw)[:_PATH_LIMIT]))
            return True
        if not self.open:
            return False
        frame = _FAULTHANDLER.match(text) or _PY_SPY.match(text)
        if frame is None:
            # gdb prints the code of each frame too.
            self.open = self.gdb and text.startswith(" ")
            return self.open
        stack = self.found[-1]
        file, function = frame["file"], frame["function"].strip()[:_NAME_LIMIT]
        if not stack.innermost:
            stack.innermost = f"{file[-_PATH_LIMIT:]}:{function}"
        if not stack.site and not _LIBRARY.search(file):
            stack.site = f"{file.rsplit('/', 1)[-1][-_NAME_LIMIT:]}:{frame['line'] or 0}:{function}"
        if self.current and function == "_bootstrap":
            # A helper thread that writes the dump does not wait for others.
            stack.site = ""
        return True


def in_collective(stack: Stack) -> bool:
    """Whether the thread waits for other ranks."""
    return place_of(stack.innermost.rsplit(":", 1)[0]) == "collective" or bool(
        re.search(r"torch/distributed/|all_?reduce|all_?gather|broadcast|barrier|reduce_scatter", stack.innermost)
    )


def in_own_code(stack: Stack) -> bool:
    """Whether the innermost frame is the program's own, or a lock that it takes."""
    file, _, function = stack.innermost.rpartition(":")
    return bool(stack.site) and (not _LIBRARY.search(file) or _WAITING.match(function) is not None)


def is_circular(stacks: list[Stack], other_sites: list[str]) -> bool:
    """Whether threads or ranks seem to wait for each other.

    1. A thread is stuck on a lock that is only held for a moment, so the lock's holder is stuck as well.
    2. Threads of one process are at different places of their own code, so each waits for a lock of another.
    3. Ranks entered collectives from different places. ``other_sites`` are such places of ranks with a traceback but no
       stack.
    """
    if any(_BRIEF_LOCK.search(stack.innermost) for stack in stacks):
        return True
    sites_of_rank: dict[int | None, set[str]] = {}
    for stack in stacks:
        if in_own_code(stack) and not in_collective(stack):
            sites_of_rank.setdefault(stack.rank, set()).add(stack.site)
    if any(len(sites) > 1 for sites in sites_of_rank.values()):
        return True
    entered_from = {_function(stack.site) for stack in stacks if in_collective(stack) and stack.site}
    return bool(entered_from) and len(entered_from | {_function(site) for site in other_sites if site}) > 1


def _function(site: str) -> str:
    return site.split(":", 1)[0] + ":" + site.rsplit(":", 1)[-1]
