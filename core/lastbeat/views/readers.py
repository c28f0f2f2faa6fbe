"""What commands and pages that show views expect of the readers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lastbeat.model.view import FleetView, RunView


class RunReader(Protocol):
    """Reads one run: :class:`lastbeat.views.one_run.RunWatch`."""

    def look(self, *, log_lines: int = 40) -> RunView | None: ...


class FleetReader(Protocol):
    """Reads a fleet: :class:`lastbeat.views.watching.FleetWatch`."""

    def open(self, until: float = float("inf"), on_progress: Callable[[int, int], None] | None = None) -> FleetView: ...


class LiveFleetReader(FleetReader, Protocol):
    """Reads it again and again."""

    def round(self, wanted: Sequence[str] = ()) -> FleetView: ...

    def view(self) -> FleetView: ...
