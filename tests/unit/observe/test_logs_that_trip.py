"""One log that what understands text trips over, beside others: it alone says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from lastbeat.model.cause import NOTHING
from lastbeat.watch.observe.listing import run_files
from support.run_logs import CRASH, MAIN, RUN, LogScene, kept, steps

OTHER = "logs/rank3.log"
Damage = Callable[[dict[str, Any]], None]
DAMAGED = [
    pytest.param(lambda reader: reader.update(splitter=7), id="something else stands there"),
    pytest.param(lambda reader: reader.pop("parser"), id="a part of it is gone"),
]


def tripped(damage: Damage) -> LogScene:
    """Two logs, of which one trips whoever asks what it said."""
    run = LogScene()
    run.put(MAIN, steps(0, 10))
    run.put(OTHER, steps(0, 5))
    run.look()
    document = kept(run.logs)
    damage(next(file["reader_document"] for file in document["files"] if file["name"] == OTHER))
    run.logs = run.fresh()
    run.logs.restore(document)
    return run


@pytest.mark.parametrize("damage", DAMAGED)
def test_the_others_are_told(damage: Damage) -> None:
    run = tripped(damage)
    run.store.pass_time(60)
    run.put(MAIN, steps(0, 20) + CRASH)
    report = run.look()
    assert (report.step, report.written_at) == (19, run.store.now)
    assert report.explanation.cause is not None
    assert report.explanation.cause.error_type == "oom"
    assert report.unread == (OTHER,)
    assert any(OTHER in note and "could not be understood" in note for note in report.notes)
    run.store.pass_time(60)
    run.put(OTHER, steps(0, 30))
    assert (run.look().step, run.look().unread) == (29, ()), "and it goes on from there"


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_closer_reading_leaves_only_that_one_out(damage: Damage) -> None:
    run = tripped(damage)
    run.put(MAIN, steps(0, 20) + CRASH)
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.cause is not None
    assert found.cause.error_type == "oom"


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_new_attempt_can_begin(damage: Damage) -> None:
    run = tripped(damage)
    run.logs.begin_attempt(2)
    run.logs.begin_attempt(3)
    assert run.look().explanation == NOTHING
