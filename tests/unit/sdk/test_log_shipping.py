"""The log goes out when it has changed, and nothing that goes wrong with it costs a heartbeat."""

import logging
import sys
from pathlib import Path

import pytest

import lastbeat
from lastbeat.stores.port import DeniedError, Expect, StoreError
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, BeatTasks
from lastbeat.training.sdk.log_shipping import FileFeed, LogShipping, log_tasks
from lastbeat.training.sdk.reporter import Reporter, RunEnvironment
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.waiting import until

KEY = "run/logs/training_log_latest.txt"


def beat(store: MemoryStore, ending: tuple[str, str] | None = None) -> Beat:
    return Beat(Run("run", None), store, "run/", 0.0, ending)


def writes(store: MemoryStore) -> int:
    return store.calls.count(("write", KEY))


def test_it_is_written_when_it_has_changed(tmp_path: Path) -> None:
    path, store = tmp_path / "train.log", MemoryStore()
    shipping = LogShipping(FileFeed(path))
    path.write_text("one\n")
    shipping.write(beat(store))
    shipping.write(beat(store))
    assert writes(store) == 1
    with path.open("a") as file:
        file.write("two")
    shipping.write(beat(store))
    assert store.held[KEY].body == b"one\n"
    shipping.write(beat(store, ("_complete", "")))
    assert store.held[KEY].body == b"one\ntwo"
    assert writes(store) == 2


def test_the_log_of_an_earlier_attempt_goes_where_this_one_has_none_yet(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put_text(KEY, "RuntimeError of yesterday\n")
    shipping = LogShipping(FileFeed(tmp_path / "train.log"))
    shipping.write(beat(store))
    assert KEY not in store.held
    shipping.write(beat(store))
    assert store.calls == [("delete", KEY)]


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    path, store = tmp_path / "train.log", MemoryStore()
    path.write_text("one\n")
    shipping = LogShipping(FileFeed(path))

    def refuse(operation: str, _key: str) -> None:
        if operation == "write":
            raise DeniedError("no")

    store.before = refuse
    with pytest.raises(DeniedError):
        shipping.write(beat(store))
    store.before = lambda _operation, _key: None
    shipping.write(beat(store))
    assert store.held[KEY].body == b"one\n"


def test_what_cannot_be_a_log_is_said_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        assert log_tasks(5, capture=False) == ()
        (both,) = log_tasks("train.log", capture=True)
    both.close()
    assert "log_file=5 (type int) is not a path" in caplog.text
    assert "ships one log" in caplog.text
    assert "write" not in vars(sys.stdout)


class Faulty:
    """Fails as it is told to."""

    purpose = "do what it is told to"

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.closed = False

    def write(self, _: Beat) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error

    def close(self) -> None:
        self.closed = True
        raise ValueError("cannot close")


def test_one_that_fails_stops_no_other_and_is_told_of_once_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    store, other = MemoryStore(), Faulty()
    faulty = Faulty(StoreError("denied"), RuntimeError("broken"), None, StoreError("again"))
    tasks = BeatTasks([faulty])
    tasks.add([other])
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        for _ in range(4):
            tasks.write(beat(store))
        assert [record.getMessage().partition(": ")[2] for record in caplog.records] == ["denied", "again"]
        tasks.close()
    assert (faulty.closed, other.closed) == (True, True)


def test_the_sentinel_is_written_after_the_final_log_and_in_spite_of_faults() -> None:
    store = MemoryStore()

    class Last:
        purpose = "ship the last words"

        def write(self, beat: Beat) -> None:
            if beat.ending is not None:
                beat.store.write(KEY, b"last words")

        def close(self) -> None:
            """Nothing is held."""

    tasks: list[BeatTask] = [Faulty(*[RuntimeError("broken")] * 9), Last()]
    reporter = Reporter(lambda: RunEnvironment(store, "host", beat_s=0.05), tasks)
    Run("run", reporter).complete()
    written = [key for operation, key in store.calls if operation == "write"]
    assert written[-2:] == [KEY, "run/_complete"]
    with pytest.raises(Exception, match="_complete"):
        store.write("run/_complete", b"", Expect.NOTHING)


def test_a_run_ships_what_it_prints_and_then_gives_the_streams_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Where it reports to is said through logging, whose handlers may be anybody's.
    monkeypatch.setattr(logging.getLogger("lastbeat"), "disabled", True)
    with lastbeat.run("run", root=str(tmp_path / "runs"), capture=True):
        sys.stdout.write("login hf_abcdefghijklmnopqrstuvwxyz\n")
        sys.stderr.write("\r1%\r2%")
    shipped = (tmp_path / "runs" / KEY).read_text()
    assert shipped == "login ***\n2%"
    until(lambda: "write" not in vars(sys.stdout))


def test_a_run_ships_its_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with lastbeat.run("run", root=str(tmp_path / "runs"), log_file="train.log"):
        Path("train.log").write_text("step 1\nstep 2")
    assert (tmp_path / "runs" / KEY).read_text() == "step 1\nstep 2"
