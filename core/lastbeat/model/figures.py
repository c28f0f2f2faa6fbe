"""How far training is: the figures of a heartbeat that people see of every run.

One line declares a figure and where people see it: alerts, rows, the table of a fleet and metrics follow from it.
"""

from dataclasses import field, fields
from typing import Any, Final, NamedTuple

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import AnyFloat

_SHOWN: Final = "figure"


class ShownFigure(NamedTuple):
    """Where people see a figure."""

    name: str
    """Its attribute, and its key in documents."""
    label: str
    """Its name in alerts and above its column; empty if both show it in a way of its own."""
    help: str
    """The sentence of its metric, ``lastbeat_run_{name}``."""


def _figure(help: str, label: str = "") -> Any:  # noqa: A002 - Prometheus's word
    return field(default=None, metadata={_SHOWN: (label, help)})


@dataclass(frozen=True)
class Figures:
    """The last step and what came with it. None: unknown."""

    step: int | None = _figure("Training step as last read.")
    total_steps: int | None = _figure("Steps that the run is to make.")
    loss: AnyFloat | None = _figure("Training loss as last read; NaN if training says NaN.", "Loss")
    """May be NaN or infinite."""

    def named(self) -> dict[str, float | None]:
        """Name → value."""
        return {each.name: getattr(self, each.name) for each in FIGURES}


FIGURES: Final = tuple(ShownFigure(each.name, *each.metadata[_SHOWN]) for each in fields(Figures))


class HasFigures:
    """Base of what holds :class:`Figures`: its fields, under their own names."""

    __slots__ = ()
    figures: Figures

    @property
    def step(self) -> int | None:
        return self.figures.step

    @property
    def total_steps(self) -> int | None:
        return self.figures.total_steps

    @property
    def loss(self) -> float | None:
        return self.figures.loss
