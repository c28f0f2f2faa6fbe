"""Learned limits on traces of a million steps: no false alarm, and each hang is found.

Delays are told in units of the usual time: of how long a save takes in the middle, where it hangs in a save."""

import statistics

import pytest

from lastbeat.model.learned_limits import FACTOR, FLOOR_S, IDLE_FLOOR_S
from support.judged_traces import SPAN_WORDS, judge
from support.learned_on_traces import LearnedOnTraces
from support.step_traces import TRAININGS, Training, trace

MOST_TIMES_THE_USUAL = {"checkpointing": 22.0, "evaluation": 7.5}
"""Saves of these traces take up to five times the usual time by themselves."""


@pytest.mark.parametrize("training", [pytest.param(each, id=each.name) for each in TRAININGS])
def test_no_false_alarm_and_each_hang_is_found(training: Training) -> None:
    found = judge(trace(training), LearnedOnTraces())
    assert found.false_alarms == []
    assert found.missed == []
    assert found.hangs >= 9
    for name, delay_s, _, longest_s in found.delays:
        floor_s = IDLE_FLOOR_S if name in SPAN_WORDS.values() else FLOOR_S
        assert delay_s <= max(floor_s, FACTOR * longest_s)
    for name, most in MOST_TIMES_THE_USUAL.items():
        times = [each.delay_s / each.usual_s for each in found.delays if each.name == name]
        assert not times or statistics.median(times) <= most
