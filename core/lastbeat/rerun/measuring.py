"""``report_stats``: how much the results of a step differ when it is run twice."""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from lastbeat.rerun.given import GivenResult, GivenResults
from lastbeat.rerun.peers import from_all, tells_for_all
from lastbeat.rerun.variation import Variation, VariationSummary, combined
from lastbeat.sdk.safe_log import safe_log

REPORT_EACH: Final = 1024
"""Reported after so many steps; before, after 1, 2, 4, 8, …"""


class Measurement:
    """What is known so far, on this rank."""

    def __init__(self) -> None:
        self._variations: dict[str, Variation] = {}
        self._first: dict[tuple[str, int], GivenResult] = {}

    def first(self, results: Sequence[GivenResult]) -> None:
        """The first pass of a step is over."""
        self._first = {(each.name, each.number): each for each in results}

    def second(self, results: GivenResults) -> None:
        """The second pass of that step is over."""
        for given in results.all:
            first = self._first.get((given.name, given.number))
            difference = results.difference(given, first.value, given.value) if first is not None else None
            if difference is not None:
                self._variations.setdefault(given.name, Variation()).add(difference)
        self._first = {}

    def summaries(self) -> dict[str, VariationSummary]:
        """By the result's name."""
        return {name: each.summary() for name, each in self._variations.items()}

    def report(self, steps: int) -> dict[str, float] | None:
        """Where it is due after so many ``steps``: add up what all ranks have measured, say it once, and return the
        largest difference of each result."""
        if steps & (steps - 1) and steps % REPORT_EACH:
            return None
        found = combined(from_all({name: asdict(each) for name, each in self.summaries().items()}))
        if tells_for_all():
            for name, each in found.items():
                safe_log(logging.INFO, "lastbeat.rerun: %s after %d steps: %s", name, steps, each)
        return {name: each.largest for name, each in found.items()}
