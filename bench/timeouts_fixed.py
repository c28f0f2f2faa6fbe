"""Limits by hand on traces: those of Megatron's own example, and one for evaluations.

As there, the first iterations of an attempt are in no section. Where a training makes steps alone, each is a heartbeat
with the default timeouts of nvidia-resiliency-ext."""

from typing import Final

from support.step_traces import EVALUATE, SAVE, SETUP, STEP, Span

BY_HAND: Final = {SETUP: 600.0, STEP: 180.0, SAVE: 420.0, EVALUATE: 900.0}
OUTSIDE_S: Final = 300.0
FIRST_HEARTBEAT_S: Final = 3600.0
HEARTBEAT_S: Final = 2700.0
WARM_UP: Final = 5


class FixedLimits:
    """Never learns anything."""

    def __init__(self) -> None:
        self.sections = dict(BY_HAND)
        self.outside_s = OUTSIDE_S
        self.first_heartbeat_s = FIRST_HEARTBEAT_S
        self.heartbeat_s = HEARTBEAT_S
        self.iterations = 0
        self.named = False
        """It tells of sections."""
        self.least_s = 0.0
        self.settle()

    def settle(self) -> None:
        """Limits are others now."""
        self.least_s = min([*self.sections.values(), self.outside_s, self.first_heartbeat_s, self.heartbeat_s])

    def begin(self, attempt: int) -> None:
        """An attempt begins."""
        del attempt
        self.iterations = 0

    def limit_s(self, span: Span, rank: int) -> float | None:
        """Of a span like this, now; the same for each rank."""
        del rank
        if span.kind == "between":
            return self.heartbeat_s
        if span.kind == "starting" and not self.named:
            return self.first_heartbeat_s
        if span.kind != "section" or (span.name == STEP and self.iterations < WARM_UP):
            return self.outside_s
        return self.sections[span.name]

    def saw(self, span: Span) -> None:
        """It has ended."""
        self.named = self.named or span.kind == "section"
        self.iterations += span.name == STEP

    def end(self, *, clean: bool) -> None:
        """Nothing follows from that."""
