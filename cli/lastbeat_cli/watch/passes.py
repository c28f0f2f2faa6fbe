"""Prints the report of each pass: text for people and files, JSON for programs."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from lastbeat.fleet.report import pass_document
from lastbeat.model.document import masked
from lastbeat.model.fleet import LINES_LIMIT, PassReport
from lastbeat.model.text import one_line
from lastbeat.views.lines import paint
from lastbeat_cli import frame, logs
from lastbeat_cli.document import dump
from lastbeat_cli.watch import pass_lines
from lastbeat_cli.watch.pass_lines import MOST_ROWS, WARNING, StatusLine

if TYPE_CHECKING:
    from lastbeat_cli.watch.preview import Planned

SIGN_OF_LIFE_S = 900.0
"""While nothing is new, one line is printed in this many seconds."""
_NAMES = frozenset({"run_id", "status", "before", "after", "plan", "at", "since", "conditions"})
"""Fields that are not masked: names that people type, and words of lastbeat itself."""
_COLOURS = {"FAILED": "red", "TIMED_OUT": "red", "UNKNOWN": "magenta", WARNING: "yellow"}


class Shown:
    """Prints each report. Calls ``left`` once the reader of stdout has closed it.

    As text, the first report lists every run that needs attention, and later ones only what is new.
    """

    def __init__(
        self,
        where: str,
        *,
        as_json: bool,
        steady: Callable[[], float] = time.monotonic,
        planned: "Planned | None" = None,
    ) -> None:
        self.left: Callable[[], None] = lambda: None
        self._where = where
        self._as_json = as_json
        self._steady = steady
        self._last: list[str] | None = None
        self._last_at = 0.0
        self._colour = paint.coloured(sys.stdout)
        self._planned = planned

    def show(self, report: PassReport) -> None:
        """Print ``report`` if it has something new, or a sign of life is due."""
        try:
            told = [self._document(report)] if self._as_json else self._text(report)
            if self._planned is not None and not self._as_json:
                told += map(logs.redact, self._planned.lines(report))
            if told:
                print("\n".join(told), flush=True)
        except BrokenPipeError:
            frame.hush()
            self.left()

    def _document(self, report: PassReport) -> str:
        document = pass_document(report)
        if self._planned is not None:
            document["would_send"] = self._planned.documents(report)
        return dump(masked(document, logs.redact, _NAMES))

    def _text(self, report: PassReport) -> list[str]:
        first, now = self._last is None, self._steady()
        found = pass_lines.rows(report, everything=first)
        notes = [one_line(logs.redact(note)) for note in pass_lines.notes(report)]
        head = one_line(pass_lines.head(report, self._where))
        # Unreadable runs are printed when their set changes.
        said = [head, *notes, *sorted(report.unreadable)]
        new = said != self._last or bool(report.transitions)
        if not new and now - self._last_at < SIGN_OF_LIFE_S:
            return []
        self._last, self._last_at = said, now
        # A report's lines are bounded as well; a full report may lack some.
        full = first and len(report.lines) >= LINES_LIMIT
        body = [*self._rows(found, all_of_them=not full), *notes] if new else []
        return [*([] if first else [""]), head, *body, pass_lines.foot(report)]

    def _rows(self, found: Sequence[StatusLine], *, all_of_them: bool = True) -> list[str]:
        shown = found[:MOST_ROWS]
        width = max((len(row.status) for row in shown), default=0)
        told = [
            f"{self._styled(row.status, width)}  {row.run_id}  {one_line(logs.redact(row.text))}".rstrip()
            for row in shown
        ]
        if len(found) > MOST_ROWS:
            told.append(
                f"… and {len(found) - MOST_ROWS} more" if all_of_them else "… and more: the first line counts them"
            )
        return told

    def _styled(self, status: str, width: int) -> str:
        word = f"{status:<{width}}"
        return click.style(word, fg=_COLOURS.get(status, "green"), bold=True) if self._colour else word
