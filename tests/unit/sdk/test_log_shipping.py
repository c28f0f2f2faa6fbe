"""What of a log leaves the machine: whole lines, folded, masked, bounded. It goes out when it has changed, and nothing
that goes wrong with it costs a heartbeat."""

import logging
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastbeat
from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk.beat_tasks import Beat
from lastbeat.training.sdk.log_shipping import LIMIT_BYTES, FileFeed, LogShipping, LogWindow, log_tasks
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.waiting import until

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz0123"


def window_of(*pieces: str, limit: int = LIMIT_BYTES) -> LogWindow:
    window = LogWindow(limit)
    for piece in pieces:
        window.feed(piece)
    return window


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        pytest.param(["one\ntwo\n"], "one\ntwo\n", id="lines come as they are"),
        pytest.param(["on", "e\n\ntw", "o\n"], "one\n\ntwo\n", id="pieces are put together, blank lines kept"),
        pytest.param(["\r10%\r20%\r30%\ndone\n"], "30%\ndone\n", id="a progress bar is its last state"),
        pytest.param(["\r10%", "\r20%", "\r30%"], "20%", id="of one that still runs, the last state that is whole"),
        pytest.param(["one\r\ntwo\r", "\nthree\n"], "one\ntwo\nthree\n", id="Windows line ends, also torn ones"),
        pytest.param([f"login {TOKEN[:9]}", f"{TOKEN[9:]}\n"], "login ***\n", id="a secret in two pieces"),
        pytest.param([f"one\nlogin {TOKEN[:9]}"], "one\n", id="a line that may end in half a secret waits"),
        pytest.param(["x" * 100_000 + "\nend\n"], "x" * 8192 + "…\nend\n", id="a line without end is cut"),
        pytest.param(["\ud800\n"], "?\n", id="what no UTF-8 can carry"),
    ],
)
def test_what_is_shown(pieces: list[str], shown: str) -> None:
    assert window_of(*pieces).content().decode() == shown


def test_a_prompt_that_stays_is_shown_with_the_next_beat() -> None:
    window = window_of("Continue? [y/n] ")
    assert window.content() == b""
    assert window.content() == b"Continue? [y/n] "


def test_the_end_shows_everything() -> None:
    assert window_of("one\nlast words").content(ending=True) == b"one\nlast words"


def test_only_the_newest_whole_lines_are_kept() -> None:
    window = window_of("".join(f"line {n:05d}\n" for n in range(100)), limit=35)
    assert window.content() == b"line 00097\nline 00098\nline 00099\n"
    window.feed("\r50%\r")
    assert window.content() == b"line 00098\nline 00099\n50%"


def test_after_a_gap_the_torn_line_is_left_out() -> None:
    window = window_of(f"one\ntoken={TOKEN[:7]}")
    window.skip()
    window.feed(f"{TOKEN[7:]}\nnext\n")
    assert window.content() == b"one\nnext\n"


def test_after_a_gap_one_line_without_end_is_shown_all_the_same() -> None:
    window = LogWindow()
    window.skip()
    window.feed("x" * 20_000)
    assert window.content(ending=True).decode() == "x" * 8192 + "…"


def test_another_file_begins_a_line_of_its_own() -> None:
    window = window_of("the old file's last word")
    window.break_line()
    window.feed("new\n")
    assert window.content() == b"the old file's last word\nnew\n"


texts = st.text(st.sampled_from("ab\r\n é🔥"), max_size=60)


@given(st.lists(texts, max_size=12))
def test_where_the_pieces_end_does_not_matter(pieces: list[str]) -> None:
    assert window_of(*pieces).content(ending=True) == window_of("".join(pieces)).content(ending=True)


@given(st.lists(texts, max_size=30), st.integers(1, 40))
def test_no_window_is_ever_larger_than_its_bound(pieces: list[str], limit: int) -> None:
    window = LogWindow(limit)
    for piece in pieces:
        window.feed(piece)
        lines = window.content()
        assert len(lines) <= limit or b"\n" not in lines


@given(st.integers(0, 15), st.integers(16, len(TOKEN)), st.text(st.sampled_from("ab \n\r"), max_size=9))
def test_no_part_of_a_secret_is_shown_however_it_arrives(first: int, second: int, before: str) -> None:
    window = LogWindow()
    shown = []
    for piece in (f"{before} {TOKEN[:first]}", TOKEN[first:second], f"{TOKEN[second:]}\n"):
        window.feed(piece)
        shown.append(window.content())
    assert b"***" in shown[-1]
    assert all(TOKEN[:12].encode() not in each for each in shown)


def read(source: FileFeed, window: LogWindow) -> str:
    source.read_into(window)
    return window.content(ending=True).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "it's a läuf.log"


def test_a_character_may_be_torn_by_a_beat(path: Path) -> None:
    path.write_bytes("über".encode()[:1])
    source, window = FileFeed(path), LogWindow()
    read(source, window)
    path.write_bytes("über\n".encode())
    assert read(source, window) == "über\n"


def test_a_missing_file_is_waited_for(path: Path) -> None:
    source, window = FileFeed(path), LogWindow()
    assert read(source, window) == ""
    path.write_text("late\n")
    assert read(source, window) == "late\n"


def test_a_truncated_file_begins_anew(path: Path) -> None:
    path.write_text("one\ntwo\n")
    source, window = FileFeed(path), LogWindow()
    read(source, window)
    path.write_text("3\n")
    assert read(source, window) == "one\ntwo\n3\n"


def test_a_rotated_file_goes_on_in_the_new_one(path: Path) -> None:
    path.write_text("old\n")
    source, window = FileFeed(path), LogWindow()
    read(source, window)
    path.rename(path.with_suffix(".1"))
    assert read(source, window) == "old\n"
    path.write_text("new and longer\n")
    assert read(source, window) == "old\nnew and longer\n"


def test_of_a_large_file_the_end_is_read(path: Path) -> None:
    lines = "".join(f"line {n:09d}\n" for n in range(200_000))
    path.write_text(lines)
    source, window = FileFeed(path), LogWindow()
    shown = read(source, window)
    assert lines.endswith(shown)
    assert LIMIT_BYTES - 20 < len(shown) <= LIMIT_BYTES
    assert shown.startswith("line ")


def test_of_a_large_file_the_line_is_left_out_in_whose_middle_it_begins(path: Path) -> None:
    # It may begin in the middle of a secret. These lines are cut, so that there is room for it.
    path.write_text("".join(f"{n:03d}{'y' * 20_000}\n" for n in range(200)))
    shown = read(FileFeed(path), LogWindow())
    assert {line[:3].isdecimal() for line in shown.splitlines()} == {True}


def test_a_sparse_file_of_a_terabyte_costs_no_more(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)
        file.seek(2**40)
        file.write(b"\nend\n")
    assert read(FileFeed(path), LogWindow()).endswith("end\n")


def test_a_relative_path_is_that_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.log").write_text("here\n")
    source = FileFeed(Path("train.log"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read(source, LogWindow()) == "here\n"


@pytest.mark.parametrize(
    "make", [pytest.param(Path.mkdir, id="a folder"), pytest.param(os.mkfifo, id="a pipe nobody writes to")]
)
def test_what_is_no_file_is_said_to_be_none(path: Path, make: object) -> None:
    assert callable(make)
    make(path)
    with pytest.raises(OSError, match="not a regular file; give"):
        FileFeed(path).read_into(LogWindow())


def test_a_file_that_never_came_is_told_of_at_the_end(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = FileFeed(path)
    source.read_into(LogWindow())
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        source.close()
    assert "found no log_file=" in caplog.text


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

    store.refuse("write", DeniedError("no"))
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
