"""TensorBoard's logs as a source of progress: which steps, losses and metrics a run gets, whatever the files hold."""

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastbeat.model.progress_lines import Progress
from lastbeat.training.exec.event_files import RECORD_LIMIT_BYTES, Scalar, records, scalars
from lastbeat.training.exec.tensorboard import Steps, TensorBoardLogs
from lastbeat.training.sdk.run import Run
from support.laws import examples
from support.row_by_row import check_each

LATER = time.time() + 3600


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def part(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(kind: int, number: int, raw: bytes) -> bytes:
    return part(8, b"\x08" + varint(kind) + part(number, raw))


def simple(value: float) -> bytes:
    return b"\x15" + struct.pack("<f", value)


def record(data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<QI", len(data) if length is None else length, 0) + data + b"\0\0\0\0"


def event(step: int, tag: str, number: bytes, wall: float = LATER) -> bytes:
    """A record of an event with one value; ``number`` is the value's field."""
    summary = part(5, part(1, part(1, tag.encode()) + number))
    return record(b"\x09" + struct.pack("<d", wall) + b"\x10" + varint(step) + summary)


def read(chunk: bytes) -> list[Scalar]:
    return [each for _, data in records(chunk) for each in scalars(data)]


def test_numbers_are_read_in_each_form_that_writers_have() -> None:
    def is_read(field: bytes, value: float | None) -> None:
        expected = [] if value is None else [Scalar(LATER, 300, "loss", value)]
        assert read(event(300, "loss", field)) == expected

    rows: list[tuple[str, tuple[bytes, float | None]]] = [
        ("a float, with as many digits as it has", (simple(0.1), 0.1)),
        ("a tensor of one float", (tensor(1, 5, struct.pack("<f", 2.5)), 2.5)),
        ("a tensor's content", (tensor(1, 4, struct.pack("<f", 2.5)), 2.5)),
        ("a tensor of one double", (tensor(2, 6, struct.pack("<d", 0.1)), 0.1)),
        ("a tensor of integers is no scalar", (tensor(3, 4, b"\1\0\0\0"), None)),
        ("a histogram's tensor is none", (tensor(2, 4, b"\0" * 72), None)),
    ]
    check_each(rows, is_read)


def test_what_is_damaged_or_unfinished_hides_nothing_before_it() -> None:
    first, second = event(1, "loss", simple(2.5)), event(2, "loss", simple(2.0))

    def is_seen(behind: bytes, steps: list[int]) -> None:
        assert [each.step for each in read(first + behind)] == steps

    rows = [
        ("half a record waits for its rest", (second[:-5], [1])),
        ("a length of exabytes is damage", (record(b"", 1 << 63) + second, [1])),
        ("a hole of a file system may be filled later", (b"\0" * 64 + second, [1])),
        ("a malformed message is skipped", (record(b"\x2a\xff\xff") + second, [1, 2])),
        ("a step below zero is none", (event((1 << 64) - 1, "loss", simple(2.5)) + second, [1, 2])),
        ("an image is skipped", (record(b"\0" * (RECORD_LIMIT_BYTES + 1)) + second, [1, 2])),
    ]
    check_each(rows, is_seen)


@settings(max_examples=examples(200))
@given(st.binary(max_size=200), st.integers(0, 200), st.binary(max_size=40))
@example(b"\x08" + b"\xff" * 30, 0, b"")
def test_no_bytes_raise_and_a_prefix_shows_a_prefix(data: bytes, cut: int, junk: bytes) -> None:
    list(scalars(data))
    whole = event(1, "a", simple(1.0)) + record(data) + junk
    found = read(whole[:cut])
    assert read(whole)[: len(found)] == found


def test_which_scalar_is_the_loss_and_which_step_the_runs() -> None:
    def is_reported(found: list[tuple[int, str, float]], expected: tuple[object, ...]) -> None:
        run, progress = Run("run-1", None), Progress()
        Steps(progress).add(run, [Scalar(LATER, *each) for each in found])
        assert run.latest is not None
        assert (*run.latest[:3], run.latest[4]) == expected
        assert (progress.step, progress.loss, progress.learning_rate) == expected[:3]

    rows: list[tuple[str, tuple[list[tuple[int, str, float]], tuple[object, ...]]]] = [
        ("transformers", ([(5, "train/loss", 2.5), (5, "train/learning_rate", 0.1)], (5, 2.5, 0.1, {}))),
        ("the rate is Lightning's", ([(1, "lr-Adam", 0.1), (9, "train_loss", 2.5)], (9, 2.5, 0.1, {}))),
        ("a part of the loss is none", ([(1, "z_loss", 9.0), (1, "lm loss", 2.5)], (1, 2.5, None, {"z_loss": 9.0}))),
        ("another name will do", ([(3, "loss_metrics/global_avg_loss", 2.5)], (3, 2.5, None, {}))),
        ("no evaluation's", ([(3, "eval/loss", 3.0), (3, "my_loss", 2.5)], (3, 2.5, None, {"eval/loss": 3.0}))),
        ("the first of two", ([(1, "lm loss", 2.5), (1, "total_loss", 3.0)], (1, 2.5, None, {"total_loss": 3.0}))),
        ("what counts otherwise leaves the step", ([(70, "loss", 2.5), (1, "epoch_time", 9.0)], (70, 2.5, None, {}))),
        ("without a loss each step counts", ([(3, "r", 1.0), (4, "r", 2.0)], (4, None, None, {"r": 2.0}))),
        ("a run that begins again goes back", ([(90, "loss", 2.5), (1, "loss", 3.0)], (1, 3.0, None, {}))),
        ("a metric has no argument's name", ([(1, "loss", 2.5), (1, "step", 9.0)], (1, 2.5, None, {}))),
    ]
    check_each(rows, is_reported)


def test_files_of_this_command_are_followed_as_they_grow(tmp_path: Path) -> None:
    run, folder = Run("run-1", None), tmp_path / "logs"
    logs = TensorBoardLogs(str(folder), Progress())

    def latest(name: str = "", data: bytes = b"") -> object:
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("ab") as file:
                file.write(data)
        if name == "old.tfevents.1":
            os.utime(folder / name, (1, 1))
        logs.look(run)
        return run.latest[:2] if run.latest is not None else None

    assert latest() is None
    assert latest("a.tfevents.1", event(1, "loss", simple(2.5), wall=time.time() - 5)) is None
    assert latest("old.tfevents.1", event(1, "loss", simple(2.5))) is None
    assert latest("a.tfevents.1", event(1, "lm loss vs samples", simple(2.5))) is None
    os.mkfifo(folder / "c.tfevents.1")
    (folder / "loop").symlink_to(folder)
    first, rest = event(1, "loss", simple(2.5)), event(2, "loss", simple(2.0))
    assert latest("run/events.out.tfevents.1.host", first + rest[:20]) == (1, 2.5)
    assert latest("run/events.out.tfevents.1.host", rest[20:]) == (2, 2.0)
    steps = run.steps
    assert latest("run/validation/events.out.tfevents.2.host", event(3, "loss", simple(9.0))) == (2, 2.0)
    assert latest("run/events.out.tfevents.3.host", event(3, "loss", simple(1.5))) == (3, 1.5)
    assert run.steps == steps + 2
    logs.close()


@pytest.mark.parametrize(("owner", "name"), [(Path, "open"), (os, "scandir")], ids=["a file", "a folder"])
def test_what_cannot_be_read_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    run, logs, read = Run("run-1", None), TensorBoardLogs(str(tmp_path), Progress()), getattr(owner, name)

    def refusing(path: Path | str, *args: Any, **kwargs: Any) -> Any:
        # Tests may run as root, who may read everything.
        if Path(path).is_relative_to(tmp_path / "theirs"):
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **kwargs)

    for folder in (tmp_path / "theirs", tmp_path / "ours"):
        folder.mkdir()
        (folder / "a.tfevents.1").write_bytes(event(1, "loss", simple(2.5)))
    monkeypatch.setattr(owner, name, refusing)
    with pytest.raises(PermissionError, match="theirs"):
        logs.look(run)
    assert run.latest is not None
    assert run.latest[:2] == (1, 2.5)
    logs.close()
