"""Outcomes printed one after the other: text for people and pipes, JSON for programs."""

import sys
from collections.abc import Callable

from lastbeat.model.document import outcome_document
from lastbeat.model.outcome import Outcome
from lastbeat_cli import frame, logs
from lastbeat_cli.document import dump, masked
from lastbeat_cli.lines import lines


class Plain:
    """Prints each outcome, and what ``preview`` tells of it; once the reader of stdout has left it calls ``left``."""

    def __init__(self, *, as_json: bool, preview: Callable[[Outcome], list[str]] | None = None) -> None:
        self.left: Callable[[], None] = lambda: None
        self._as_json = as_json
        self._preview = preview
        self._passes = 0

    def show(self, outcome: Outcome, due: float | None = None) -> None:  # noqa: ARG002 - a panel counts down to it
        """Print ``outcome``."""
        self._passes += 1
        previews = self._preview(outcome) if self._preview is not None else []
        if self._as_json:
            # Each text is masked before it is escaped; names and numbers are ours.
            told = [dump(masked(outcome_document(outcome), logs.redact))]
            if previews and sys.stderr is not None:
                # Stdout is one object a pass and nothing else.
                print(logs.redact("\n".join(previews)), file=sys.stderr)
        else:
            shown = lines(outcome)
            # The first line is the run's name and status, and nobody's secret.
            told = [*([""] if self._passes > 1 else []), shown[0], *map(logs.redact, [*shown[1:], *previews])]
        try:
            print("\n".join(told), flush=True)
        except BrokenPipeError:
            frame.hush()
            self.left()
