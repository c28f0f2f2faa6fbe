"""How far training is: the figures of a heartbeat that people see of every run."""

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import AnyFloat


@dataclass(frozen=True)
class Figures:
    """The last step and what came with it. None: unknown."""

    step: int | None = None
    total_steps: int | None = None
    loss: AnyFloat | None = None
    """May be NaN or infinite."""


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
