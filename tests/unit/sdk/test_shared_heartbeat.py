"""metadata.json of a training below ``exec --max-restarts``: both may write it, and what training says stands."""

import json
import logging
from collections.abc import Callable

import pytest

from lastbeat.model.in_place import InPlace
from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk.exec_in_place import ExecInPlace, reported_by_training
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.reporting import environment
from support.waiting import until

KEY = "run-1/metadata.json"
OURS = InPlace("job-1", 0, 2, 90.0)
SAID = {"attempt": 4, "start_time": "2026-01-01T12:00:00.123Z", "status": "failed", "rerun": {"exit_code": 16}}


def document(store: MemoryStore) -> dict[str, object]:
    held = store.held.get(KEY)
    return {} if held is None else dict(json.loads(held.body))


def training_speaks(store: MemoryStore) -> None:
    store.put_text(KEY, json.dumps({**SAID, **OURS.fields()}))


def speaks_at(store: MemoryStore, operation: str, number: int) -> Callable[[str, str], None]:
    """Training writes right before that call for metadata.json, counted from 1."""
    seen = 0

    def hook(asked: str, key: str) -> None:
        nonlocal seen
        seen += (asked, key) == (operation, KEY)
        if seen == number:
            seen += 1
            training_speaks(store)

    return hook


def says_itself(store: MemoryStore) -> bool:
    blob = store.read(KEY, 1 << 16)
    return blob is not None and reported_by_training(blob.body, OURS)


MOMENTS = [
    pytest.param("write", 1, id="between its look and its first heartbeat"),
    pytest.param("write", 2, id="between the two writes of its first heartbeat"),
    pytest.param("write", 3, id="between its look and a later heartbeat"),
]


@pytest.mark.parametrize(("operation", "number"), MOMENTS)
def test_what_training_says_of_itself_stands_whenever_it_says_so(
    operation: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.before = speaks_at(store, operation, number)
    around = environment(store, beat_s=0.01, sharing=ExecInPlace(OURS, lambda: says_itself(store)))
    reporter = Reporter(lambda: around)
    with caplog.at_level(logging.WARNING):
        run = Run("run-1", reporter, 100)
        until(lambda: reporter.begun and document(store).get("status") == "failed")
        asked = len(store.calls)
        until(lambda: len(store.calls) > asked + 20)
        reporter.leave()
    assert document(store) == {**SAID, **OURS.fields()}
    assert not caplog.records
    assert not run.ended


def test_exec_begins_though_another_launch_keeps_writing() -> None:
    store = MemoryStore()
    store.before = lambda asked, key: (
        store.put_text(KEY, '{"attempt": 1}') if (asked, key) == ("write", KEY) and len(store.calls) < 40 else None
    )
    around = environment(store, beat_s=0.01, sharing=ExecInPlace(OURS, bool))
    reporter = Reporter(lambda: around)
    Run("run-1", reporter, 100)
    until(lambda: reporter.begun)
    reporter.leave()
    assert document(store)["attempt"] == 2


def test_exec_that_may_not_read_writes_without_a_condition() -> None:
    store = MemoryStore()

    store.refuse("read", DeniedError("no"))
    around = environment(store, beat_s=0.01, sharing=ExecInPlace(OURS, bool))
    reporter = Reporter(lambda: around)
    run = Run("run-1", reporter, 100)
    training_speaks(store)
    until(lambda: document(store).get("wraps") is True)
    assert run.fail("bad")
    assert "run-1/_error" in store.held
