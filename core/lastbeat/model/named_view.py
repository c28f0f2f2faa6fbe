"""A team's named view of its fleet: which runs, in which order, with which columns."""

from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Persisted

VIEWS: Final = "_watchdog/views.json"
"""Beside the runs: the views of the team."""
PARTS: Final = ("filter", "status", "sort", "columns", "group")
"""What a view may ask for."""


@dataclass(frozen=True)
class NamedView(Persisted):
    """Each part as people type it. Empty: as without a view."""

    name: str
    filter: str = ""
    status: str = ""
    """Statuses with commas between."""
    sort: str = ""
    """Keys with commas between; one with a ``-`` sorts from large to small."""
    columns: str = ""
    """Columns with commas between; the page keeps one with a ``!`` in sight, and has its width behind a ``~``."""
    group: str = ""
    """The key by which the page groups runs."""
    by: str = ""
    """Who saved it."""

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing."""
        return not any(getattr(self, part) for part in PARTS)
