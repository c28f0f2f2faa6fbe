"""Whatever goes wrong with a part of a beat: the rest of it is written, the thread beats on, and the end is told."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lastbeat.model import runid
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunEnvironment
from lastbeat.training.sdk.learning import Learning
from lastbeat.training.sdk.log_shipping import LogShipping, LogWindow
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import SectionLimits
from support.hostile import Panic
from support.memory import MemoryStore
from support.pairwise import all_pairs
from support.reporting import environment, ranked
from support.waiting import until

LIMIT_S = 60.0
FAULTS: dict[str, Callable[[], BaseException]] = {
    "a store that refuses": lambda: DeniedError("AccessDenied"),
    "a full disk": lambda: StoreError("No space left on device"),
    "an error that nobody thought of": lambda: RuntimeError("nobody thought of this"),
    "a panic in a library": lambda: Panic("index out of bounds"),
    "an exit": lambda: SystemExit(3),
}


def failing(store: MemoryStore, operation: str, name: str, fault: Callable[[], BaseException]) -> None:
    """From now on ``store`` does not do that."""

    def before(asked: str, key: str) -> None:
        if asked == operation and key.endswith(name):
            raise fault()

    store.before = before


def count(store: MemoryStore, name: str) -> int:
    return store.calls.count(("write", f"r/{name}"))


class Broken(BeatTask):
    """Raises."""

    purpose = "break"

    def __init__(self, fault: Callable[[], BaseException]) -> None:
        self._fault = fault

    def write(self, beat: Beat) -> None:
        raise self._fault()

    def close(self) -> None:
        raise self._fault()


class Words:
    """A log of one line."""

    def __init__(self) -> None:
        self.closed = False

    def read_into(self, window: LogWindow) -> None:
        window.feed("a line\n")

    def close(self) -> None:
        self.closed = True


PARTS = {
    "its heartbeat": ("write", runid.METADATA),
    "its progress": ("write", runid.PROGRESS),
    "its log": ("write", runid.LOG),
    "its rank's heartbeat": ("write", "ranks/0.json"),
    "reading what is there": ("read", ""),
    "deleting what was there": ("delete", ""),
}
FROM = ["from the start", "after a step"]
# Progress that was written, and what was there, are left alone later on; a rank alone has no heartbeat of its own.
FAULTS_OF_PARTS = [
    *all_pairs(["its heartbeat", "its log"], FAULTS, [1, 2], FROM),
    *all_pairs(["its progress", "reading what is there", "deleting what was there"], FAULTS, [1, 2], FROM[:1]),
    *all_pairs(["its rank's heartbeat"], FAULTS, [2], FROM),
]


@pytest.mark.parametrize(("part", "fault", "world", "since"), FAULTS_OF_PARTS)
def test_no_part_keeps_the_end_back(part: str, fault: str, world: int, since: str) -> None:
    store, failed = MemoryStore(), threading.Event()
    around = environment(store, beat_s=0.01, rank=Rank(0, world), rank_beat_s=0.01)

    def raised() -> BaseException:
        failed.set()
        return FAULTS[fault]()

    if since == "from the start":
        store.put_text("r/_complete", "of the attempt before")
        store.pass_time(60)
        failing(store, *PARTS[part], raised)
    run = Run("r", Reporter(lambda: around, [LogShipping(Words())]), 100)
    run.step(1)
    if since == "after a step":
        until(lambda: count(store, runid.PROGRESS))
        failing(store, *PARTS[part], raised)
    assert run.fail("bad")
    assert failed.is_set()
    store.heal()
    assert store.held["r/_error"].body.startswith(b"bad")


@pytest.mark.parametrize("fault", FAULTS)
def test_no_task_stops_another_or_the_end(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    store, words = MemoryStore(), Words()
    around = environment(store, beat_s=0.005)
    with caplog.at_level(logging.INFO, logger="lastbeat"):
        run = Run("r", Reporter(lambda: around, [Broken(FAULTS[fault]), LogShipping(words)]))
        until(lambda: count(store, runid.METADATA) > 3)
        assert run.complete()
        until(lambda: words.closed)
    assert store.held[f"r/{runid.LOG}"].body.startswith(b"a line\n")
    assert len([record for record in caplog.records if "cannot break" in record.getMessage()]) == 1


@pytest.mark.parametrize("name", [runid.METADATA, runid.PROGRESS])
def test_a_key_that_cannot_be_reached_holds_the_end_up_for_a_while_and_no_longer(name: str) -> None:
    store = MemoryStore()
    run = Run("r", Reporter(lambda: environment(store, beat_s=0.01)))
    run.step(1)
    until(lambda: count(store, runid.PROGRESS))
    failing(store, "write", name, lambda: UnreachableError("no answer"))
    run.step(2)
    tries = count(store, name)
    assert run.complete()
    assert count(store, name) > tries + 1, "what may work in a moment is tried again"


def test_a_heartbeat_that_works_in_a_moment_is_written_before_the_end() -> None:
    store, refused = MemoryStore(), iter([True])

    def before(operation: str, key: str) -> None:
        if operation == "write" and key.endswith(runid.PROGRESS) and next(refused, False):
            raise UnreachableError("503 Slow Down")

    run = Run("r", Reporter(lambda: environment(store, beat_s=3600.0)))
    until(lambda: count(store, runid.METADATA))
    run.step(7)
    store.before = before
    assert run.complete()
    assert json.loads(store.held["r/progress.json"].body)["step"] == 7


def test_an_end_that_is_said_meanwhile_waits_for_no_other_part() -> None:
    store, hangs, released = MemoryStore(), threading.Event(), threading.Event()

    def before(operation: str, key: str) -> None:
        if operation == "write" and key.endswith(runid.PROGRESS) and not released.is_set():
            hangs.set()
            released.wait(LIMIT_S)

    store.before = before
    run = Run("r", Reporter(lambda: environment(store, beat_s=0.05), [LogShipping(Words())]))
    run.step(1)
    assert hangs.wait(LIMIT_S)
    assert not run.complete(wait_s=0.0)
    released.set()
    until(lambda: not run.end_pending)
    names = [key.removeprefix("r/") for operation, key in store.calls if operation == "write"]
    after = names[names.index(runid.PROGRESS) + 1 :]
    # The log was left to the beat that tells the end.
    assert (after[0], after[-1], after.count(runid.LOG)) == (runid.METADATA, runid.COMPLETE, 1)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("operation", "name"),
    [
        pytest.param("write", "ranks/1.json", id="its heartbeat"),
        pytest.param("delete", "ranks/1.error", id="deleting what was there"),
        pytest.param("read", runid.METADATA, id="reading which attempt it is"),
    ],
)
def test_no_part_keeps_another_ranks_error_back(operation: str, name: str, fault: str) -> None:
    store = MemoryStore()
    lead = ranked(store, 0)
    until(lambda: count(store, runid.METADATA) > 1)
    failing(store, operation, name, FAULTS[fault])
    other = ranked(store, 1)
    other.fail("bad", wait_s=0.0)
    until(lambda: "r/_error" in store.held)
    store.heal()
    until(lambda: not other.end_pending)
    assert store.held["r/_error"].body.startswith(b"bad\nrank 1 of 2")
    lead.complete()


@contextmanager
def loud(fault: BaseException) -> Iterator[None]:
    """Training whose logging raises."""

    def refuse(record: logging.LogRecord) -> bool:
        raise fault

    log = logging.getLogger("lastbeat")
    log.addFilter(refuse)
    try:
        yield
    finally:
        log.removeFilter(refuse)


@pytest.mark.parametrize("fault", [RuntimeError("no log"), SystemExit(3)], ids=["an error", "an exit"])
def test_a_log_that_raises_costs_no_beat_and_no_end(fault: BaseException) -> None:
    store = MemoryStore()
    failing(store, "write", runid.METADATA, lambda: DeniedError("AccessDenied"))
    with loud(fault):
        run = Run("r", Reporter(lambda: environment(store, beat_s=0.01), [Broken(RuntimeError)]), "many")
        run.step(1, tokens=[1])  # type: ignore[arg-type]  # as users do
        assert run.complete()
    assert "r/_complete" in store.held


def test_where_the_attempt_cannot_begin_the_end_leaves_nothing_that_names_no_attempt() -> None:
    """Its rank's heartbeat and its learned limits would count for the attempt before."""
    store = MemoryStore()
    failing(store, "write", runid.METADATA, lambda: DeniedError("AccessDenied"))
    around = environment(
        store, beat_s=0.01, rank=Rank(0, 2), rank_beat_s=0.01, tasks=[Learning(SectionLimits(), every_s=0.0)]
    )
    run = Run("r", Reporter(lambda: around), "many")
    with run.section("eval"):
        run.step(1)
    assert run.complete()
    assert [key for key in sorted(store.held) if key != "r/progress.json"] == ["r/_complete"]


class Hanging:
    """A log on a file system that hangs."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked = 0

    def read_into(self, window: LogWindow) -> None:
        self.asked += 1
        self.released.wait(LIMIT_S)
        window.feed(f"line {self.asked}\n")

    def close(self) -> None:
        self.released.set()


def test_a_log_on_a_file_system_that_hangs_costs_no_beat_and_no_end(caplog: pytest.LogCaptureFixture) -> None:
    store, source = MemoryStore(), Hanging()
    with caplog.at_level(logging.INFO, logger="lastbeat"):
        run = Run("r", Reporter(lambda: environment(store, beat_s=0.01), [LogShipping(source, limit_s=0.05)]))
        until(lambda: count(store, runid.METADATA) > 3)
        assert source.asked == 1, "one thread waits, and no more"
        assert run.complete()
    assert "could not be read within 0.05 s; its file system may hang" in caplog.text
    assert len(caplog.records) == 1


def test_a_log_that_hung_is_shipped_whole_once_it_answers() -> None:
    store, source = MemoryStore(), Hanging()
    run = Run("r", Reporter(lambda: environment(store, beat_s=0.01), [LogShipping(source, limit_s=0.05)]))
    until(lambda: count(store, runid.METADATA) > 2)
    source.released.set()
    until(lambda: f"r/{runid.LOG}" in store.held)
    assert run.complete()
    assert store.held[f"r/{runid.LOG}"].body.startswith(b"line 1\nline 2\n")


class Endless:
    """Takes as long as it likes to say what it is."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __str__(self) -> str:
        self.released.wait(LIMIT_S)
        return "late"

    __repr__ = __str__


def test_a_phase_that_never_says_its_name_costs_no_beat_and_no_end() -> None:
    store, phase = MemoryStore(), Endless()
    try:
        run = Run("r", Reporter(lambda: environment(store, beat_s=0.01)))
        run.set_phase(phase)  # type: ignore[arg-type]  # as users do
        run.step(1)
        until(lambda: count(store, runid.PROGRESS))
        assert run.complete()
    finally:
        phase.released.set()


class EndlessError(Exception):
    """Asks a node that has died for its text."""

    released = threading.Event()

    def __str__(self) -> str:
        self.released.wait(LIMIT_S)
        return "late"


def test_an_error_that_never_says_what_it_is_is_told_by_where_it_was_raised() -> None:
    store = MemoryStore()
    run = Run("r", Reporter(lambda: environment(store, beat_s=0.01)))
    try:
        with pytest.raises(EndlessError), run:
            raise EndlessError
    finally:
        EndlessError.released.set()
    first, _, trace = store.held["r/_error"].body.decode().partition("\n")
    assert first == "EndlessError (its text could not be read)"
    assert "in test_an_error_that_never_says_what_it_is_is_told_by_where_it_was_raised" in trace


def test_an_end_is_waited_for_once_however_often_it_is_told() -> None:
    store, released = MemoryStore(), threading.Event()

    def hang(_operation: str, _key: str) -> None:
        released.wait(LIMIT_S)

    store.before = hang
    run = Run("r", Reporter(lambda: environment(store)))
    try:
        run.complete(wait_s=0.0)
        run.end_deadline = deadline = time.monotonic() + 0.2
        with run:
            assert not run.fail("bad")
            assert not run.complete()
        assert run.end_deadline == deadline <= time.monotonic()
    finally:
        released.set()
    until(lambda: not run.end_pending)


HOPELESS = [
    pytest.param(ValueError("AWS_ENDPOINT_URL is no web address"), id="settings that make no store"),
    pytest.param(ModuleNotFoundError("No module named 'obstore'"), id="a library that is not installed"),
]


@pytest.mark.parametrize("fault", HOPELESS)
def test_the_end_of_a_run_that_cannot_have_a_store_waits_for_nothing(
    fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def prepare() -> RunEnvironment:
        raise fault

    words = Words()
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        run = Run("r", Reporter(prepare, [LogShipping(words)]))
        assert not run.complete(wait_s=LIMIT_S)
        assert not run.end_pending, "it was waited for to the last second"
        until(lambda: words.closed)
    (said,) = [text for text in caplog.messages if text.startswith("lastbeat gives up, and the end of this run is not")]
    assert str(fault) in said


LATE = [
    pytest.param([OSError("Too many open files")], id="is tried once more at the end"),
    pytest.param([UnreachableError("no answer")] * 2, id="is waited for where it may be had in a moment"),
]


@pytest.mark.parametrize("faults", LATE)
def test_a_store_that_could_not_be_had_at_first(faults: list[Exception]) -> None:
    store, tries, tried = MemoryStore(), iter(faults), threading.Event()

    def prepare() -> RunEnvironment:
        tried.set()
        for fault in tries:
            raise fault
        return environment(store)

    run = Run("r", Reporter(prepare))
    assert tried.wait(LIMIT_S)
    assert run.complete(wait_s=LIMIT_S)
    assert "r/_complete" in store.held
