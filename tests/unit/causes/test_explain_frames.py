"""Where an exception was raised: the innermost frames of its traceback, the program's own before a library's."""

import json

import pytest

from lastbeat.causes.explaining import explain, explain_text
from lastbeat.causes.log_reader import LogReader
from lastbeat.causes.tracebacks import FRAME_LIMIT
from lastbeat.signals.hints import GUESS
from lastbeat.signals.loading import load
from support.printed import STEPS, TORCH

CATALOGUE = load("default")
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x128 and 64x10)"


def trace(*frames: tuple[str, int, str, str], last: str = SHAPES, prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines += [f'  File "{file}", line {line}, in {function}', *([f"    {code}", "    ~~~~^^^^"] if code else [])]
    return "".join(f"{prefix}{line}\n" for line in (*lines, last))


def flat(text: str, prefix: str = "", between: str = "") -> str:
    """As collectors leave it that take the blanks from the front of each line."""
    return "".join(f"{prefix}{line.strip()}\n{between}" for line in text.splitlines())


MAIN = ("/home/u/train.py", 120, "<module>", "main()")
STEP = ("/home/u/train.py", 77, "main", "loss = step(batch)")
MODEL = ("/home/u/model.py", 31, "step", "return self.net(x)")
MODULE = (f"{TORCH}/nn/modules/module.py", 1739, "_wrapped_call_impl", "return self._call_impl(*args)")
LINEAR = (f"{TORCH}/nn/modules/linear.py", 125, "forward", "return F.linear(x, w)")
CHECKOUT = ("/src/pytorch/torch/nn/functional.py", 9, "linear", "")
JSON = ("/usr/lib/python3.11/json/decoder.py", 355, "raw_decode", "raise JSONDecodeError")
LASTBEAT = ("/home/u/lastbeat/core/lastbeat/sdk/run.py", 8, "step", "self._store(x)")

OWN = ["/home/u/model.py:31 in step: return self.net(x)", "/home/u/train.py:77 in main: loss = step(batch)"]
ROWS = [
    pytest.param(trace(MAIN, STEP, MODEL), OWN, id="the innermost two of the program's own, the innermost first"),
    pytest.param(trace(MAIN, STEP, MODEL, MODULE, LINEAR),
                 [*OWN, "torch/nn/modules/linear.py:125 in forward: return F.linear(x, w)",
                  "torch/nn/modules/module.py:1739 in _wrapped_call_impl: return self._call_impl(*args)"],
                 id="a library's come after them"),
    pytest.param(trace(MAIN, CHECKOUT),
                 ["/home/u/train.py:120 in <module>: main()", "/src/pytorch/torch/nn/functional.py:9 in linear"],
                 id="a checkout of torch is a library; code that is not printed is left out"),
    pytest.param(trace(MAIN, JSON),
                 ["/home/u/train.py:120 in <module>: main()",
                  "json/decoder.py:355 in raw_decode: raise JSONDecodeError"], id="so is the standard library"),
    pytest.param(trace(MAIN, LASTBEAT),
                 ["/home/u/train.py:120 in <module>: main()",
                  "/home/u/lastbeat/core/lastbeat/sdk/run.py:8 in step: self._store(x)"], id="and lastbeat"),
    pytest.param(trace(MODULE, LINEAR),
                 ["torch/nn/modules/linear.py:125 in forward: return F.linear(x, w)",
                  "torch/nn/modules/module.py:1739 in _wrapped_call_impl: return self._call_impl(*args)"],
                 id="where none is the program's own, a library's alone"),
    pytest.param(trace(MAIN, STEP, MODEL, prefix="[rank3]: "), OWN, id="of a rank whose lines have a prefix"),
    pytest.param(f"{SHAPES} (exit status 1)\n\nThe last lines of its output:\n{trace(MAIN, STEP, MODEL)}", OWN,
                 id="_error says it in one line before its traceback"),
    pytest.param(flat(trace(MAIN, STEP, MODEL)), OWN, id="whose lines lost their indents"),
    pytest.param(flat(trace(MAIN, STEP, MODEL), "2026-03-01 10:00:00.123 ", "\n"), OWN,
                 id="whose lines got a time instead of their indents, and empty lines between them"),
    pytest.param(flat(trace(MAIN, CHECKOUT)),
                 ["/home/u/train.py:120 in <module>: main()", "/src/pytorch/torch/nn/functional.py:9 in linear"],
                 id="whose lines lost their indents, and whose last frame has no code"),
    pytest.param(SHAPES + "\n", [], id="an exception without a traceback has none"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "frames"), ROWS)
def test_where_it_was_raised(text: str, frames: list[str]) -> None:
    cause = explain_text(STEPS + text, CATALOGUE, "_error").cause
    assert cause is not None
    assert list(cause.frames) == frames


def test_the_hint_says_where_only_if_that_is_known() -> None:
    plan = "RuntimeError: the plan has no such step"
    known = explain_text(STEPS + trace(MAIN, STEP, MODEL, last=plan), CATALOGUE).cause
    unknown = explain_text(STEPS + plan + "\n", CATALOGUE, "_error").cause
    assert known is not None
    assert unknown is not None
    rest = ". It will come again on restart unless code, configuration or input change."
    assert known.hint == f"{GUESS}RuntimeError on this process at /home/u/model.py:31 in step{rest}"
    assert unknown.hint == f"{GUESS}RuntimeError on this process{rest}"


def test_the_frames_of_the_error_that_came_first_are_shown_and_not_those_of_what_followed() -> None:
    text = (
        STEPS
        + trace(MAIN, STEP, MODEL, last="KeyError: 'labels'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + trace(MAIN, ("/home/u/clean.py", 3, "stop", "1 / 0"), last="ZeroDivisionError: division by zero")
    )
    cause = explain_text(text, CATALOGUE).cause
    assert cause is not None
    assert cause.evidence.text == "KeyError: 'labels'"
    assert list(cause.frames) == OWN


def test_a_crash_shows_where_pythons_faulthandler_saw_it() -> None:
    text = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f487be1bb80 (most recent call first):\n"
        f'  File "{TORCH}/nn/functional.py", line 12 in linear\n'
        '  File "/home/u/train.py", line 77 in main\n'
    )
    cause = explain_text(STEPS + text, CATALOGUE).cause
    assert cause is not None
    assert cause.frames == ("train.py:77 in main",)


def test_frames_are_bounded_and_outlast_the_process_that_read_them() -> None:
    deep = ("/x" * 150 + "/train.py", 10**8, "f" * 110, "y" * 4000)
    reader = LogReader(CATALOGUE, "train.log")
    reader.feed((STEPS + trace(*[deep] * 50, *[(TORCH + deep[0], *deep[1:])] * 50)).encode())
    again = LogReader.restore(CATALOGUE, json.loads(json.dumps(reader.document())))
    again.finish()
    cause = explain([again.summary()], CATALOGUE).cause
    assert cause is not None
    assert len(cause.frames) == 4
    assert max(map(len, cause.frames)) <= FRAME_LIMIT
    assert all("train.py:100000000 in fff" in frame for frame in cause.frames), "the end of a path says more"


@pytest.mark.parametrize(
    ("exit_code", "evidence", "hint"),
    [
        pytest.param(-9, "killed by SIGKILL", GUESS + "The process was killed with SIGKILL", id="a kill is a guess"),
        pytest.param(137, "137 (killed by SIGKILL)", GUESS, id="as a shell counts it"),
        pytest.param(7, "7", "It was not killed: it ended by itself with exit status 7,", id="a status of its own"),
        pytest.param(-13, "killed by SIGPIPE", "It was killed by SIGPIPE, and nothing", id="an unexplained signal"),
        pytest.param(-6, "killed by SIGABRT", "It was killed by SIGABRT: code that found", id="an abort"),
    ],
)
def test_an_exit_that_no_line_shows_is_no_line_of_a_log(exit_code: int, evidence: str, hint: str) -> None:
    reader = LogReader(CATALOGUE, "logs/training_log_latest.txt")
    reader.feed(STEPS.encode())
    reader.finish()
    cause = explain([reader.summary()], CATALOGUE, exit_code=exit_code).cause
    assert cause is not None
    assert (cause.evidence.file, cause.evidence.line, cause.evidence.text) == ("exit status", 0, evidence)
    assert cause.hint.startswith(hint)
    assert "most often killed" not in cause.hint


def test_a_schedulers_word_that_no_line_shows_is_the_schedulers() -> None:
    cause = explain([], CATALOGUE, scheduler="TIMEOUT").cause
    assert cause is not None
    assert (cause.evidence.file, cause.evidence.line, cause.evidence.text) == ("scheduler", 0, "TIMEOUT")


def test_what_lastbeat_adds_to_a_kill_is_no_statement_of_its_cause() -> None:
    reader = LogReader(CATALOGUE, "_error")
    reader.feed(b"sh was killed by SIGKILL (signal 9): often the OOM killer or the scheduler\n\nIt printed nothing.\n")
    reader.finish()
    cause = explain([reader.summary()], CATALOGUE, exit_code=-9).cause
    assert cause is not None
    assert (cause.error_type, cause.confidence) == ("oom", 0.5)
    assert (cause.evidence.file, cause.evidence.text) == ("exit status", "killed by SIGKILL")
