"""What is kept between two events, until when, and what time an invocation leaves for a pass."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from lastbeat.model.fleet import Shard
from lastbeat_lambda.environment import FROZEN_S, MARGIN_S, SECRET_S, SHARDS_KEPT, ExecutionEnvironment, TimeLimit


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ExecutionEnvironment:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path))
    return ExecutionEnvironment.made()


def test_what_was_just_made_is_kept_whatever_has_no_bearing_on_it(
    warm: ExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793")
    assert not warm.outdated()


@pytest.mark.parametrize("name", ["MONITORING_ROOT", "AWS_ENDPOINT_URL", "LASTBEAT_PING_URL"])
def test_other_settings_make_everything_anew(
    warm: ExecutionEnvironment, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "7")
    assert warm.outdated()


def test_a_machine_whose_clock_stood_still_while_it_was_frozen_starts_anew(warm: ExecutionEnvironment) -> None:
    told, ticked = warm.began
    assert replace(warm, began=(told - FROZEN_S - 1, ticked)).outdated()
    assert not replace(warm, began=(told - 3600, ticked - 3600)).outdated()


def test_a_secret_from_elsewhere_is_read_again_after_a_while(warm: ExecutionEnvironment) -> None:
    long_ago = time.time() - SECRET_S - 1
    assert replace(warm, secret="made up", read_at=long_ago).outdated()
    assert not replace(warm, secret="made up").outdated()
    assert not replace(warm, read_at=long_ago).outdated()


def test_passes_are_kept_for_a_few_parts_of_the_fleet(warm: ExecutionEnvironment) -> None:
    first = warm.sweep_of(None)
    assert warm.sweep_of(None) is first
    for number in range(SHARDS_KEPT):
        warm.sweep_of(Shard(str(number)))
    assert warm.sweep_of(None) is not first
    assert len(warm.sweeps) == SHARDS_KEPT


class Context:
    def __init__(self, left_s: float) -> None:
        self._left_s = left_s

    def get_remaining_time_in_millis(self) -> int:
        return int(self._left_s * 1000)


LEFT = [(60.0, 60.0 - MARGIN_S), (8.0, 6.0), (0.4, 0.3), (0.0, 0.0), (-5.0, -5.0)]


@pytest.mark.parametrize(("left_s", "for_the_pass_s"), LEFT)
def test_a_pass_ends_before_the_invocation_does(left_s: float, for_the_pass_s: float) -> None:
    before = time.monotonic()
    deadline = TimeLimit.of(Context(left_s)).deadline
    after = time.monotonic()
    assert deadline is not None
    assert before + for_the_pass_s - 0.001 <= deadline <= after + left_s


def test_nobody_who_says_how_long_it_may_take_means_no_end() -> None:
    assert TimeLimit.of(None) == TimeLimit(None)
    assert TimeLimit.of(None).deadline is None
    assert not TimeLimit.of(None).over
