"""Counters that grow, however many kinds of them there are and whoever goes on reading."""

import json

from lastbeat.causes.advances import Advances


def kept(advances: Advances) -> Advances:
    return Advances.restore(json.loads(json.dumps(advances.state())))


def with_many_kinds() -> Advances:
    advances = Advances()
    for total in range(1000, 1040):
        advances.read(f"Map: 10%|# | 100/{total} [00:01<00:09]")
    return advances


def test_training_is_seen_after_many_other_bars() -> None:
    advances = with_many_kinds()
    assert not advances.read("step 10/9000 loss 2.1")
    assert advances.read("step 20/9000 loss 2.0")


def test_a_later_process_knows_all_kinds() -> None:
    advances = with_many_kinds()
    advances.read("train loss: 2.5")
    assert kept(advances).read("train loss: 2.4")
    assert advances.read("train loss: 2.4")


def test_a_summary_after_the_end_is_no_step() -> None:
    advances = Advances()
    advances.read("train loss: 2.5")
    assert not advances.read("wandb: train/loss 0.1")
