"""A log file as training and those who rotate logs treat it."""

import logging
import os
from pathlib import Path

import pytest

from lastbeat.training.sdk.log_shipping import LIMIT_BYTES, FileFeed, LogWindow


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
