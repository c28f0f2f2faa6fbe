"""The stacks of all threads of this process, written when training makes no progress.

They are taken from outside, so the hanging thread has to do nothing, and no signal or hook is
needed. Only code locations are written: reading source text may hang on the same file system that training hangs on. A
thread that holds the interpreter lock (a C extension that does not release it) stops the beat thread as well: then
there are neither stacks nor heartbeats, and the watchdog sees the run time out.
"""

import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from lastbeat.model import runid
from lastbeat.model.times import format_duration
from lastbeat.stores.port import Store
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask
from lastbeat.training.sdk.documents import delete_if_allowed, iso_time
from lastbeat.training.sdk.threads import OWN_THREADS, current_frames
from lastbeat.training.sdk.values import as_int, safe_to_read

LIMIT_BYTES = 64 * 1024
_FRAMES = 64
_THREADS = 200
_NAME_LIMIT = 200


class StackDump(BeatTask):
    """Writes the stacks of all threads after about ``stall_s`` without a new step, and again each time that
    this time has doubled. Deletes them when training goes on, so they exist only while it hangs.

    They are taken one and a half beats before ``stall_s``, so that they exist when the watchdog alerts. An overrun
    section has them taken too, once.

    ``dump`` returns the stacks after a given first line. ``printed`` counts the output of a command. While no step of
    the command is known, silence for as long is a stall. Stacks that the command writes itself are left as they are.
    """

    purpose = "write the stacks of stalled training"

    def __init__(
        self,
        stall_s: float,
        beat_s: float,
        *,
        dump: Callable[[str], bytes] | None = None,
        printed: Callable[[], int] | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dump = dump or dump_stacks
        self._printed = printed
        self._first_s = max(stall_s / 2, stall_s - 1.5 * beat_s)
        self._steady = steady
        self._step: object = None
        self._since = 0.0
        self._next_s = self._first_s
        self._there: bool | None = None
        """Whether the file exists; None while one of an earlier attempt may be left."""

    def write(self, beat: Beat) -> None:
        key = beat.folder + runid.STACKS
        latest = beat.run.latest
        # A step that is a tensor is not read, because its device may be what hangs.
        step = None if latest is None else as_int(latest[0]) if safe_to_read(latest[0]) else latest
        what = "step"
        if step is None and self._printed is not None:
            what, step = "output", self._printed()
        now = self._steady()
        if beat.late and beat.ending is None:
            if not self._there:
                beat.store.write(key, self._dump(f"A section takes too long, {iso_time(beat.now)}"))
                self._there = True
            return
        if step is None or not _same(step, self._step):
            self._step, self._since, self._next_s = step, now, self._first_s
            self._remove(beat.store, key)
            return
        stalled_s = now - self._since
        if beat.ending is None and stalled_s >= self._next_s:
            where = f", at step {step}" if isinstance(step, int) and what == "step" else ""
            head = f"No new {what} for {format_duration(stalled_s)}{where}, {iso_time(beat.now)}"
            if self._there or self._printed is None or beat.store.read(key, 1) is None:
                beat.store.write(key, self._dump(head))
                self._there = True
            while self._next_s <= stalled_s:
                self._next_s *= 2

    def _remove(self, store: Store, key: str) -> None:
        if self._there is None:
            # Try once, because the watchdog ignores a file that is older than the attempt.
            self._there = False
            store.delete(key)
        elif self._there:
            if not delete_if_allowed(store, key):
                store.write(key, b"")
            self._there = False


def _same(step: object, other: object) -> bool:
    """Whether both are the same step. Never compares objects that may be tensors."""
    return step is other or (isinstance(step, int) and isinstance(other, int) and step == other)


def dump_stacks(head: str) -> bytes:
    """Every Python thread's stack in at most ``LIMIT_BYTES``, after the line ``head``.

    The main thread is first, lastbeat's own are last. Each is laid out like a Python traceback, innermost frame last.
    A deep stack loses its outer frames, and too many threads lose the last ones.
    """
    frames = current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    order = sorted(frames, key=lambda ident: (ident != main, str(names.get(ident)).startswith(OWN_THREADS), ident))
    parts = [head[:_NAME_LIMIT]]
    room = LIMIT_BYTES - 200 - len(parts[0].encode("utf-8", "replace"))
    for number, ident in enumerate(order):
        mark = " (main)" if ident == main else ""
        title = f'Thread "{_line(str(names.get(ident, ident)))[:100]}"{mark}, most recent call last:'
        part = "\n".join((title, *reversed(list(_innermost(frames[ident])))))
        room -= len(part.encode("utf-8", "replace")) + 2
        if room < 0 or number >= _THREADS:
            parts.append(f"… and {len(order) - number} more threads")
            break
        parts.append(part)
    return ("\n\n".join(parts) + "\n").encode("utf-8", "replace")


def _line(name: str) -> str:
    """A name without line breaks."""
    return name.replace("\n", " ").replace("\r", " ")


def _innermost(frame: FrameType | None) -> Iterator[str]:
    """The innermost ``_FRAMES`` frames, innermost first."""
    shown = 0
    while frame is not None and shown < _FRAMES:
        code = frame.f_code
        file = _line(code.co_filename)
        file = file if len(file) <= _NAME_LIMIT else "…" + file[-_NAME_LIMIT:]
        yield f'  File "{file}", line {frame.f_lineno}, in {_line(code.co_name)[:_NAME_LIMIT]}'
        frame, shown = frame.f_back, shown + 1
    if frame is not None:
        yield "  … outer frames are left out"
