"""The learned timeouts of nvidia-resiliency-ext on traces, in the Python that has it; prints what came of each as JSON.

It is fed as Megatron feeds it: five iterations of an attempt are in no section, timeouts are updated after each save,
those of setup from the second attempt on, and out of sections when an attempt ends by itself. What all ranks saw is
merged by the maximum, as its ``synchronize_all`` does. Where a training makes steps alone, each is a heartbeat, and
timeouts are calculated when an attempt that loaded a checkpoint ends by itself, as its callback for Lightning does.
"""

import dataclasses
import json
import sys

from nvidia_resiliency_ext.fault_tolerance.data import (  # type: ignore[import-not-found]
    HeartbeatTimeouts,
    SectionAction,
    SectionTimeouts,
)
from nvidia_resiliency_ext.fault_tolerance.timeouts_calc import TimeoutsCalc  # type: ignore[import-not-found]

from bench.timeouts_fixed import BY_HAND, FIRST_HEARTBEAT_S, HEARTBEAT_S, OUTSIDE_S, WARM_UP, FixedLimits
from support.judged_traces import judge
from support.step_traces import EVALUATE, SAVE, SETUP, STEP, TRAININGS, Span, trace

_LEAST_ITERATIONS = 16


class NvrxLimits(FixedLimits):
    """Begins with the limits by hand, and replaces them by those that it calculates."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._sections = SectionTimeouts(section=dict(BY_HAND), out_of_section=OUTSIDE_S)
        self._heartbeats = HeartbeatTimeouts(FIRST_HEARTBEAT_S, HEARTBEAT_S, were_calculated=False)
        self._attempt = 0
        self._seen: set[str] = set()
        self._calculator = TimeoutsCalc(sections=list(BY_HAND), start_time=0.0)

    def begin(self, attempt: int) -> None:
        super().begin(attempt)
        self._attempt, self._seen = attempt, set()
        self._calculator = TimeoutsCalc(sections=list(BY_HAND), start_time=self._now)

    def saw(self, span: Span) -> None:
        until = self._now + max(span.seconds)
        named = span.kind == "section" and not (span.name == STEP and self.iterations < WARM_UP)
        if named:
            self._seen.add(span.name)
            self._calculator.update_on_section_event(span.name, SectionAction.OPEN, self._now)
            self._calculator.update_on_section_event(span.name, SectionAction.CLOSE, until)
        elif not self.named:
            self._calculator.update_on_heartbeat(until)
        super().saw(span)
        self._now = until
        if span.name == SAVE:
            self._update(closing=False)

    def end(self, *, clean: bool) -> None:
        if clean and self._seen:
            self._calculator.maybe_bump_oos_time(self._now)
            self._update(closing=True)
        elif clean and self._attempt > 1 and self._calculator.can_get_hb_timeouts():
            self._heartbeats = self._calculator.get_hb_timeouts(self._heartbeats)
            self.first_heartbeat_s, self.heartbeat_s = self._heartbeats.initial, self._heartbeats.subsequent
            self.settle()

    def _update(self, *, closing: bool) -> None:
        chosen = {each for each in (SAVE, EVALUATE) if each in self._seen}
        chosen |= {SETUP} if self._attempt > 1 else set()
        chosen |= {STEP} if self.iterations >= _LEAST_ITERATIONS else set()
        outside = closing and {SETUP, STEP, SAVE} <= chosen
        found = self._calculator.get_section_timeouts(sorted(chosen), outside, self._sections)
        self._sections = found
        self.sections, self.outside_s = dict(found.section), found.out_of_section
        self.settle()


if __name__ == "__main__":
    for training in TRAININGS:
        json.dump(dataclasses.asdict(judge(trace(training), NvrxLimits())), sys.stdout)
        print(flush=True)
