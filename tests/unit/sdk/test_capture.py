"""Capturing what is printed changes nothing for whoever prints."""

# ruff: noqa: T201 - printing is what is tested

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from lastbeat.training.sdk.capture import LIMIT_CHARS, Capture


class Stage:
    """A ``sys.stdout`` and a ``sys.stderr`` of the test's own."""

    def __init__(self) -> None:
        self.out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        self.err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def printed(self) -> str:
        raw = self.out.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


@contextmanager
def on_stage() -> Iterator[Stage]:
    """Not a fixture: pytest puts its own streams in place between a fixture and its test."""
    stage = Stage()
    with redirect_stdout(stage.out), redirect_stderr(stage.err):
        yield stage


def test_both_streams_are_kept_in_the_order_of_their_writing() -> None:
    with on_stage() as stage:
        capture = Capture().start()
        print("one", 2)
        print("three", file=sys.stderr)
        sys.stdout.writelines(["four\n", "five\n"])
        assert capture.take() == ("one 2\nthree\nfour\nfive\n", False)
        assert capture.take() == ("", False)
        assert stage.printed == "one 2\nfour\nfive\n"
        capture.stop()


def test_the_streams_stay_the_objects_that_they_were() -> None:
    with on_stage() as stage:
        handler = logging.StreamHandler()  # Holds sys.stderr from before.
        capture = Capture().start()
        assert sys.stdout is stage.out
        assert (sys.stdout.encoding, sys.stdout.isatty()) == ("utf-8", False)
        assert sys.stdout.write("äb") == 2
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "logged", None, None))
        assert capture.take()[0] == "äblogged\n"
        capture.stop()


@pytest.mark.parametrize(
    "first_out", [pytest.param(0, id="in the order of starting"), pytest.param(1, id="the other way")]
)
def test_two_runs_can_capture_at_once(first_out: int) -> None:
    with on_stage() as stage:
        both = [Capture().start(), Capture().start()]
        print("both")
        assert [capture.take()[0] for capture in both] == ["both\n", "both\n"]
        both[first_out].stop()
        print("one")
        assert both[1 - first_out].take()[0] == "one\n"
        both[1 - first_out].stop()
        print("none")
        assert stage.printed == "both\none\nnone\n"


def test_an_error_of_the_stream_is_the_streams_own() -> None:
    with on_stage() as stage:
        capture = Capture().start()
        stage.out.close()
        with pytest.raises(ValueError, match="closed file"):
            print("x")
        with pytest.raises(TypeError):
            sys.stderr.write(5)  # type: ignore[arg-type]  # what a mistaken caller does
        assert capture.take()[0] == ""
        capture.stop()


def test_without_streams_there_is_nothing_to_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    Capture().start().stop()


class Sealed:
    """A stream whose write cannot be replaced."""

    __slots__ = ()

    def write(self, text: str) -> int:
        return len(text)


def test_a_stream_that_cannot_be_captured_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stdout", Sealed())
    with caplog.at_level(logging.WARNING, logger="lastbeat"):
        capture = Capture().start()
    print("x")
    capture.stop()
    assert "cannot capture sys.stdout, a value of type Sealed" in caplog.text


class Loud(str):
    """A text whose length is not to be had."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("loud")


def test_odd_texts_are_kept_as_what_they_say() -> None:
    capture = Capture()
    for text in (Loud("loud"), b"bytes", None, 5):
        capture.add(text)
    assert capture.take()[0] == "loud"


def test_what_nobody_takes_is_bounded_and_said_to_be_lost() -> None:
    capture = Capture()
    for number in range(60_000):
        capture.add(f"line {number:09d} {'x' * 40}\n")
    text, lost = capture.take()
    assert lost
    assert LIMIT_CHARS / 2 < len(text) <= 2 * LIMIT_CHARS
    assert text.endswith(f"line {59_999:09d} {'x' * 40}\n")
    capture.add("y" * 10 * LIMIT_CHARS)
    text, lost = capture.take()
    assert (len(text), lost) == (LIMIT_CHARS, True)


def test_many_threads_lose_nothing_while_it_is_taken() -> None:
    capture = Capture()
    writers = [
        threading.Thread(target=lambda name=name: [capture.add(f"{name}{n}\n") for n in range(2000)]) for name in "abcd"
    ]
    for writer in writers:
        writer.start()
    taken = ""
    while any(writer.is_alive() for writer in writers):
        taken += capture.take()[0]
    for writer in writers:
        writer.join()
    taken += capture.take()[0]
    for name in "abcd":
        assert [line for line in taken.split("\n") if line.startswith(name)] == [f"{name}{n}" for n in range(2000)]


def test_printing_elsewhere_for_a_while_is_not_captured() -> None:
    with on_stage():
        capture = Capture().start()
        with redirect_stdout(io.StringIO()):
            print("private")
        assert capture.take()[0] == ""
        capture.stop()


def test_a_forked_child_keeps_nothing() -> None:
    capture = Capture()
    child = os.fork()
    if child == 0:
        capture.add("x")
        os._exit(0 if capture.take() == ("", False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    capture.add("y")
    assert capture.take()[0] == "y"
