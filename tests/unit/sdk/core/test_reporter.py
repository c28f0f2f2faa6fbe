"""The beat thread over a store in memory: what it writes, in which order, and what it does not wait for."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lastbeat.model import runid
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.reporting import environment
from support.waiting import until


@contextmanager
def running(
    store: MemoryStore, *, beat_s: float = 0.05, restarts: int = 0, resume: bool = False
) -> Iterator[tuple[Run, Reporter]]:
    """A run that beats for as long as the block lasts."""
    around = environment(store, "i-0abc", restarts=restarts, beat_s=beat_s, resume=resume)
    reporter = Reporter(lambda: around)
    run = Run("run-1", reporter, 100)
    try:
        yield run, reporter
    finally:
        store.before = lambda _operation, _key: None
        run.complete()


def read(store: MemoryStore, name: str) -> dict[str, Any]:
    blob = store.read(f"run-1/{name}", 1 << 20)
    return dict(json.loads(blob.body)) if blob is not None else {}


def written(store: MemoryStore) -> list[str]:
    return [key.removeprefix("run-1/") for operation, key in store.calls if operation == "write"]


def test_an_attempt_beats_first_and_ends_then() -> None:
    store = MemoryStore()
    with running(store) as (run, _):
        until(lambda: read(store, runid.METADATA))
        run.step(1, loss=2.0)
        until(lambda: read(store, runid.PROGRESS))
        assert run.fail("bad")
    order = written(store)
    assert order[0] == runid.METADATA
    assert order[-1] == runid.ERROR
    assert order.count(runid.ERROR) == 1
    # The last heartbeat says so, too.
    assert read(store, runid.METADATA)["status"] == "failed"


def test_a_heartbeat_says_how_often_it_comes_and_the_longest_that_it_took() -> None:
    store = MemoryStore()
    with running(store, beat_s=0.05):
        until(lambda: "longest_gap_s" in read(store, runid.METADATA))
        store.before = lambda operation, _key: time.sleep(0.6) if operation == "write" else None
        until(lambda: read(store, runid.METADATA)["longest_gap_s"] >= 0.5)
        document = read(store, runid.METADATA)
        store.before = lambda _operation, _key: None
    assert document["beat_seconds"] == 0.05


def test_progress_is_written_when_the_step_advances_and_not_otherwise() -> None:
    store = MemoryStore()
    with running(store, beat_s=0.01) as (run, _):
        run.step(5, loss=2.0)
        until(lambda: read(store, runid.PROGRESS))
        beats = len(written(store))
        run.step(5, loss=1.0)
        until(lambda: len(written(store)) > beats + 5)
        assert written(store).count(runid.PROGRESS) == 1
        run.step(4)
        until(lambda: read(store, runid.PROGRESS)["step"] == 4)
        run.step(4, loss=0.5)
        assert run.complete()
    assert read(store, runid.PROGRESS)["loss"] == 0.5, "the last word counts, whatever its step"


BEFORE = [
    pytest.param(None, {}, 1, id="the first attempt"),
    pytest.param({"attempt": 2}, {}, 3, id="the one after what lies there"),
    pytest.param({"last_update": "2026-01-01"}, {}, 2, id="metadata from a shell script was the first"),
    pytest.param({"attempt": 1}, {"restarts": 4}, 5, id="a scheduler knows of more"),
    pytest.param(None, {"resume": True}, 2, id="a resumed run whose files are gone"),
    pytest.param({"attempt": 6}, {"resume": True, "restarts": 3}, 7, id="a resumed run goes on counting"),
]


@pytest.mark.parametrize(("document", "options", "attempt"), BEFORE)
def test_the_number_of_the_attempt(document: dict[str, Any] | None, options: dict[str, Any], attempt: int) -> None:
    store = MemoryStore()
    if document is not None:
        store.put_text("run-1/metadata.json", json.dumps(document))
    for name in (runid.ERROR, runid.COMPLETE):
        store.put_text(f"run-1/{name}", "of the attempt before")
    with running(store, **options):
        until(lambda: "start_time" in read(store, runid.METADATA))
        until(lambda: not {f"run-1/{name}" for name in (runid.ERROR, runid.COMPLETE)} & set(store.held))
        assert read(store, runid.METADATA)["attempt"] == attempt


LOST = [pytest.param("write", id="its first heartbeat"), pytest.param("delete", id="its deletions")]


@pytest.mark.parametrize("operation", LOST)
def test_an_attempt_whose_start_is_tried_again_is_counted_once(operation: str) -> None:
    store = MemoryStore()
    store.put_text("run-1/metadata.json", '{"attempt": 3}')
    lost = iter([True])

    def answer_lost(asked: str, _key: str) -> None:
        if asked == operation and next(lost, False):
            raise UnreachableError("the answer got lost")

    store.after = answer_lost
    with running(store) as (run, _):
        until(lambda: read(store, runid.METADATA).get("attempt") == 4)
        run.step(1)
        until(lambda: read(store, runid.PROGRESS))
    assert read(store, runid.METADATA)["attempt"] == 4


def test_an_end_whose_answer_is_lost_is_written_once() -> None:
    store, lost = MemoryStore(), iter([True])

    def answer_lost(asked: str, key: str) -> None:
        if asked == "write" and key.endswith(runid.ERROR) and next(lost, False):
            raise UnreachableError("the answer got lost")

    store.after = answer_lost
    with running(store) as (run, _):
        until(lambda: read(store, runid.METADATA))
        assert run.fail("bad")
    assert store.held["run-1/_error"].body == b"bad"
    assert written(store).count(runid.ERROR) == 2


def test_a_write_that_hangs_holds_up_nobody() -> None:
    store, released = MemoryStore(), threading.Event()

    def hang(operation: str, _key: str) -> None:
        if operation == "write":
            released.wait()

    with running(store) as (run, _):
        until(lambda: read(store, runid.METADATA))
        store.before = hang
        for step in range(1000):
            run.step(step, loss=1.0)
        began = time.monotonic()
        assert not run.complete(wait_s=0.2)
        assert time.monotonic() >= began + 0.2
        released.set()
        until(lambda: "run-1/_complete" in store.held)
    assert read(store, runid.PROGRESS)["step"] == 999


OUTAGES = [
    pytest.param(UnreachableError("503 Slow Down"), id="a store that cannot be reached"),
    pytest.param(DeniedError("ExpiredToken"), id="credentials that have expired"),
    pytest.param(RuntimeError("nobody thought of this"), id="an error that nobody thought of"),
]


@pytest.mark.parametrize("error", OUTAGES)
def test_an_outage_is_one_warning_and_its_end_brings_the_latest_state(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store, asked = MemoryStore(), [0]

    def fail(_operation: str, _key: str) -> None:
        asked[0] += 1
        raise error

    with running(store) as (run, _):
        run.step(1)
        until(lambda: read(store, runid.PROGRESS))
        store.before = fail
        until(lambda: asked[0] >= 2)
        run.step(2)
        store.before = lambda _operation, _key: None
        until(lambda: read(store, runid.PROGRESS)["step"] == 2)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert str(error) in warnings[0]


def test_a_run_without_a_reporter_takes_everything_and_does_nothing() -> None:
    run = Run("run-1", None)
    with run, run.phase("x"):
        run.step(1, loss=object())
    assert not run.complete()
    assert not run.ended
