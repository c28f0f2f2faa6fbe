"""TensorBoard's logs as a source of progress: which steps, losses and metrics a run gets, whatever the files hold."""

import os
import struct
import time
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastbeat.model.progress_lines import Progress
from lastbeat.training.exec.event_files import RECORD_LIMIT_BYTES, Scalar, masked_crc, records, scalars
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


def event(step: int, tag: str, number: bytes, wall: float = LATER) -> bytes:
    """An event with one value; ``number`` is the value's field."""
    return b"\x09" + struct.pack("<d", wall) + b"\x10" + varint(step) + part(5, part(1, part(1, tag.encode()) + number))


def simple(value: float) -> bytes:
    return b"\x15" + struct.pack("<f", value)


def record(data: bytes, length: int | None = None) -> bytes:
    size = struct.pack("<Q", len(data) if length is None else length)
    return size + struct.pack("<I", masked_crc(size)) + data + b"\0\0\0\0"


def logged(*steps: tuple[int, str, float]) -> bytes:
    return b"".join(record(event(step, tag, simple(value))) for step, tag, value in steps)


def read(chunk: bytes) -> list[Scalar]:
    return [each for _, data in records(chunk) for each in scalars(data)]


def test_numbers_are_read_in_each_form_that_writers_have() -> None:
    def is_read(field: bytes, value: float | None) -> None:
        expected = [] if value is None else [Scalar(LATER, 300, "loss", value)]
        assert read(record(event(300, "loss", field))) == expected

    check_each(
        [
            ("a float, with as many digits as it has", (simple(0.1), 0.1)),
            ("a tensor of one float", (tensor(1, 5, struct.pack("<f", 2.5)), 2.5)),
            ("a tensor's content", (tensor(1, 4, struct.pack("<f", 2.5)), 2.5)),
            ("a tensor of one double", (tensor(2, 6, struct.pack("<d", 0.1)), 0.1)),
            ("a tensor of integers is no scalar", (tensor(3, 4, b"\1\0\0\0"), None)),
            ("a histogram's tensor is none", (tensor(2, 4, b"\0" * 72), None)),
            ("a text is none", (tensor(7, 8, b"hello"), None)),
        ],
        is_read,
    )


def test_what_is_damaged_or_unfinished_hides_nothing_before_it() -> None:
    whole = logged((1, "loss", 2.5))

    def is_seen(behind: bytes, steps: list[int]) -> None:
        assert [each.step for each in read(whole + behind)] == steps

    check_each(
        [
            ("half a record waits for its rest", (logged((2, "loss", 2.0))[:-5], [1])),
            ("a damaged length ends it", (b"\xff" * 12 + whole, [1])),
            ("a length of exabytes ends it, too", (record(b"", 1 << 63) + whole, [1])),
            ("a hole of a file system is none yet", (b"\0" * 64, [1])),
            ("a record without a summary is skipped", (record(b"\x1a\x04text") + logged((2, "loss", 2.0)), [1, 2])),
            ("a malformed message is skipped", (record(b"\x2a\xff\xff") + logged((2, "loss", 2.0)), [1, 2])),
            ("an image is skipped", (record(b"\0" * (RECORD_LIMIT_BYTES + 1)) + logged((2, "loss", 2.0)), [1, 2])),
        ],
        is_seen,
    )


@settings(max_examples=examples(200))
@given(st.binary(max_size=200), st.integers(0, 200), st.binary(max_size=40))
@example(b"\x08" + b"\xff" * 30, 0, b"")
def test_no_bytes_raise_and_a_prefix_shows_a_prefix(data: bytes, cut: int, junk: bytes) -> None:
    list(scalars(data))
    whole = logged((1, "a", 1.0), (2, "b", 2.0)) + record(data) + junk
    found = read(whole)
    assert read(whole[:cut]) == found[: len(read(whole[:cut]))]


def test_which_scalar_is_the_loss_and_which_step_the_runs() -> None:
    def is_reported(
        found: list[tuple[int, str, float]],
        step: int,
        loss: float | None,
        rate: float | None,
        metrics: dict[str, float],
    ) -> None:
        run, progress = Run("run-1", None), Progress()
        Steps(progress).add(run, [Scalar(LATER, *each) for each in found])
        assert run.latest is not None
        assert (*run.latest[:3], run.latest[4]) == (step, loss, rate, metrics)
        assert (progress.step, progress.loss, progress.learning_rate) == (step, loss, rate)

    check_each(
        [
            ("transformers", ([(5, "train/loss", 2.5), (5, "train/learning_rate", 0.1)], 5, 2.5, 0.1, {})),
            ("the rate is Lightning's", ([(1, "lr-Adam", 0.1), (9, "train_loss", 2.5)], 9, 2.5, 0.1, {})),
            ("a part of the loss is none", ([(1, "z_loss", 9.0), (1, "lm loss", 2.5)], 1, 2.5, None, {"z_loss": 9.0})),
            ("another name will do", ([(3, "loss_metrics/global_avg_loss", 2.5)], 3, 2.5, None, {})),
            (
                "an evaluation's does not",
                ([(3, "train/loss", 2.5), (3, "eval/loss", 3.0)], 3, 2.5, None, {"eval/loss": 3.0}),
            ),
            ("what counts otherwise leaves the step", ([(70, "loss", 2.5), (1, "epoch_time", 9.0)], 70, 2.5, None, {})),
            (
                "without a loss each step counts",
                ([(3, "reward", 1.0), (4, "reward", 2.0)], 4, None, None, {"reward": 2.0}),
            ),
            ("a run that begins again goes back", ([(90, "loss", 2.5), (1, "loss", 3.0)], 1, 3.0, None, {})),
            ("a metric has no argument's name", ([(1, "loss", 2.5), (1, "step", 9.0)], 1, 2.5, None, {})),
        ],
        is_reported,
    )


class Logs:
    """A folder with logs, and what reads it for a run."""

    def __init__(self, folder: Path) -> None:
        self.run, self._folder = Run("run-1", None), folder
        self.reader = TensorBoardLogs(str(folder), Progress())

    def write(self, name: str, data: bytes) -> Path:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        return path

    @property
    def latest(self) -> tuple[Any, Any] | None:
        self.reader.look(self.run)
        return self.run.latest[:2] if self.run.latest is not None else None


def test_files_are_followed_as_they_grow(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs")
    assert logs.latest is None
    first, rest = logged((1, "loss", 2.5)), logged((2, "loss", 2.0))
    logs.write("run/events.out.tfevents.1.host", first + rest[:20])
    assert logs.latest == (1, 2.5)
    logs.write("run/events.out.tfevents.1.host", rest[20:])
    assert logs.latest == (2, 2.0)
    steps = logs.run.steps
    assert logs.latest == (2, 2.0)
    assert logs.run.steps == steps
    logs.write("run/validation/events.out.tfevents.2.host", logged((3, "loss", 9.0)))
    logs.write("run/events.out.tfevents.3.host", logged((3, "loss", 1.5)))
    assert logs.latest == (3, 1.5)
    logs.reader.close()


def test_what_is_not_of_this_command_is_not_read(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write("a.tfevents.1", record(event(1, "loss", simple(2.5), wall=time.time() - 5)))
    old = logs.write("b.tfevents.1", logged((2, "loss", 2.5)))
    os.utime(old, (1, 1))
    os.mkfifo(tmp_path / "c.tfevents.1")
    (tmp_path / "loop").symlink_to(tmp_path)
    logs.write("d.tfevents.1", logged((4, "lm loss vs samples", 2.5), (4, "_hparams_/experiment", 0.0)))
    assert logs.latest is None
    logs.reader.close()
