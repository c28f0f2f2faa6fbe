"""What commands and pages that show views expect of the readers."""

from collections.abc import Callable, Sequence
from typing import Protocol

from lastbeat.model.as_json import Json
from lastbeat.model.view import FleetView, RunView
from lastbeat.views.curves import CurvesAsked


class RunReader(Protocol):
    """Reads one run: :class:`lastbeat.views.one_run.RunWatch`."""

    def look(self, *, log_lines: int = 40) -> RunView | None: ...


class CurvesReader(RunReader, Protocol):
    """Reads its curves, too."""

    def curves(self, asked: CurvesAsked) -> Json: ...


class FleetReader(Protocol):
    """Reads a fleet: :class:`lastbeat.views.watching.FleetWatch`."""

    def open(self, until: float = float("inf"), on_progress: Callable[[int, int], None] | None = None) -> FleetView: ...


class LiveFleetReader(FleetReader, Protocol):
    """Reads it again and again."""

    def round(self, wanted: Sequence[str] = ()) -> FleetView: ...

    def view(self) -> FleetView: ...
