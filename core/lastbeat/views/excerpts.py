"""Lines of logs and stacks, made fit to be shown."""

import re
from collections.abc import Sequence
from typing import Final

from lastbeat.model.view import Excerpt
from lastbeat.stores.port import Blob
from lastbeat.views.safe import Safe

TAIL_BYTES: Final = 64 * 1024
"""Bytes of a log's end that are read for its last lines."""
STACKS_LIMIT_BYTES: Final = 64 * 1024
STACKS_LINES: Final = 1000
_OWN_FILE: Final = re.compile(rb'File "[^"]*[/\\]lastbeat[/\\](?:training|integrations|stores|settings|model)\b[^"]*"')
"""Files of the installed package; people's own folders may be called lastbeat, too."""


def split(data: bytes, *, cut_at_start: bool) -> list[bytes]:
    """The lines of ``data``, told apart by newlines alone, as everywhere; without a first one that is cut, unless it is
    all there is. What stands behind the last newline is a line if there is anything."""
    lines = data.split(b"\n")
    if cut_at_start and len(lines) > 1 and any(lines[1:]):
        lines = lines[1:]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def tail(name: str, blob: Blob, most: int, safe: Safe) -> Excerpt:
    """The last ``most`` lines of a log, of which ``blob`` is the end."""
    whole = blob.size_bytes <= len(blob.body)
    lines = split(blob.body, cut_at_start=not whole)
    kept = lines[-most:] if most > 0 else []
    first = len(lines) - len(kept) + 1 if whole else None
    note = None
    if not whole and len(lines) < most:
        note = f"only the last {len(blob.body) // 1024} KB were read"
    return Excerpt(
        safe.name(name), safe.lines(kept), first if kept else None, None, blob.modified, blob.size_bytes, note
    )


def stacks(name: str, blob: Blob, safe: Safe) -> Excerpt:
    """All that was written down of where threads hang, but lastbeat's own: those only look on."""
    lines, own = _without_own(split(blob.body, cut_at_start=False))
    cut = len(lines) > STACKS_LINES or blob.size_bytes > len(blob.body)
    shown = safe.lines(lines[:STACKS_LINES])
    notes = ["it is longer than what is shown"] if cut else []
    if own:
        notes.append(f"{own} of lastbeat's own frames {'is' if own == 1 else 'are'} not shown")
    first = 1 if shown and not own else None
    return Excerpt(name, shown, first, None, blob.modified, blob.size_bytes, "; ".join(notes) or None)


def _without_own(lines: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Without the frames of lastbeat's own code and the threads that it started; how many frames were left out.

    A thread is left out whole by its name. The innermost frame of another thread always stays: there it hangs.
    """
    kept: list[bytes] = []
    own, ours = 0, False
    for index, line in enumerate(lines):
        if line.startswith(b'Thread "'):
            ours = line.startswith(b'Thread "lastbeat')
            if ours:
                continue
        frame = line.lstrip().startswith(b'File "')
        if ours:
            own += frame
            continue
        last = index + 1 >= len(lines) or not lines[index + 1].strip()
        if frame and not last and _OWN_FILE.search(line):
            own += 1
            continue
        kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept, own
