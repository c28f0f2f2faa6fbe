"""All records of a fleet are read within bounds, and what could not be read is told."""

from lastbeat.fleet.all_records import all_records, ended_long_ago, never_supervised
from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.stores.port import UnreachableError
from lastbeat.watch.record.codec import encode
from support.memory import MemoryStore
from support.world import World, running


def recorded(store: MemoryStore, *names: str) -> MemoryStore:
    for name in names:
        store.pass_time(10)
        store.write(f"{name}/_watchdog.json", encode(Record(name, State(Status.RUNNING))))
    return store


def ids(store: MemoryStore, **options: int) -> list[str]:
    return [record.run_id for record in all_records(store, **options).read()]  # type: ignore[arg-type]


def test_the_records_that_were_written_last_come_first_and_no_more_than_asked_for() -> None:
    store = recorded(MemoryStore(), "a", "b", "c")
    assert ids(store) == ["c", "b", "a"]
    found = all_records(store, most=2)
    assert ([each.run_id for each in found.read()], found.unread, found.runs) == (["c", "b"], 1, 3)


def test_what_cannot_be_used_is_counted_with_the_reason() -> None:
    store = recorded(MemoryStore(), "good")
    store.put_text("bad/_watchdog.json", "{")
    store.write("liar/_watchdog.json", encode(Record("good")))
    store.put_text("new/metadata.json", "{}")
    found = all_records(store)
    assert [each.run_id for each in found.read()] == ["good"]
    assert (found.unusable, found.unrecorded, set(found.faults)) == (2, 1, {"bad", "liar"})
    assert found.faults["liar"] == "it is another run's"


def test_a_record_that_cannot_be_read_hides_no_other() -> None:
    store = recorded(MemoryStore(), "a", "b")
    store.refuse("read", UnreachableError("503"), under="a/_watchdog.json")
    found = all_records(store)
    assert ([each.run_id for each in found.read()], found.faults) == (["b"], {"a": "503"})


def test_what_passes_know_spares_reads_until_it_changes() -> None:
    world = running(2)
    world.sweep(restarted=True)
    found = all_records(world.store, skip=never_supervised)
    assert (list(found.read()), found.skipped) == ([], 2)
    world.store.write("run-0001/_watchdog.json", encode(Record("run-0001", seq=99)))
    assert [each.run_id for each in all_records(world.store, skip=never_supervised).read()] == ["run-0001"]


def test_a_run_that_ended_long_ago_is_passed_over_until_it_is_begun_again() -> None:
    world = World()
    run = world.run("a")
    run.both(1)
    run.complete()
    world.sweep(restarted=True)
    world.after(3 * 86400)
    world.sweep(restarted=True)
    assert all_records(world.store, skip=ended_long_ago).skipped == 1
    world.store.write("a/_watchdog.json", encode(Record("a", seq=99)))
    assert [each.run_id for each in all_records(world.store, skip=ended_long_ago).read()] == ["a"]
