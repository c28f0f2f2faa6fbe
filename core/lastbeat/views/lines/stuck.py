"""The table of ranks that are stuck in a collective, for ``explain`` and ``show``."""

from collections.abc import Callable, Iterator

from lastbeat.model.stuck_collective import WAITS, StuckCollective
from lastbeat.model.text import one_line
from lastbeat.views.lines.paint import Line, cut, line
from lastbeat.views.lines.paint import columns as columns_of


def stuck_lines(stuck: StuckCollective, columns: int, mask: Callable[[str], str] = str) -> Iterator[Line]:
    """What each rank does in the collective in which they are stuck, as a table."""
    yield line(cut(f"Ranks in {one_line(mask(stuck.call))} of group {one_line(mask(stuck.group))}", columns), "heading")
    rows = [
        (row.name, row.does, f"{row.since:%H:%M:%S}" if row.since is not None else "", row.call, row.frame)
        for row in stuck.rows
    ]
    shown = columns_of([[one_line(mask(part)) for part in row] for row in rows])
    for row, text in zip(stuck.rows, shown, strict=True):
        yield ((cut(f"  {text}", columns), "" if row.does == WAITS else "mark"),)
