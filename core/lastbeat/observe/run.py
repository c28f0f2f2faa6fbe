"""One look at one run."""

from dataclasses import dataclass, field

from lastbeat.model import runid
from lastbeat.model.observation import Heartbeat, NeverSeen, Seen, Sentinel
from lastbeat.observe.documents import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.observe.listing import run_files
from lastbeat.stores.port import DeniedError, Entry, Store, StoreError

ERROR_LIMIT_BYTES = 32 * 1024
LOG_TAIL_LIMIT_BYTES = 16 * 1024
LOG_TAIL_LINES = 20
STACKS_LIMIT_BYTES = 32 * 1024
STACK_FRAMES = 12
_LINE_LIMIT = 400


@dataclass
class Observer:
    """Looks at one run again and again, and reads again only what has changed since."""

    store: Store
    run_id: str
    _heartbeats: dict[str, Heartbeat] = field(default_factory=dict)
    _error: Sentinel | None = None

    def look(self) -> tuple[Seen | NeverSeen, Entry | None]:
        """What is there now, and the listing's entry of the watchdog's record.

        Raises :class:`StoreError` when anything needed for a decision could not be read: then nothing at
        all follows from what could.
        """
        files = run_files(self.store, self.run_id)
        record = files.pop(runid.RECORD, None)
        if not files:
            return NeverSeen(), record
        complete = files.get(runid.COMPLETE)
        log = files.get(runid.LOG)
        stacks = files.get(runid.STACKS)
        seen = Seen(
            metadata=self._heartbeat(files.get(runid.METADATA)),
            progress=self._heartbeat(files.get(runid.PROGRESS)),
            error=self._failure(files.get(runid.ERROR)),
            complete=Sentinel(complete.modified, complete.version, complete.size_bytes) if complete else None,
            log_size_bytes=log.size_bytes if log else None,
            stacks_modified=stacks.modified if stacks else None,
        )
        return seen, record

    def _heartbeat(self, entry: Entry | None) -> Heartbeat | None:
        if entry is None:
            return None
        known = self._heartbeats.get(entry.key)
        if known is not None and (known.version, known.modified) == (entry.version, entry.modified):
            return known
        if entry.size_bytes == 0:
            heartbeat = Heartbeat(entry.modified, entry.version, fault="it is empty")
        else:
            blob = self.store.read(entry.key, DOCUMENT_LIMIT_BYTES)
            if blob is None:
                return None
            heartbeat = read_heartbeat(blob)
        self._heartbeats[entry.key] = heartbeat
        return heartbeat

    def _failure(self, entry: Entry | None) -> Sentinel | None:
        if entry is None:
            return None
        known = self._error
        if known is not None and (known.version, known.modified) == (entry.version, entry.modified):
            return known
        text, fault = "", None
        if entry.size_bytes:
            try:
                blob = self.store.read(entry.key, ERROR_LIMIT_BYTES)
            except DeniedError as denied:
                # That it exists is enough to know that the run failed; a refused text must not hide it.
                # (A passing trouble is raised instead: the next pass will have the text.)
                fault = str(denied)
            else:
                if blob is None:
                    return None
                text = blob.body.decode("utf-8", "replace")
        sentinel = Sentinel(entry.modified, entry.version, entry.size_bytes, text, fault)
        self._error = sentinel if fault is None else None
        return sentinel

    def log_tail(self) -> tuple[tuple[str, ...], str | None]:
        """The last lines of the training log, oldest first, and why there are none if they could not be read.

        Never raises: an alert goes out without them rather than not at all.
        """
        key = f"{self.run_id}/{runid.LOG}"
        try:
            blob = self.store.read(key, LOG_TAIL_LIMIT_BYTES, from_end=True)
        except StoreError as error:
            return (), f"The training log could not be read: {error}"
        if blob is None:
            return (), None
        return last_lines(blob.body, cut_at_start=blob.size_bytes > len(blob.body)), None

    def stack(self) -> tuple[tuple[str, ...], str | None]:
        """The innermost frames of training's main thread, the innermost last, and why there are none if they could
        not be read. Never raises, as :meth:`log_tail`."""
        try:
            blob = self.store.read(f"{self.run_id}/{runid.STACKS}", STACKS_LIMIT_BYTES)
        except StoreError as error:
            return (), f"The stacks could not be read: {error}"
        return (innermost(blob.body.decode("utf-8", "replace")) if blob is not None else ()), None


def innermost(stacks: str, most: int = STACK_FRAMES) -> tuple[str, ...]:
    """The innermost frames of the first thread in a ``stacks.txt``, which is the main thread, the innermost last."""
    block: list[str] = []
    for line in stacks.split("\n"):
        if line.startswith("Thread "):
            if block:
                break
        elif line.startswith("  ") and line.strip():
            block.append(line.strip()[:_LINE_LIMIT])
    return tuple(block[-most:])


def last_lines(tail: bytes, *, cut_at_start: bool, most: int = LOG_TAIL_LINES) -> tuple[str, ...]:
    """The last non-empty lines of a log's tail; a progress bar that redraws itself with ``\\r`` is one line."""
    # Not splitlines(): it also splits at characters that a log line may well contain.
    lines = tail.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    if cut_at_start and len(lines) > 1:
        lines = lines[1:]
    drawn = (line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in lines)
    return tuple(line[:_LINE_LIMIT] for line in drawn if line)[-most:]
