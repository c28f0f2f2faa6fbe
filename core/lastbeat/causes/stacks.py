"""Stacks that were printed because something stood still: faulthandler's, py-spy's and gdb's."""

import re
from dataclasses import asdict
from typing import Any, Final

from lastbeat.causes.kept import made_of
from lastbeat.causes.mentions import Stack, text_of
from lastbeat.causes.tracebacks import place_of
from lastbeat.model.pattern import Pattern
from lastbeat.scanning.splitting import Line

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
# Locks that are held for a moment only: whoever stands here for long waits for somebody who waits, too.
_LOCK: Final = Pattern(r"logging/__init__\.py:(?:acquire|_acquireLock)|_bootstrap>?:acquire|_ModuleLock")
_GDB: Final = "Traceback (most recent call first)"
_MOST: Final = 16
_NAME_LIMIT: Final = 60
_PATH_LIMIT: Final = 120


class Stacks:
    """The stacks of the dump that is being read, and of those that were."""

    def __init__(self) -> None:
        self.found: list[Stack] = []
        self.open = False
        self._gdb = False
        self._dumping = False

    def begins(self, text: str) -> bool:
        if text.startswith(_GDB):
            return True
        return text.lstrip().startswith(("Thread ", "Current thread ")) and _THREAD.match(text) is not None

    def read(self, rank: int | None, line: Line) -> bool:
        """Whether the line belongs to a stack."""
        text = line.text
        if self.begins(text):
            self.open = True
            self._gdb, self._dumping = text.startswith(_GDB), text.lstrip().startswith("Current")
            if len(self.found) >= _MOST:
                del self.found[1]
            self.found.append(Stack(line.number, rank, "", "", text_of(line.raw)[:_PATH_LIMIT]))
            return True
        if not self.open:
            return False
        frame = _FAULTHANDLER.match(text) or _PY_SPY.match(text)
        if frame is None:
            # gdb prints each frame's code, too.
            self.open = self._gdb and text.startswith(" ")
            return self.open
        stack = self.found[-1]
        file, function = frame["file"], frame["function"].strip()[:_NAME_LIMIT]
        if not stack.innermost:
            stack.innermost = f"{file[-_PATH_LIMIT:]}:{function}"
        if not stack.site and not _LIBRARY.search(file):
            stack.site = f"{file.rsplit('/', 1)[-1][-_NAME_LIMIT:]}:{frame['line'] or 0}:{function}"
        if self._dumping and function == "_bootstrap":
            # A helper that writes the stacks does not wait for anybody.
            stack.site = ""
        return True

    def state(self) -> dict[str, Any]:
        return {
            "open": self.open,
            "gdb": self._gdb,
            "dumping": self._dumping,
            "found": [asdict(stack) for stack in self.found],
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Stacks":
        stacks = cls()
        stacks._gdb, stacks._dumping = bool(state.get("gdb")), bool(state.get("dumping"))
        stacks.found = [made_of(Stack, each) for each in state["found"][:_MOST]]
        stacks.open = bool(state["open"]) and bool(stacks.found)
        return stacks


def in_collective(stack: Stack) -> bool:
    """Whether the thread waits for other ranks."""
    return place_of(stack.innermost.rsplit(":", 1)[0]) == "collective" or bool(
        re.search(r"torch/distributed/|all_?reduce|all_?gather|broadcast|barrier|reduce_scatter", stack.innermost)
    )


def in_own_code(stack: Stack) -> bool:
    """Whether the innermost frame is the program's own: it waits in native code that it called, as for a lock."""
    file, _, function = stack.innermost.rpartition(":")
    return bool(stack.site) and (not _LIBRARY.search(file) or _WAITING.match(function) is not None)


def circular(stacks: list[Stack], others: list[str]) -> bool:
    """Whether threads or ranks seem to wait for each other.

    Two threads of one process that stand in their own code, each elsewhere, wait for what the other holds; so do
    ranks that stand in collectives which they called from different places. ``others`` are such places of ranks that
    left a traceback and no stack.
    """
    if any(_LOCK.search(stack.innermost) for stack in stacks):
        return True
    threads: dict[int | None, set[str]] = {}
    for stack in stacks:
        if in_own_code(stack) and not in_collective(stack):
            threads.setdefault(stack.rank, set()).add(stack.site)
    if any(len(sites) > 1 for sites in threads.values()):
        return True
    waiting = {_function(stack.site) for stack in stacks if in_collective(stack) and stack.site}
    return bool(waiting) and len(waiting | {_function(site) for site in others if site}) > 1


def _function(site: str) -> str:
    return site.split(":", 1)[0] + ":" + site.rsplit(":", 1)[-1]
