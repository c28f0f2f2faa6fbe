"""What the failures of a fleet cost: read within bounds, no record twice, and nothing hidden that is not known."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from lastbeat.model.action import Action
from lastbeat.model.losses import Dimension
from lastbeat.model.record import Attempt, LeftOut, Record, Transition
from lastbeat.model.restart import RESTART_KIND
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.model.timesheet import AttemptTimes, Timesheet
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.views.fleet_losses import MOST_FINGERPRINTS, MOST_GROUPS, LossReader, losses_document
from lastbeat.watch.record.codec import encode
from support.fleet_views import Looked
from support.memory import START, MemoryStore

DAY = 86400.0


def record(
    run_id: str, hours_ago: float = 1.0, reason: str = "boom", fingerprint: str = "aa", signal: str | None = None
) -> Record:
    failed = Transition(
        1, START - timedelta(hours=hours_ago), None, Status.FAILED, reason, 1, "oom", signal=signal,
        fingerprint=fingerprint, node="node-1",
    )  # fmt: skip
    return Record(run_id, State(Status.FAILED), attempt=Attempt(1), history=(failed,), transitions=1)


def waiting(run_id: str) -> Record:
    """One whose restart waits for its time: it lies dead for longer and longer."""
    hour = timedelta(hours=1)
    failed = START - hour
    times = AttemptTimes(
        1, started_at=failed - hour, first_step=1, first_step_at=failed - hour, last_step=10, last_step_at=failed,
        died_at=failed, seen_at=failed, end=Status.FAILED,
    )  # fmt: skip
    restart = Action(f"{run_id}-r1", RESTART_KIND, failed, "", "")
    return replace(record(run_id), timesheet=Timesheet((times,)), actions=(restart,))


def fleet(*records: Record) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        store.write(f"{each.run_id}/_watchdog.json", encode(each))
    return store


def reads(store: MemoryStore) -> list[str]:
    return [key for operation, key in store.calls if operation == "read"]


def test_a_record_that_did_not_change_is_read_once() -> None:
    store = fleet(record("a"), record("b"))
    reader = LossReader(store, "memory")
    assert len(reader.read(DAY).failures) == 2
    store.write("b/_watchdog.json", encode(record("b", reason="again")))
    store.calls.clear()
    found = reader.read(DAY)
    assert reads(store) == ["b/_watchdog.json"]
    assert sorted(each.said for each in found.failures) == ["again", "boom"]


def test_only_what_failed_within_the_time_counts_and_older_records_are_not_read() -> None:
    store = fleet(record("young"), record("long-ago", hours_ago=40))
    store.put_text("old/_watchdog.json", "{", modified=START - timedelta(days=3))
    found = LossReader(store, "memory").read(DAY)
    assert [each.run_id for each in found.failures] == ["young"]
    assert (found.older, found.runs, found.records.unusable) == (1, 2, 0)


def test_records_that_are_too_many_are_told_if_they_are_young_enough_and_only_what_is_left_is_read_next() -> None:
    store = fleet(*(record(f"run-{number}") for number in range(5)))
    for number in range(7):
        store.put_text(f"old-{number}/_watchdog.json", "{", modified=START - timedelta(days=3))
    reader = LossReader(store, "memory", most=4)
    found = [reader.read(DAY, most=3) for _ in range(2)]
    assert [(each.records.unread, each.left, each.older) for each in found] == [(2, 1, 7), (1, 0, 7)]


def test_the_hours_of_a_run_that_waits_for_its_restart_grow_while_its_record_stays_the_same() -> None:
    store = fleet(waiting("a"), record("b"))
    reader = LossReader(store, "memory")
    lay = []
    for _ in range(2):
        lay.append(reader.read(DAY).total.dead_s)
        store.pass_time(3600)
    assert lay == [3600.0, 7200.0]
    assert sorted(reads(store)) == ["a/_watchdog.json"] * 2 + ["b/_watchdog.json"]


def test_a_record_that_is_known_and_could_not_be_read_again_in_time_is_not_one_that_was_not_read() -> None:
    store = fleet(waiting("a"), record("b"))
    reader = LossReader(store, "memory")
    reader.read(DAY)
    in_vain = reader.read(DAY, until=0.0)
    assert (len(in_vain.failures), in_vain.left, in_vain.records.unread) == (2, 0, 0)
    store.write("new/_watchdog.json", encode(record("new")))
    in_vain = reader.read(DAY, until=0.0)
    assert (len(in_vain.failures), in_vain.left, in_vain.records.unread) == (2, 1, 1)


@pytest.mark.parametrize(("status", "shown"), [("inner-name", "'***-name'"), ("hf_" + "a" * 34, "'***")])
def test_what_is_wrong_with_a_record_is_told_masked(status: str, shown: str) -> None:
    store = fleet(record("a"))
    odd = {**json.loads(store.held["a/_watchdog.json"].body), "status": status}
    store.write("a/_watchdog.json", json.dumps(odd).encode())
    (note,) = losses_document(LossReader(store, "memory", lambda text: text.replace("inner", "***")).read(DAY))["notes"]
    assert shown in note
    assert status[:8] not in note


def test_runs_without_anything_recorded_are_counted_not_passed_over() -> None:
    store = fleet(Record("thin"), record("cut"))
    store.write("cut/_watchdog.json", encode(Record("cut", transitions=60, history=record("cut").history)))
    store.put_text("new/metadata.json", "{}")
    store.put_text("broken/_watchdog.json", "{")
    told = losses_document(LossReader(store, "memory").read(DAY))
    assert {name: told[name] for name in ("thin", "cut", "unrecorded", "unusable")} == {
        "thin": 1, "cut": 1, "unrecorded": 1, "unusable": 1,
    }  # fmt: skip
    assert len(told["notes"]) == 5


def test_a_run_that_was_forgotten_does_not_count() -> None:
    gone = Record("gone", history=record("gone").history, left_out=LeftOut(START, "a@b", forgotten=True))
    assert LossReader(fleet(gone), "memory").read(DAY).failures == []


def test_hostile_words_are_harmless_masked_and_bounded() -> None:
    token = "hf_" + "a" * 34
    store = fleet(record("a", reason=f"\x1b[31mboom \u202e{token}" + "x" * 5000, fingerprint="f" * 5000))
    (failure,) = LossReader(store, "memory", lambda text: text.replace("boom", "***")).read(DAY).failures
    assert failure.said.startswith("*** ")
    assert token not in failure.said
    assert (len(failure.said) <= 300, len(failure.fingerprint or "") <= 100) == (True, True)


def test_the_document_is_bounded_and_plain_json() -> None:
    many = [
        record(f"run-{kind}-{number}", fingerprint=f"{kind}-{number:04}", signal=f"signal-{kind}")
        for kind in range(MOST_GROUPS + 7)
        for number in range(2 if kind else MOST_FINGERPRINTS + 3)
    ]
    told = losses_document(LossReader(fleet(*many), "memory").read(DAY))
    assert (len(told["causes"]), told["left_out"]["causes"], told["left_out"]["nodes"]) == (MOST_GROUPS, 7, 0)
    first = told["causes"][0]
    assert (first["signal"], len(first["fingerprints"]), first["fingerprints_left_out"]) == (
        "signal-0", MOST_FINGERPRINTS, 3,
    )  # fmt: skip
    assert len(json.dumps(told, allow_nan=False)) < 200_000


def test_a_cause_tells_its_fingerprints_and_when_it_happened() -> None:
    long_ago, lately = record("a", hours_ago=1, fingerprint="aa"), record("b", hours_ago=2, fingerprint="bb")
    died = AttemptTimes(
        1, started_at=START - timedelta(hours=30), died_at=START - timedelta(hours=20), end=Status.FAILED
    )
    told = losses_document(
        LossReader(fleet(replace(long_ago, timesheet=Timesheet((died,))), lately), "memory").read(DAY)
    )
    (cause,) = told["causes"]
    assert (cause["last_run"], cause["failures"], cause["name"]) == ("b", 2, "bb")
    assert [(each["name"], each["last_at"], each["last_seen_at"]) for each in cause["fingerprints"]] == [
        ("aa", "2025-12-31T16:00:00Z", "2026-01-01T11:00:00Z"), ("bb", "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
    ]  # fmt: skip


def test_what_happened_before_the_time_that_is_asked_for_does_not_count_though_it_was_seen_since() -> None:
    died = AttemptTimes(1, started_at=START - timedelta(days=9), died_at=START - timedelta(days=8), end=Status.FAILED)
    store = fleet(record("young"), replace(record("found-dead"), timesheet=Timesheet((died,))))
    assert [each.run_id for each in LossReader(store, "memory").read(DAY).failures] == ["young"]


def test_a_store_that_cannot_be_seen_is_no_fleet_without_failures() -> None:
    store = fleet(record("a"))

    store.refuse("any", UnreachableError("503"))
    with pytest.raises(StoreError):
        LossReader(store, "memory").read(DAY)


def test_groups_by_each_dimension_are_offered() -> None:
    found = LossReader(fleet(record("a")), "memory").read(DAY)
    assert {str(by): [each.name for each in found.by(by)] for by in Dimension} == {
        "cause": ["oom FAILED"], "node": ["node-1"], "user": [""], "step-range": [""],
    }  # fmt: skip


def test_the_numbers_of_the_first_day_do_not_count_time_before_the_watchdog() -> None:
    looked = Looked()
    old = looked.run("old")
    old.both(50, age_s=18 * 3600)
    old.error("ConnectionError: Connection reset by peer", age_s=18 * 3600)
    looked.passes()
    looked.after(3600)
    # It began and died while no pass was made.
    new = looked.run("new")
    new.both(50, age_s=1200)
    new.error("ConnectionError: Connection reset by peer", age_s=1200)
    looked.passes()
    found = LossReader(looked.store, "memory").read(DAY)
    assert {each.run_id: each.loss.dead_s for each in found.failures} == {"old": 0.0, "new": 1200.0}
