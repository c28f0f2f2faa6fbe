"""The text of ``_error``: what people read first stands first."""

from collections.abc import Callable

import pytest

from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.values import TEXT_LIMIT, error_text
from support.memory import MemoryStore
from support.reporting import environment

SHARDS: dict[str, str] = {}


def caught(act: Callable[[], object]) -> BaseException:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test is about
        return error
    raise AssertionError("nothing was raised")


def chained() -> None:
    try:
        SHARDS["shard-7"]
    except KeyError as error:
        raise RuntimeError("no data") from error


def while_handling() -> None:
    try:
        SHARDS["shard-7"]
    except KeyError:
        raise RuntimeError("cannot clean up")  # noqa: B904 - this is what it is about


def throw(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot say")


FIRST = [
    pytest.param(throw(ValueError("bad")), "ValueError: bad", id="type and message"),
    pytest.param(throw(ValueError()), "ValueError", id="no message"),
    pytest.param(throw(RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA")),
                 "RuntimeError: CUDA error: out of memory", id="the first line of a message of several"),
    pytest.param(lambda: compile("a b", "x.py", "exec"), "SyntaxError: invalid syntax",
                 id="not a SyntaxError's source"),
    pytest.param(chained, "RuntimeError: no data", id="the error, not its cause"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "first"), FIRST)
def test_the_first_line(act: Callable[[], object], first: str) -> None:
    lines = error_text(caught(act)).splitlines()
    assert (lines[0], lines[1]) == (first, "")
    assert lines[2] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("act", "link"),
    [
        pytest.param(chained, "direct cause of the following", id="a cause"),
        pytest.param(while_handling, "During handling of the above", id="a context"),
    ],
)
def test_the_trace_holds_the_whole_chain(act: Callable[[], object], link: str) -> None:
    told = error_text(caught(act))
    assert "KeyError: 'shard-7'" in told
    assert link in told


def test_an_exception_that_cannot_be_told_is_told_of() -> None:
    assert "MuteError" in error_text(caught(throw(MuteError())))


def test_what_is_no_exception_is_told_of_too() -> None:
    assert error_text(7) == "int: 7"


def test_a_text_without_end_keeps_both_its_ends() -> None:
    told = error_text(caught(throw(ValueError("x" * 10_000_000 + "y"))))
    assert len(told) < TEXT_LIMIT + 100
    assert told.startswith("ValueError: xxx")
    assert told.endswith("xy\n")


ENDINGS = [
    pytest.param(None, "_complete", "", id="no exception"),
    pytest.param(SystemExit(0), "_complete", "", id="exit 0"),
    pytest.param(SystemExit(""), "_error", "SystemExit: ", id="exit with an empty text"),
    pytest.param(SystemExit([]), "_error", "SystemExit: []", id="exit with what cannot be hashed"),
    pytest.param(SystemExit(3), "_error", "SystemExit: training ended with exit status 3", id="exit 3"),
    pytest.param(KeyboardInterrupt(), "_error", "Cancelled: KeyboardInterrupt (Ctrl-C)", id="Ctrl-C is no crash"),
    pytest.param(ValueError("bad"), "_error", "ValueError: bad", id="anything else"),
]


@pytest.mark.parametrize(("error", "sentinel", "first"), ENDINGS)
def test_how_a_block_ends(error: BaseException | None, sentinel: str, first: str) -> None:
    store = MemoryStore()
    run = Run("r", Reporter(lambda: environment(store)))
    run.end_with(error)
    run.end_with(RuntimeError("later"))
    (name,) = {"r/_complete", "r/_error", "r/_preempted"} & store.held.keys()
    assert (name, store.held[name].body.decode().partition("\n")[0]) == (f"r/{sentinel}", first)


EARLY = [
    pytest.param(True, 7, "_preempted", id="it leaves its loop without naming a checkpoint"),
    pytest.param(True, 49, "_complete", id="it was done when it was asked"),
    pytest.param(False, 7, "_complete", id="it never looked"),
]


@pytest.mark.parametrize(("looks", "step", "sentinel"), EARLY)
def test_how_training_ends_that_was_asked_to_stop(looks: bool, step: int, sentinel: str) -> None:
    store = MemoryStore()
    run = Run("r", Reporter(lambda: environment(store)), 50)
    run.step(step)
    run.ask_to_stop("it is time", "asked")
    assert not looks or run.should_stop
    run.end_with(None)
    assert [key for key in store.held if key in {"r/_complete", "r/_error", "r/_preempted"}] == [f"r/{sentinel}"]
