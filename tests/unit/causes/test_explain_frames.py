"""What people see of a cause besides its line: where it was raised, or the exit status that no line shows."""

import json

from lastbeat.explain.causes.explaining import explain, explain_text
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.causes.tracebacks import FRAME_LIMIT
from lastbeat.explain.signals.hints import GUESS
from lastbeat.explain.signals.loading import load
from support.explained import cause_of, explained
from support.printed import STEPS, TORCH
from support.row_by_row import check_each

CATALOGUE = load("default")
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x128 and 64x10)"


def trace(*frames: tuple[str, int, str, str], last: str = SHAPES) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, line, function, code in frames:
        lines += [f'  File "{file}", line {line}, in {function}', *([f"    {code}", "    ~~~~^^^^"] if code else [])]
    return "".join(f"{line}\n" for line in (*lines, last))


MAIN = ("/home/u/train.py", 120, "<module>", "main()")
STEP = ("/home/u/train.py", 77, "main", "loss = step(batch)")
MODEL = ("/home/u/model.py", 31, "step", "return self.net(x)")


def test_the_hint_says_where_only_if_that_is_known() -> None:
    plan = "RuntimeError: the plan has no such step"
    raising = (*MODEL[:3], "raise RuntimeError(message)")
    known = cause_of(explain_text(STEPS + trace(MAIN, STEP, raising, last=plan), CATALOGUE))
    unknown = cause_of(explain_text(STEPS + plan + "\n", CATALOGUE, "_error"))
    rest = ". It will come again on restart unless code, configuration or input change."
    assert known.hint == f"{GUESS}RuntimeError on this process at /home/u/model.py:31 in step{rest}"
    assert unknown.hint == f"{GUESS}RuntimeError on this process{rest}"


def test_frames_are_bounded_and_outlast_the_process_that_read_them() -> None:
    deep = ("/x" * 150 + "/train.py", 10**8, "f" * 110, "y" * 4000)
    reader = LogReader(CATALOGUE, "train.log")
    reader.feed((STEPS + trace(*[deep] * 50, *[(TORCH + deep[0], *deep[1:])] * 50)).encode())
    again = LogReader.restore(CATALOGUE, json.loads(json.dumps(reader.document())))
    again.finish()
    cause = cause_of(explain([again.summary()], CATALOGUE))
    assert len(cause.frames) == 4
    assert max(map(len, cause.frames)) <= FRAME_LIMIT
    assert all("train.py:100000000 in fff" in frame for frame in cause.frames), "the end of a path says more"


EXITS = {
    "a kill is a guess": (-9, "killed by SIGKILL", GUESS + "The process was killed with SIGKILL"),
    "as a shell counts it": (137, "137 (killed by SIGKILL)", GUESS),
    "a status of its own": (7, "7", "It was not killed: it ended by itself with exit status 7,"),
    "an unexplained signal": (-13, "killed by SIGPIPE", "It was killed by SIGPIPE, and nothing"),
    "an abort": (-6, "killed by SIGABRT", "It was killed by SIGABRT: code that found"),
}


def test_an_exit_that_no_line_shows_is_no_line_of_a_log() -> None:
    check_each(EXITS.items(), is_no_line)


def is_no_line(exit_code: int, evidence: str, hint: str) -> None:
    cause = cause_of(explained(("logs/training_log_latest.txt", STEPS), exit_code=exit_code))
    assert (cause.evidence.file, cause.evidence.line, cause.evidence.text) == ("exit status", 0, evidence)
    assert cause.hint.startswith(hint)
    assert "most often killed" not in cause.hint


def test_a_schedulers_word_that_no_line_shows_is_the_schedulers() -> None:
    cause = cause_of(explained(scheduler="TIMEOUT"))
    assert (cause.evidence.file, cause.evidence.line, cause.evidence.text) == ("scheduler", 0, "TIMEOUT")


def test_what_lastbeat_adds_to_a_kill_is_no_statement_of_its_cause() -> None:
    error = "sh was killed by SIGKILL (signal 9): often the OOM killer or the scheduler\n\nIt printed nothing.\n"
    cause = cause_of(explained(("_error", error), exit_code=-9))
    assert (cause.error_type, cause.confidence) == ("oom", 0.5)
    assert (cause.evidence.file, cause.evidence.text) == ("exit status", "killed by SIGKILL")
