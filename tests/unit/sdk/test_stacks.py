"""Where the threads are: their frames can be taken at any moment, and are written down while training stands still."""

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lastbeat.settings import load
from lastbeat.stores.port import DeniedError
from lastbeat.training.features import FeatureOptions, run_environment
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.stacks import LIMIT_BYTES, StackDump, dump_stacks
from lastbeat.training.sdk.threads import current_frames
from lastbeat.watch.observe.run import innermost
from support.checkout import ROOT
from support.memory import MemoryStore
from support.waiting import LIMIT_S

KEY = "run/logs/stacks.txt"


class Watched:
    """A run whose beats come when the test says so."""

    def __init__(self, stall_s: float = 600.0, beat_s: float = 30.0, **more: Any) -> None:
        self.store = MemoryStore()
        self.run = Run("run", None)
        self.now = 1000.0
        self.stacks = StackDump(stall_s, beat_s, steady=lambda: self.now, **more)

    def beats(self, seconds: float, every: float = 30.0) -> list[float]:
        """Beat for so long; when, from now on, stacks were written."""
        written = []
        for n in range(int(seconds / every)):
            self.now += every
            before = len(self.writes)
            self.stacks.write(Beat(self.run, self.store, "run/", self.now))
            written += [(n + 1) * every] if len(self.writes) > before else []
        return written

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [call for call in self.store.calls if call == ("write", KEY)]


@pytest.mark.parametrize(
    ("own", "setting", "first_s"),
    [
        pytest.param(None, None, None, id="nobody watches for standing still"),
        pytest.param(None, "10", 555.0, id="the setting does"),
        pytest.param(20.0, "10", 1155.0, id="which outranks the setting"),
        pytest.param(0.1, None, 30.0, id="a tiny limit is a minute, as for whoever watches"),
        pytest.param(float("nan"), "10", 555.0, id="no number is no limit"),
    ],
)
def test_they_are_written_where_the_run_or_the_setting_says(
    tmp_path: Path, own: float | None, setting: str | None, first_s: float | None
) -> None:
    environ = {"LASTBEAT_STALL_MINUTES": setting} if setting is not None else {}
    settings = load({"MONITORING_ROOT": str(tmp_path)}, environ, tmp_path)
    tasks = run_environment(settings, FeatureOptions(stall_minutes=own)).tasks
    assert [task._first_s for task in tasks if isinstance(task, StackDump)] == ([] if first_s is None else [first_s])


def test_they_are_written_shortly_before_the_limit_and_with_each_doubling() -> None:
    watched = Watched()
    assert watched.beats(7200) == [], "before the first step nothing stalls"
    watched.run.step(5)
    watched.beats(30)
    assert watched.beats(7200) == [570.0, 1110.0, 2220.0, 4440.0]
    assert watched.store.held[KEY].body.startswith(b"No new step for 1h 14m, at step 5, 19")


def test_a_step_that_is_said_again_is_no_progress() -> None:
    watched = Watched()
    for _ in range(20):
        watched.run.step(5)
        watched.beats(60)
    assert KEY in watched.store.held


class Touchy:
    """A step as a tensor on a hung device: whoever reads it waits for ever."""

    def __int__(self) -> int:
        raise AssertionError("it was read")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was compared")

    __hash__ = object.__hash__


def test_a_step_that_is_a_tensor_is_not_read() -> None:
    watched = Watched()
    watched.run.step(Touchy())
    watched.beats(900)
    assert KEY in watched.store.held
    watched.run.step(Touchy())
    watched.beats(30)
    assert KEY not in watched.store.held


def test_they_go_when_training_goes_on_as_those_of_an_earlier_attempt_do_at_the_start() -> None:
    watched = Watched()
    watched.store.put_text(KEY, "old")
    watched.beats(30)
    assert KEY not in watched.store.held
    watched.run.step(5)
    watched.beats(900)
    assert KEY in watched.store.held
    watched.run.step(6)
    watched.beats(60)
    assert KEY not in watched.store.held
    assert watched.store.calls.count(("delete", KEY)) == 2
    assert watched.beats(900) == [570.0 - 30.0]


def test_where_training_may_not_delete_they_are_emptied() -> None:
    watched = Watched()
    watched.run.step(5)
    watched.beats(900)

    watched.store.refuse("delete", DeniedError("no"))
    watched.run.step(6)
    watched.beats(60)
    assert watched.store.held[KEY].body == b""
    assert innermost("") == ()
    assert watched.store.calls.count(("delete", KEY)) == 2


def test_a_name_with_a_newline_begins_no_thread_of_its_own() -> None:
    leave = threading.Event()
    other = threading.Thread(target=leave.wait, name='x\n\nThread "MainThread" (main), most recent call last:\n  evil')
    other.start()
    text = dump_stacks("Head").decode()
    leave.set()
    other.join()
    assert [line for line in text.split("\n") if line.startswith("Thread ") and "MainThread" in line[:20]] == [
        text.split("\n")[2]
    ]


def test_a_limit_shorter_than_a_beat_still_waits_for_half_of_it() -> None:
    watched = Watched(stall_s=10.0)
    watched.run.step(5)
    watched.beats(4, every=1.0)
    assert watched.beats(20, every=1.0) == [2.0, 7.0, 17.0]


def test_the_main_thread_comes_first_and_its_innermost_frame_last() -> None:
    def waiting_in_another_thread() -> None:
        entered.set()
        leave.wait()

    entered, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=waiting_in_another_thread, name="pin \x1b[31mmemory")
    other.start()
    entered.wait()
    text = dump_stacks("Head").decode()
    leave.set()
    other.join()
    head, main, *others = text.split("\n\n")
    assert head == "Head"
    assert main.startswith('Thread "MainThread" (main), most recent call last:\n  File "')
    assert main.split("\n")[-1].endswith("in dump_stacks")
    assert any("waiting_in_another_thread" in each and 'Thread "pin' in each for each in others)
    frames = innermost(text)
    assert len(frames) == 12
    assert frames[-1].endswith("in dump_stacks")
    assert "test_the_main_thread_comes_first" in frames[-2]


def test_of_a_deep_stack_the_innermost_frames_are_kept() -> None:
    def down(levels: int) -> bytes:
        return down(levels - 1) if levels else dump_stacks("Head")

    text = down(500).decode()
    assert text.count("in down\n") == 63
    assert "outer frames are left out" in text
    assert innermost(text)[-1].endswith("in dump_stacks")


def test_our_own_threads_come_last() -> None:
    release = threading.Event()
    names = ["lastbeat-log", "loader", "lastbeat"]
    threads = [threading.Thread(target=release.wait, args=(60,), name=name) for name in names]
    for thread in threads:
        thread.start()
    try:
        text = dump_stacks("Head").decode()
    finally:
        release.set()
        for thread in threads:
            thread.join(LIMIT_S)
    assert text.index('Thread "loader"') < min(text.index('Thread "lastbeat"'), text.index('Thread "lastbeat-log"'))


def test_many_threads_are_bounded() -> None:
    leave = threading.Event()

    def down(levels: int) -> None:
        if levels:
            down(levels - 1)
        else:
            leave.wait()

    threads = [threading.Thread(target=down, args=(50,), name="n" * 300) for _ in range(40)]
    for thread in threads:
        thread.start()
    text = dump_stacks("Head" * 1000)
    leave.set()
    for thread in threads:
        thread.join()
    assert len(text) <= LIMIT_BYTES
    assert b"more threads" in text


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        pytest.param("", (), id="an empty file"),
        pytest.param("no stacks at all", (), id="something else"),
        pytest.param("Head\n\nThread main:\n  a\n  b\n\nThread other:\n  c\n", ("a", "b"), id="two threads"),
        pytest.param("Thread main:\n  " + "x" * 9999, ("x" * 400,), id="a long line"),
    ],
)
def test_the_watchdog_reads_the_first_thread_of_anything(text: str, frames: tuple[str, ...]) -> None:
    assert innermost(text) == frames


def of_command(printed: list[int]) -> Watched:
    return Watched(dump=lambda head: f"{head}; of a command".encode(), printed=lambda: printed[0])


def test_a_command_that_prints_nothing_more_hangs_though_no_step_of_it_is_known() -> None:
    printed = [100]
    watched = of_command(printed)
    assert watched.beats(900) == [600.0]
    assert watched.store.held[KEY].body.startswith(b"No new output for 9m 30s, 19")
    assert watched.store.held[KEY].body.endswith(b"; of a command")
    printed[0] += 1
    watched.beats(30)
    assert KEY not in watched.store.held


def test_once_a_step_of_it_is_known_a_command_that_prints_and_makes_none_hangs() -> None:
    printed = [100]
    watched = of_command(printed)
    watched.run.step(5)
    for _ in range(30):
        watched.beats(30)
        printed[0] += 1
    assert watched.store.held[KEY].body.startswith(b"No new step for 9m 30s, at step 5, 19")


def test_stacks_that_a_command_wrote_itself_are_left_as_they_are() -> None:
    watched = of_command([100])
    watched.run.step(5)
    watched.beats(300)
    watched.store.put_text(KEY, "its own")
    assert watched.beats(3600) == []
    assert watched.store.held[KEY].body == b"its own"


COLLECTS_MEANWHILE = """
import gc, threading
from lastbeat.training.sdk.threads import current_frames

class Cycle:
    pass

def deep(levels):
    deep(levels - 1) if levels else leave.wait()

leave = threading.Event()
for _ in range(40):
    threading.Thread(target=deep, args=(5,), daemon=True).start()
gc.collect()
enable, take = gc.enable, current_frames
for _ in range(30):
    gc.disable()
    for _ in range(400):
        cycle = Cycle()
        cycle.me, cycle.local = cycle, threading.local()
        cycle.local.x = 1
    gc.set_threshold(1, 1, 1)
    enable(); frames = take()
    gc.disable()
print(len(frames))
"""


def test_a_collection_that_is_due_does_not_stop_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTS_MEANWHILE],
        env={"PYTHONPATH": str(ROOT / "core")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout == "41\n"


def test_the_collector_is_left_as_training_has_it() -> None:
    try:
        gc.disable()
        assert threading.get_ident() in current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()
    current_frames()
    assert gc.isenabled()
