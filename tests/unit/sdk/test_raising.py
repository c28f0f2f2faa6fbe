"""Alerts that training raises: taken at once, few an hour, and written for whoever watches."""

import json
import logging
from typing import Any

import pytest

from lastbeat.model.raised_alert import LIMIT_BYTES, MOST, RaisedAlert, encode_alerts, read_alerts
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.raising import HOURLY, RaisedAlerts, add_alerts
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.reporting import start
from support.there import there

KEY = "run/_alerts.json"


def written(store: MemoryStore) -> list[dict[str, Any]]:
    blob = store.read(KEY, LIMIT_BYTES)
    return list(json.loads(blob.body)["alerts"]) if blob is not None else []


def write(raised: RaisedAlerts, store: MemoryStore, rank: Rank | None = None, attempt: int = 1) -> None:
    """The next beat of a run, as its rank does it."""
    run, rank = Run("run", None), rank or Rank()
    raised.begin(start(run, rank))
    (raised.write if rank.leads else raised.follow)(Beat(run, store, "run/", 0.0, attempt=attempt))


class Odd:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_a_training_that_raises_one_with_each_step_is_limited_and_told_so(caplog: pytest.LogCaptureFixture) -> None:
    raised = RaisedAlerts()
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        taken = [raised.take("loss is high", f"at step {step}", "warning") for step in range(1000)]
    assert taken == [True] * HOURLY + [False] * (1000 - HOURLY)
    assert 1 < len(caplog.records) < 12
    assert "it takes 10 an hour" in caplog.text


def test_the_same_one_goes_out_once_an_hour() -> None:
    raised = RaisedAlerts()
    assert [raised.take("loss is high", "", "warning") for _ in range(3)] == [True, False, False]
    assert raised.take("loss is low", "", "warning")


LEVELS = [("info", "info"), ("WARN", "warning"), ("error", "error"), ("fatal", "info"), (None, "info"), (Odd(), "info")]


@pytest.mark.parametrize(("given", "level"), LEVELS)
def test_a_level_is_one_of_three(given: object, level: str) -> None:
    store, raised = MemoryStore(), RaisedAlerts()
    raised.take("text", "", given)
    write(raised, store)
    assert [each["level"] for each in written(store)] == [level]


@pytest.mark.parametrize(
    ("title", "text", "said"),
    [
        pytest.param("a", "b", ("a", "b"), id="texts"),
        pytest.param(7, None, ("7", None), id="a number"),
        pytest.param(Odd(), "b", (None, "b"), id="what has no text"),
        pytest.param("", "", ("(no text)", None), id="nothing"),
        pytest.param(
            "x" * 9999, "token hf_abcdefghijklmnopqrstuvwxyz", (200, "token ***"), id="too long, and a secret"
        ),
    ],
)
def test_what_is_raised_may_be_anything(title: object, text: object, said: tuple[object, object]) -> None:
    store, raised = MemoryStore(), RaisedAlerts()
    raised.take(title, text, "info")
    write(raised, store, Rank(3, 4), 2)
    (entry,) = written(store)
    expected, body = said
    assert entry.get("title") == expected or len(entry["title"]) == expected
    assert (entry.get("text"), entry["rank"], entry["attempt"]) == (body, 3, 2)


def test_what_could_not_be_written_waits_and_goes_out_once() -> None:
    store, raised = MemoryStore(), RaisedAlerts()
    raised.take("a", "", "info")

    def lose_the_answer(operation: str, _key: str) -> None:
        if operation == "write":
            store.before = lambda _operation, _key: None
            add_alerts(store, "run", [RaisedAlert(raised.waiting[0][0], "a")])
            raise UnreachableError("no answer")

    store.before = lose_the_answer
    with pytest.raises(StoreError):
        write(raised, store)
    assert len(raised.waiting) == 1
    raised.take("b", "", "info")
    write(raised, store)
    assert [each["title"] for each in written(store)] == ["a", "b"]
    assert not raised.waiting


def test_two_that_raise_at_once_both_come_through() -> None:
    store = MemoryStore()

    def other(operation: str, _key: str) -> None:
        if operation == "write":
            store.before = lambda _operation, _key: None
            add_alerts(store, "run", [RaisedAlert("other", "from rank 1")])

    store.before = other
    add_alerts(store, "run", [RaisedAlert("own", "from rank 0")])
    assert {each["title"] for each in written(store)} == {"from rank 0", "from rank 1"}


def test_where_training_may_not_read_it_writes_all_the_same() -> None:
    store = MemoryStore()

    store.refuse("read", DeniedError("no"))
    add_alerts(store, "run", [RaisedAlert("own", "text")])
    store.before = lambda _operation, _key: None
    assert [each["title"] for each in written(store)] == ["text"]


def test_the_document_is_bounded() -> None:
    store = MemoryStore()
    for number in range(MOST + 5):
        add_alerts(store, "run", [RaisedAlert(str(number), "\U0001f525" * 500, "\U0001f525" * 5000)])
    blob = there(store.read(KEY, 1 << 24))
    assert blob.size_bytes < LIMIT_BYTES
    assert [each.id for each in read_alerts(blob.body)] == [str(number) for number in range(5, MOST + 5)]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"\xff", b"[" * 10000, b"{}", b'{"alerts": 7}', b'{"alerts": [7, null, {}, {"id": 1}, {"id": "a"}]}'],
)
def test_a_document_of_nothing_is_no_alert(body: bytes) -> None:
    assert read_alerts(body) == ()


def test_what_was_written_is_read() -> None:
    alerts = (RaisedAlert("a", "title", "text", "error", "2026-08-01T10:00:00.000Z", 3, 2), RaisedAlert("b", "b"))
    assert read_alerts(encode_alerts("run", alerts)) == alerts
