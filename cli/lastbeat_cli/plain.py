"""Prints outcomes one after the other: text for people and pipes, JSON for programs."""

from typing import TYPE_CHECKING

from lastbeat.model.document import outcome_document
from lastbeat.model.outcome import Outcome
from lastbeat_cli import frame, logs
from lastbeat_cli.document import dump, masked, masked_throughout
from lastbeat_cli.outcome_lines import lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from lastbeat_cli.preview import Preview


class Plain:
    """Prints each outcome, and its alerts by ``preview``. Calls ``left`` once the reader of stdout has closed it."""

    def __init__(self, *, as_json: bool, preview: "Preview | None" = None) -> None:
        self.left: Callable[[], None] = lambda: None
        self._as_json = as_json
        self._preview = preview
        self._passes = 0

    def show(self, outcome: Outcome) -> None:
        """Print ``outcome``."""
        self._passes += 1
        if self._as_json:
            # Texts are masked before they are escaped; field names and numbers hold no secrets.
            document = masked(outcome_document(outcome), logs.redact)
            if self._preview is not None:
                document["would_send"] = masked_throughout(self._preview.documents(outcome), logs.redact)
            told = [dump(document)]
        else:
            shown = lines(outcome)
            previews = self._preview.lines(outcome) if self._preview is not None else []
            # The first line holds only the run's name and status, so it is not masked.
            told = [*([""] if self._passes > 1 else []), shown[0], *map(logs.redact, [*shown[1:], *previews])]
        try:
            print("\n".join(told), flush=True)
        except BrokenPipeError:
            frame.hush()
            self.left()
