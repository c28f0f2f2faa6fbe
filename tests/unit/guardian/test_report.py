"""What a guardian writes of a training that has ended, and where it leaves everything as it is."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lastbeat.model.secrets import Redactor
from lastbeat.stores.port import DeniedError, UnreachableError
from lastbeat.training.guardian.report import describe, settle
from support.memory import MemoryStore

OURS, ANOTHER = "2026-01-01T11:00:00.000Z", "2026-01-01T11:59:59.000Z"
LIVED_S = 3600.0
KILLED, SEGFAULT, CORE = 9, 11, 0x80


def said(**more: Any) -> dict[str, Any]:
    """What the guardian knows of a training that was killed an hour after it began."""
    known = {
        "run": "run-1",
        "start_time": OURS,
        "started_monotonic": time.monotonic() - LIVED_S,
        "rank": 0,
        "world": 1,
        "place": "rank 0 of 1 on host-17, process 4711",
        "who": "train.py",
        "begun": True,
        "stderr": None,
        "wait_status": KILLED,
        "ended_monotonic": time.monotonic() - 1.0,
        "oom_kills": 0,
    }
    return {**known, **more}


def rank(number: int, **more: Any) -> dict[str, Any]:
    place = f"rank {number} of 4 on host-17, local rank {number}, process 4711"
    return said(rank=number, world=4, place=place, who=f"rank {number} on host-17", **more)


@pytest.fixture
def store() -> MemoryStore:
    """In which the run lies."""
    store = MemoryStore()
    _put(store, "metadata.json", json.dumps({"start_time": OURS, "attempt": 2, "begun": True}))
    return store


def _put(store: MemoryStore, name: str, text: str, ago_s: float = 0.0) -> None:
    now, store.now = store.now, store.now - timedelta(seconds=ago_s)
    store.write(f"run-1/{name}", text.encode())
    store.now = now


def _text(store: MemoryStore, name: str) -> str | None:
    blob = store.read(f"run-1/{name}", 1 << 20)
    return blob.body.decode() if blob is not None else None


def _settle(store: MemoryStore, known: dict[str, Any]) -> None:
    settle(store, known, Redactor(), pause_s=0.0)


TEXTS = [
    pytest.param({"oom_kills": None},
                 "train.py was killed by SIGKILL (signal 9): often the OOM killer or the scheduler",
                 id="it was killed"),
    pytest.param(
        {},
        "train.py was killed by SIGKILL (signal 9), and its cgroup counted no OOM kill: often a person or the "
        "scheduler",
        id="and not by the kernel's OOM killer",
    ),
    pytest.param({"wait_status": SEGFAULT},
                 "train.py was killed by SIGSEGV (signal 11): a segmentation fault in native code", id="it crashed"),
    pytest.param({"wait_status": 15}, "Cancelled: received signal 15 (SIGTERM); train.py was", id="it was stopped"),
    pytest.param({"wait_status": 3 << 8}, "train.py ended with exit status 3, before its run had ended", id="it left"),
    pytest.param(
        {"wait_status": None},
        "train.py ended without a word (killed by a signal such as SIGKILL, or os._exit); its exit status is unknown; "
        "its cgroup counted no OOM kill",
        id="nobody knows how it ended",
    ),
    pytest.param(
        {"wait_status": None, "oom_kills": 2},
        "train.py ended without a word (killed by a signal such as SIGKILL, or os._exit); its exit status is unknown; "
        "the kernel's OOM killer (oom-kill) ended a process of its job: out of memory",
        id="nor whether it was what the kernel ended",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("known", "first"), TEXTS)
def test_the_first_line(known: dict[str, Any], first: str) -> None:
    assert describe(said(**known)).splitlines()[0].startswith(first)


def test_a_core_file_is_mentioned() -> None:
    assert describe(said(wait_status=SEGFAULT | CORE)).splitlines()[0].endswith("; core dumped")
    assert "core" not in describe(said(wait_status=SEGFAULT))


FATAL = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File "train.py"\n'


def test_what_python_wrote_to_stderr_is_added(tmp_path: Path) -> None:
    file = tmp_path / "train.err"
    file.write_text(f"{FATAL.replace('train.py', 'an earlier training')}step 1\n")
    found = file.stat()
    stderr = {"path": str(file), "file": [found.st_dev, found.st_ino], "size": found.st_size}
    assert "Fatal" not in describe(said(wait_status=SEGFAULT, stderr=stderr))
    with file.open("a") as more:
        more.write(f"step 2\n{FATAL}")
    assert describe(said(wait_status=SEGFAULT, stderr=stderr)).endswith(f"\n\n{FATAL}")
    assert "Fatal" not in describe(said(wait_status=KILLED, stderr=stderr))
    file.rename(tmp_path / "train.err.1")
    file.write_text(FATAL)
    assert "Fatal" not in describe(said(wait_status=SEGFAULT, stderr=stderr)), "it is another file by now"


ENDED = [
    pytest.param(["_complete", "all is well"], id="as completed"),
    pytest.param(["_error", "ValueError: no data\n\nTraceback"], id="as failed"),
]


@pytest.mark.parametrize("ending", ENDED)
def test_what_training_said_of_its_end_counts(store: MemoryStore, ending: list[str]) -> None:
    _settle(store, said(ending=ending))
    assert _text(store, ending[0]) == ending[1]
    assert _text(store, "_complete" if ending[0] == "_error" else "_error") is None


LEFT_ALONE = [
    pytest.param({"_error": "ValueError: its own"}, {}, id="an error that is told already"),
    pytest.param({"metadata.json": json.dumps({"start_time": ANOTHER})}, {}, id="another attempt's files"),
    pytest.param({"metadata.json": "{"}, {}, id="what nobody can read"),
]


@pytest.mark.parametrize(("files", "known"), LEFT_ALONE)
def test_it_leaves_alone(store: MemoryStore, files: dict[str, str], known: dict[str, Any]) -> None:
    for name, text in files.items():
        _put(store, name, text)
    before = dict(store.held)
    _settle(store, said(**known))
    assert store.held == before


def test_a_run_that_somebody_has_removed_stays_so() -> None:
    for known in (said(), rank(1)):
        store = MemoryStore()
        _settle(store, known)
        assert store.held == {}


def test_a_training_that_died_before_its_first_heartbeat_is_told_all_the_same() -> None:
    for known in (said(begun=False), rank(1, started_monotonic=time.monotonic() - 5.0)):
        store = MemoryStore()
        settle(store, known, Redactor(), pause_s=0.0, patience_s=0.0)
        assert "SIGKILL" in (_text(store, "_error") or "")


def test_an_error_of_an_attempt_before_gives_way(store: MemoryStore) -> None:
    _put(store, "_error", "ValueError: of an attempt before", ago_s=LIVED_S + 60)
    _settle(store, said())
    assert "SIGKILL" in (_text(store, "_error") or "")


def test_an_attempt_that_begins_meanwhile_has_not_failed(store: MemoryStore) -> None:
    def begin(operation: str, key: str) -> None:
        if operation == "write" and key == "run-1/_error":
            store.before = lambda _operation, _key: None
            _put(store, "metadata.json", json.dumps({"start_time": ANOTHER, "attempt": 3}))

    store.before = begin
    _settle(store, said())
    assert _text(store, "_error") is None


def test_a_store_that_does_not_answer_is_asked_again(store: MemoryStore) -> None:
    left = 5

    def fail(_operation: str, _key: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise UnreachableError("no answer")

    store.before = fail
    _settle(store, said())
    assert "SIGKILL" in (_text(store, "_error") or "")


def test_one_that_refuses_is_not(store: MemoryStore) -> None:
    store.refuse("write", DeniedError("the token has expired"))
    _settle(store, said())
    assert _text(store, "_error") is None


def test_one_that_may_only_be_written_to_is(store: MemoryStore) -> None:
    store.refuse("read", DeniedError("not allowed"))
    _settle(store, said())
    store.before = lambda _operation, _key: None
    assert "SIGKILL" in (_text(store, "_error") or "")


def test_a_rank_is_named_with_its_place(store: MemoryStore) -> None:
    _settle(store, rank(3))
    first, second, *_ = (_text(store, "_error") or "").splitlines()
    assert first.startswith("rank 3 on host-17 was killed by SIGKILL")
    assert second == "rank 3 of 4 on host-17, local rank 3, process 4711, attempt 2"


@pytest.mark.parametrize("number", [0, 3])
def test_of_several_ranks_the_first_is_the_runs(store: MemoryStore, number: int) -> None:
    _put(store, "_error", "ValueError: of rank 2")
    _settle(store, rank(number))
    assert _text(store, "_error") == "ValueError: of rank 2"
    assert "SIGKILL" in (_text(store, f"ranks/{number}.error") or "")


RESET = "RuntimeError: Connection reset by peer\nrank 2 of 4 on host-17, local rank 2, process 4712\n\nTraceback"
STOPPED = "Cancelled: received signal 15 (SIGTERM)\nrank 2 of 4 on host-17, local rank 2, process 4712\n"


@pytest.mark.parametrize(("number", "theirs", "status"), [(0, RESET, 3 << 8), (3, STOPPED, KILLED), (3, RESET, None)])
def test_what_another_rank_says_after_this_end_follows_from_it(
    store: MemoryStore, number: int, theirs: str, status: int | None
) -> None:
    _put(store, "_error", theirs, ago_s=0.8)
    _settle(store, rank(number, wait_status=status))
    assert (_text(store, "_error") or "").startswith(f"rank {number} on host-17 ")
    assert _text(store, "ranks/2.error") == theirs
    _settle(store, rank(number, wait_status=status))
    assert (_text(store, "_error") or "").startswith(f"rank {number} on host-17 "), "once more changes nothing"


BEFORE = [
    pytest.param(RESET, {}, 1.5, id="what was said before"),
    pytest.param("no rank of ours\nwrote this", {}, 0.5, id="what no rank wrote"),
    pytest.param(RESET, {"wait_status": 15}, 0.5, id="what may have stopped both"),
    pytest.param(RESET, {"ending": ["_error", "ValueError: its own"]}, 0.5, id="what came before its own last words"),
    pytest.param(RESET.replace("rank 2", "rank 0"), {}, 0.5, id="what it said itself"),
]


@pytest.mark.parametrize(("theirs", "known", "ago_s"), BEFORE)
def test_nothing_else_is_moved(store: MemoryStore, theirs: str, known: dict[str, Any], ago_s: float) -> None:
    _put(store, "_error", theirs, ago_s=ago_s)
    _settle(store, rank(0, **known))
    assert _text(store, "_error") == theirs


def test_of_two_ranks_that_fail_at_once_one_is_the_runs(store: MemoryStore) -> None:
    def be_faster(operation: str, key: str) -> None:
        if (operation, key) == ("write", "run-1/ranks/2.error"):
            store.before = lambda _operation, _key: None
            _put(store, "_error", "ValueError: of rank 1")

    _put(store, "_error", RESET, ago_s=0.5)
    store.before = be_faster
    _settle(store, rank(3))
    assert _text(store, "_error") == "ValueError: of rank 1"
    assert "SIGKILL" in (_text(store, "ranks/3.error") or "")


QUIET = [
    pytest.param({"wait_status": 15}, id="was told to stop"),
    pytest.param({"wait_status": 0}, id="left with exit status 0"),
    pytest.param({"ending": ["_complete", ""]}, id="said that it was done"),
]


@pytest.mark.parametrize("known", QUIET)
def test_a_rank_that_follows_says_nothing_where_it(store: MemoryStore, known: dict[str, Any]) -> None:
    before = dict(store.held)
    _settle(store, rank(1, **known))
    assert store.held == before


def test_what_ranks_die_of_after_rank_0_has_completed_the_run_is_no_failure(store: MemoryStore) -> None:
    _put(store, "_complete", "")
    _settle(store, rank(1, wait_status=SEGFAULT))
    assert _text(store, "_error") is None
    _put(store, "_complete", "", ago_s=LIVED_S + 60)
    _settle(store, rank(1, wait_status=SEGFAULT))
    assert "SIGSEGV" in (_text(store, "_error") or ""), "it was completed by an attempt before"


def test_secrets_are_masked(store: MemoryStore) -> None:
    settle(store, said(who="train-s3cr3t-t0ken.py"), Redactor(["s3cr3t-t0ken"]), pause_s=0.0)
    assert "s3cr3t" not in (_text(store, "_error") or "s3cr3t")
