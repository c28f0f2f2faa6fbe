"""Runs that no pass has recorded: the fleet's table shows what the view of each run shows, within limits."""

from collections.abc import Callable
from typing import Any

import pytest

from lastbeat.model.runid import ALERTS
from lastbeat.model.status import Status
from lastbeat.model.view import Row
from lastbeat.stores.port import UnreachableError
from lastbeat.views.log_judge import AGAIN_S, LogJudge
from lastbeat.views.one_run import RunWatch
from lastbeat.views.watching import FleetWatch
from lastbeat.watch.observe.log_observer import LogSettings
from support.fleet_views import HOUR, Looked, settle
from support.looked import OOM, STEPS
from support.memory import MemoryStore
from support.there import there
from support.world import TrainingRun

NCCL = (
    "[rank3]:[E] ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=18220, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds "
    "before timing out.\n"
)
LOG = "logs/training_log_latest.txt"


def watch(looked: Looked, state: MemoryStore | None = None, **options: Any) -> FleetWatch:
    """What a command looks with: one process, and the state directory of this machine."""
    catalogue = options.pop("catalogue", LogSettings())
    return looked.fresh(log_judge=LogJudge(looked.store, str, catalogue, state, threads=1, **options))


def silent(run: TrainingRun, log: str = STEPS + NCCL, age_s: float = HOUR) -> None:
    run.both(100, age_s=age_s)
    run.put(LOG, log, age_s=age_s)


def failed(run: TrainingRun) -> None:
    run.both(100, age_s=60)
    run.put(LOG, STEPS + OOM, age_s=60)
    run.error(OOM, age_s=60)


def lives_on(run: TrainingRun) -> None:
    run.both(100)
    run.put(LOG, STEPS + OOM, age_s=60)


def log_alone(run: TrainingRun) -> None:
    run.put(LOG, STEPS + OOM, age_s=HOUR)


def done(run: TrainingRun) -> None:
    run.both(1000)
    run.put(LOG, STEPS)
    run.complete()


SCENES: list[Any] = [
    pytest.param(silent, id="it fell silent after a collective timed out, which only its log says"),
    pytest.param(lambda run: silent(run, STEPS), id="it fell silent, and its log says nothing"),
    pytest.param(failed, id="it left an _error"),
    pytest.param(lambda run: run.error(OOM), id="it left nothing but an _error"),
    pytest.param(lives_on, id="its process beats on after it ran out of memory"),
    pytest.param(log_alone, id="it writes a log and nothing else"),
    pytest.param(lambda run: run.both(5), id="it lives and has no log"),
    pytest.param(lambda run: run.both(5, age_s=HOUR), id="it fell silent and has no log"),
    pytest.param(done, id="it is complete"),
]


def facts(row: Row) -> tuple[object, ...]:
    """As far as a table has room for it."""
    return row.status, row.reason[:150], row.cause, (row.action or "")[:300], row.conditions, row.recorded


@pytest.mark.parametrize("write", SCENES)
def test_the_table_and_the_run_say_the_same_before_the_first_pass(write: Callable[[TrainingRun], None]) -> None:
    looked = Looked()
    write(looked.run("a"))
    row = looked.row("a", watch(looked).open())
    view = there(RunWatch(looked.store, looked.policy, "a").look())
    assert facts(row) == facts(view.row)


def test_a_view_that_reads_no_logs_says_so_and_gives_no_advice() -> None:
    looked = Looked()
    silent(looked.run("a"))
    looked.run("b").both(5)
    view = looked.fresh().open()
    row = looked.row("a", view)
    assert (row.status, row.cause) == (Status.TIMED_OUT, None)
    assert (row.action or "").startswith("Not explained yet: ")
    assert "lastbeat show a" in (row.action or "")
    assert [note for note in view.notes if note.startswith("1 run not explained yet")]


def test_a_look_reads_the_logs_of_a_few_runs_the_failed_ones_first_and_the_next_goes_on() -> None:
    looked = Looked()
    log = STEPS + NCCL
    for number in range(12):
        looked.run(f"lives-{number:02}").both(5)
        looked.run(f"lives-{number:02}").put(LOG, STEPS)
    for number in range(12):
        silent(looked.run(f"dead-{number:02}"), log, age_s=HOUR + number)
    watching = watch(looked, log_bytes=5 * len(log))
    for explained in (5, 10, 12):
        view = watching.open() if explained == 5 else watching.round()
        assert {row.run_id for row in view.rows if row.cause} == {f"dead-{number:02}" for number in range(explained)}
        left = [note for note in view.notes if "not explained yet" in note]
        assert [note.split()[0] for note in left] == ([str(12 - explained)] if explained < 12 else [])


def test_the_next_command_does_not_read_the_same_logs_again() -> None:
    looked, state = Looked(), MemoryStore()
    silent(looked.run("a"))
    first = looked.row("a", watch(looked, state).open())
    looked.asked()
    again = looked.row("a", watch(looked, state).open())
    assert f"a/{LOG}" not in looked.asked()
    assert facts(again) == facts(first)


KEPT: list[Any] = [
    pytest.param(b"[]", id="something else"),
    pytest.param(b'{"stamp": "1 0.0 default", "runs": []}', id="what another version found"),
    pytest.param(b"[" * 100_000, id="nested too deeply"),
]


@pytest.mark.parametrize("body", KEPT)
def test_what_cannot_be_used_in_the_state_directory_counts_for_nothing(body: bytes) -> None:
    looked, state = Looked(), MemoryStore()
    silent(looked.run("a"))
    first = looked.row("a", watch(looked, state).open())
    for key in list(state.held):
        state.write(key, body)
    assert facts(looked.row("a", watch(looked, state).open())) == facts(first)


def test_a_state_directory_that_cannot_be_used_costs_nothing_but_reading_again() -> None:
    looked, state = Looked(), MemoryStore()
    silent(looked.run("a"))

    state.refuse("any", UnreachableError("the disk is gone"))
    assert looked.row("a", watch(looked, state).open()).cause == "nccl_timeout"


def test_a_run_whose_documents_cannot_be_had_for_that_is_asked_again_later() -> None:
    looked = Looked()
    silent(looked.run("a"))
    looked.run("a").put(ALERTS, "[]", age_s=HOUR)

    looked.store.refuse("read", UnreachableError("the store is slow"), key=f"a/{ALERTS}")
    watching = watch(looked)
    assert (looked.row("a", watching.open()).action or "").startswith("Not explained yet: ")
    looked.store.before = lambda operation, key: None
    looked.after(AGAIN_S)
    assert looked.row("a", watching.round()).cause == "nccl_timeout"


def test_a_run_that_goes_on_writing_is_read_once_a_minute() -> None:
    looked = Looked()
    run = looked.run("a")
    run.both(5)
    run.put(LOG, STEPS)
    watching = watch(looked)
    watching.open()
    looked.asked()
    for _ in range(4):
        looked.after(AGAIN_S / 4)
        run.both(6)
        run.put(LOG, STEPS + f"step {looked.now}\n")
        watching.round()
    assert looked.asked()[f"a/{LOG}"] == 1


def test_where_requests_cost_money_no_interval_costs_more_for_it() -> None:
    looked = Looked(paid=True)
    for number in range(5):
        silent(looked.run(f"dead-{number:02}"))
    watching = watch(looked)
    watching.open()
    for number in range(5):
        silent(looked.run(f"later-{number:02}"))
    for _ in range(10):
        looked.asked()
        watching.round()
        assert sum(looked.asked().values()) <= 14, "a listing, or as many reads as cost what one does"
    rows = settle(watching, rounds=24).rows
    assert {row.cause for row in rows} == {"nccl_timeout"}


def test_once_a_pass_has_recorded_a_run_its_record_counts() -> None:
    looked = Looked()
    silent(looked.run("a"))
    watching = watch(looked)
    watching.open()
    looked.passes()
    looked.asked()
    row = looked.row("a", watching.round())
    assert (row.recorded, row.status, row.cause) == (True, Status.FAILED, "nccl_timeout")
    assert f"a/{LOG}" not in looked.asked()
