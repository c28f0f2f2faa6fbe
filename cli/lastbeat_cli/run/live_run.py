"""``show --live``: one run on one screen, with its curves."""

import shutil
import sys
from typing import Final

from lastbeat.model.view import RunView
from lastbeat.views.one_run import RunWatch
from lastbeat_cli import exits
from lastbeat_cli.run import one_run, page
from lastbeat_cli.run.screen import top_lines
from lastbeat_cli.terminal import live, paint, signs
from lastbeat_cli.terminal.screen import Screen

_ONCE_LINES: Final = 40
"""Lines of a picture in a pipe."""


def show(watch: RunWatch, view: RunView, interval_s: float, *, once: bool) -> int:
    """Show ``view`` and, on a terminal unless ``once``, what ``watch`` sees after it. Returns the exit status."""
    made_of = signs.of(sys.stdout)
    if once or not live.possible():
        paint.show(top_lines(view, paint.width(sys.stdout), _height(), view.at, made_of, whole_id=True))
        return one_run.status(view)
    with Screen() as screen, live.quiet():
        feed = page.show(screen, watch, interval_s, made_of, alone=True)
    last = feed.value
    seen = isinstance(last, RunView) and feed.fault is None
    return live.leave(feed, one_run.status(last) if seen and isinstance(last, RunView) else exits.UNKNOWN)


def _height() -> int:
    """The number of lines of a single picture: a terminal's height, or :data:`_ONCE_LINES` in a pipe."""
    if paint.capable(sys.stdout):
        return max(shutil.get_terminal_size().lines - 2, 16)
    return _ONCE_LINES
