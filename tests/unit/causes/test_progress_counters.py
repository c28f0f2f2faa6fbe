"""Counters that grow, however many kinds of them there are and whoever goes on reading."""

import json

from lastbeat.explain.causes.progress_counters import ProgressCounters
from lastbeat.model.codec import codec


def kept(counters: ProgressCounters) -> ProgressCounters:
    return codec(ProgressCounters).read(json.loads(json.dumps(codec(ProgressCounters).document(counters))))


def with_many_kinds() -> ProgressCounters:
    counters = ProgressCounters()
    for total in range(1000, 1040):
        counters.read(f"Map: 10%|# | 100/{total} [00:01<00:09]")
    return counters


def test_training_is_seen_after_many_other_bars() -> None:
    counters = with_many_kinds()
    assert not counters.read("step 10/9000 loss 2.1")
    assert counters.read("step 20/9000 loss 2.0")


def test_a_later_process_knows_all_kinds() -> None:
    counters = with_many_kinds()
    counters.read("train loss: 2.5")
    assert kept(counters).read("train loss: 2.4")
    assert counters.read("train loss: 2.4")


def test_a_summary_after_the_end_is_no_step() -> None:
    counters = ProgressCounters()
    counters.read("train loss: 2.5")
    assert not counters.read("wandb: train/loss 0.1")
