"""Which runs failed how: shared by all watchers of a fleet, bounded, and never in the way of an alert."""

import json
import threading
from datetime import datetime, timedelta

import pytest

from lastbeat.model.record import Attempt, Record
from lastbeat.model.similar import KNOWN_FAILURES, WENT_ON, SimilarFailure
from lastbeat.stores.port import DeniedError, Store, UnreachableError
from lastbeat.watch.record.codec import encode
from lastbeat.watch.record.fleet_document import LIMIT_BYTES
from lastbeat.watch.record.known_failures import MOST_RUNS, KnownFailures
from support.memory import START, MemoryStore
from support.there import there

HOUR = timedelta(hours=1)
OOM = "aaaaaaaaaaaa"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def failed(store: Store, run_id: str, at: datetime = START, fingerprint: str = OOM, attempt: int = 1) -> None:
    known = KnownFailures(store)
    known.saw(fingerprint, "oom", run_id, attempt, at)
    known.save()


def unjudged(_record: Record, _attempt: int, _fingerprint: str) -> str:
    return ""


def similar(
    store: Store, run_id: str = "new", now: datetime = START + HOUR, attempt: int = 1, fingerprint: str = OOM
) -> SimilarFailure | None:
    return KnownFailures(store).similar(fingerprint, run_id, attempt, now, unjudged)


def test_the_latest_run_that_failed_like_this_is_found_by_another_process(store: MemoryStore) -> None:
    assert similar(store) is None
    failed(store, "old", START - 48 * HOUR)
    failed(store, "younger", START - 24 * HOUR)
    failed(store, "different", START, "bbbbbbbbbbbb")
    assert similar(store) == SimilarFailure("younger", START - 24 * HOUR, runs=3)
    assert similar(store, "younger", attempt=2) == SimilarFailure("old", START - 48 * HOUR, runs=2)


def test_where_no_other_run_failed_like_this_it_is_an_earlier_attempt_of_its_own(store: MemoryStore) -> None:
    failed(store, "new", START - HOUR)
    assert similar(store, attempt=2) == SimilarFailure("new", START - HOUR, own=True, runs=1)
    assert similar(store, attempt=1) is None, "this very failure is no earlier one"


def test_what_is_told_in_words() -> None:
    now = START
    found = SimilarFailure("x", START - 24 * HOUR, runs=3, aftermath=WENT_ON)
    assert found.told(now) == "same as run x on 31 Dec 2025 (3 runs so far), which went on after a restart"
    own = SimilarFailure("x", START, 2, own=True)
    assert own.told(now) == "same as attempt 2 of this run on 1 Jan"
    assert SimilarFailure("x", START, aftermath="of a newer version").told(now) == "same as run x on 1 Jan"


def test_a_run_counts_once_however_often_it_fails_and_only_the_latest_runs_are_named(store: MemoryStore) -> None:
    for number in range(MOST_RUNS + 5):
        failed(store, f"run-{number}", START + number * timedelta(seconds=1))
        failed(store, f"run-{number}", START + number * timedelta(seconds=1), attempt=2)
    found = there(similar(store))
    assert (found.run_id, found.attempt, found.runs) == (f"run-{MOST_RUNS + 4}", 1, MOST_RUNS + 6)


def test_the_document_stays_small_and_forgets_what_failed_longest_ago() -> None:
    store = MemoryStore()
    known = KnownFailures(store)
    for number in range(400):
        run_id = f"{number:04}-" + "x" * 190
        known.saw(f"{number:012x}", "oom", run_id, 1, START + number * timedelta(seconds=1))
    known.save()
    assert len(store.held[KNOWN_FAILURES].body) < LIMIT_BYTES
    assert similar(store, fingerprint=f"{399:012x}") is not None
    assert similar(store, fingerprint=f"{0:012x}") is None


DAMAGED = [
    pytest.param(b'{"schema": 1, "failures": 7}', id="of another shape"),
    pytest.param(b'{"schema": 1, "failures": [{"fingerprint": ["x"], "error_type": null}]}', id="odd entries"),
    pytest.param(
        b'{"schema": 1, "failures": [{"fingerprint": "aaaaaaaaaaaa", "error_type": "oom", "runs": [["r", 1e300, 1]]}]}',
        id="a time that no calendar has",
    ),
    pytest.param(
        b'{"schema": 1, "failures": [{"fingerprint": "aaaaaaaaaaaa", "error_type": "oom", "runs": [["r", NaN, 1]]}]}',
        id="no time",
    ),
]


@pytest.mark.parametrize("body", DAMAGED)
def test_a_damaged_document_costs_the_line_and_is_made_anew(body: bytes) -> None:
    store = MemoryStore()
    store.write(KNOWN_FAILURES, body)
    assert similar(store) is None
    failed(store, "old")
    assert there(similar(store)).run_id == "old"


def test_names_that_no_run_may_have_are_left_out() -> None:
    store = MemoryStore()
    runs = [["<!channel> http://evil", 1767268800, 1], ["../../etc", 1767268800, 1], ["fair", 1767268700, 1]]
    entry = {"fingerprint": OOM, "error_type": "oom", "runs": runs, "earlier": -5}
    store.write(KNOWN_FAILURES, json.dumps({"schema": 1, "failures": [entry]}).encode())
    found = there(similar(store))
    assert (found.run_id, found.runs) == ("fair", 2)


def test_what_a_newer_version_wrote_is_neither_read_nor_touched() -> None:
    store = MemoryStore()
    body = b'{"schema": 2, "failures": {}}'
    store.write(KNOWN_FAILURES, body)
    assert similar(store) is None
    failed(store, "old")
    assert store.held[KNOWN_FAILURES].body == body


@pytest.mark.parametrize("error", [UnreachableError("no answer"), DeniedError("no")], ids=["no answer", "not allowed"])
def test_a_store_that_refuses_is_asked_once_a_minute_and_nothing_is_raised(error: Exception) -> None:
    store = MemoryStore()

    store.refuse("any", error, named=KNOWN_FAILURES)
    known = KnownFailures(store)
    for second in range(100):
        assert known.similar(OOM, f"run-{second}", 1, START + second * timedelta(seconds=0.1), unjudged) is None
    known.saw(OOM, "oom", "run-0", 1, START)
    known.save()
    assert store.calls.count(("read", KNOWN_FAILURES)) == 2, "once to ask, once to save"
    store.before = lambda _operation, _key: None
    known.save()
    assert similar(store) is not None, "what could not be saved is saved later"


def test_a_store_that_hangs_holds_no_alert() -> None:
    store, go_on = MemoryStore(), threading.Event()

    def hang(_operation: str, _key: str) -> None:
        go_on.wait(60)

    failed(store, "old")
    store.before = hang
    assert KnownFailures(store, answer_s=0.05).similar(OOM, "new", 1, START + HOUR, unjudged) is None
    go_on.set()


def test_a_slow_store_costs_all_alerts_of_a_minute_together_a_few_seconds() -> None:
    store, clock = MemoryStore(), [0.0]
    for number in range(8):
        store.write(f"old-{number}/_watchdog.json", encode(Record(f"old-{number}", attempt=Attempt(2))))
        failed(store, f"old-{number}", START - HOUR, f"{number:012}")

    def slow(_operation: str, key: str) -> None:
        clock[0] += 0.0 if key == KNOWN_FAILURES else 90.0

    store.before = slow
    known = KnownFailures(store, answer_s=300.0, steady=lambda: clock[0])

    def aftermaths(now: datetime) -> list[str]:
        found = [known.similar(f"{number:012}", "new", 1, now, lambda *_: WENT_ON) for number in range(8)]
        return [each.aftermath for each in found if each is not None]

    assert aftermaths(START) == [WENT_ON] * 4 + [""] * 4
    assert clock[0] == 4 * 90
    assert aftermaths(START + HOUR).count(WENT_ON) == 4, "later there is time again"


def test_of_what_cannot_be_saved_the_latest_is_kept() -> None:
    store = MemoryStore()
    newer = b'{"schema": 2}'
    store.write(KNOWN_FAILURES, newer)
    known = KnownFailures(store)
    for number in range(2500):
        known.saw(f"{number:012}", "oom", f"run-{number}", 1, START + timedelta(seconds=number))
    known.save()
    assert store.held[KNOWN_FAILURES].body == newer
    assert known.similar(f"{0:012}", "new", 1, START + HOUR, unjudged) is None
    store.delete(KNOWN_FAILURES)
    known.save()
    written = json.loads(store.held[KNOWN_FAILURES].body)["failures"]
    assert 100 < len(written) <= 1000
    assert similar(store, fingerprint=f"{2499:012}") is not None


def test_a_thousand_that_fail_at_once_cost_one_read_and_one_change() -> None:
    store = MemoryStore()
    for number in range(20):
        store.write(f"old-{number}/_watchdog.json", encode(Record(f"old-{number}", attempt=Attempt(1))))
        failed(store, f"old-{number}", START - (30 - number) * HOUR)
    store.calls.clear()
    known = KnownFailures(store)
    for number in range(1000):
        known.similar(OOM, f"run-{number}", 1, START, unjudged)
        known.saw(OOM, "oom", f"run-{number}", 1, START)
    known.save()
    assert sorted(store.calls) == [("read", KNOWN_FAILURES)] * 2 + [("read", "old-19/_watchdog.json")] + [
        ("write", KNOWN_FAILURES)
    ]


def test_what_became_of_it_is_asked_of_its_record_once_it_can_be_known() -> None:
    store = MemoryStore()
    store.write("old/_watchdog.json", encode(Record("old", attempt=Attempt(2))))
    failed(store, "old", START - HOUR)
    asked: list[tuple[str, int, str]] = []

    def judge(record: Record, attempt: int, fingerprint: str) -> str:
        asked.append((record.run_id, attempt, fingerprint))
        return WENT_ON

    known = KnownFailures(store)
    for _ in range(2):
        assert there(known.similar(OOM, "new", 1, START, judge)).aftermath == WENT_ON
    assert asked == [("old", 1, OOM)]


def test_a_record_that_cannot_be_used_tells_nothing() -> None:
    store = MemoryStore()
    store.write("old/_watchdog.json", b"{")
    failed(store, "old", START - HOUR)
    assert there(similar(store)).aftermath == ""
