"""What a pass over a fleet looks like: the head that counts, the runs that need people, and silence without news."""

import json
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.fleet import LINES_LIMIT, PassReport, RunLine
from lastbeat.model.record import Transition
from lastbeat.model.secrets import Redactor
from lastbeat.model.status import Status
from lastbeat.views.lines import paint
from lastbeat_cli import logs
from lastbeat_cli.watch import pass_lines
from lastbeat_cli.watch.pass_lines import MOST_ROWS, StatusLine
from lastbeat_cli.watch.passes import SIGN_OF_LIFE_S, Shown
from support.memory import START

WHERE = "s3://b/p"


def moved(after: Status, reason: str, *, silenced: str | None = None) -> Transition:
    return Transition(1, START, Status.RUNNING, after, reason, 1, None, silenced)


def report(**fields: Any) -> PassReport:
    return PassReport(**{"at": START, **fields})


HEADS = [
    pytest.param(report(), "no runs", id="an empty fleet"),
    pytest.param(report(statuses={"RUNNING": 1}), "1 running", id="one that runs"),
    pytest.param(
        report(
            statuses={"RUNNING": 409, "RUNNING (WARNING)": 3, "TIMED_OUT": 2, "FAILED": 1, "SUCCEEDED": 37},
            unreadable_count=5,
            finished=99000,
        ),
        "412 running, 3 of them with warnings, 2 timed out, 1 failed, 37 succeeded (last 24 h), 5 unreadable, "
        "99000 older",
        id="everything",
    ),
    pytest.param(
        report(statuses={"SUCCEEDED": 2}), "0 running, 2 succeeded (last 24 h)", id="that nothing runs any more is news"
    ),
    pytest.param(report(finished=7), "7 older", id="nothing but history"),
    pytest.param(report(unreadable_count=1), "1 unreadable", id="nothing that could be read"),
    pytest.param(report(blind="no answer", statuses={"RUNNING": 9}), "UNKNOWN", id="a blind pass counts nothing"),
]


@pytest.mark.parametrize(("seen", "told"), HEADS)
def test_the_head_counts(seen: PassReport, told: str) -> None:
    assert pass_lines.head(seen, WHERE) == f"Fleet {WHERE}: {told}"


def test_the_runs_that_need_people_come_first_and_once() -> None:
    seen = report(
        transitions=(("run-1", moved(Status.SUCCEEDED, "done")), ("run-2", moved(Status.TIMED_OUT, "Both stale"))),
        lines=(
            RunLine("run-2", Status.TIMED_OUT, "Both stale"),
            RunLine("run-3", Status.FAILED, "boom", since=START - timedelta(hours=2, minutes=5)),
            RunLine("run-4", Status.RUNNING, "fine"),
            RunLine("run-5", Status.RUNNING, "stalled: no step", conditions=("stalled",)),
        ),
        unreadable={"run-6": "access denied"},
    )
    assert pass_lines.rows(seen, everything=True) == [
        StatusLine("FAILED", "run-3", "boom (2h 05m ago)"),
        StatusLine("TIMED_OUT", "run-2", "Both stale"),
        StatusLine("UNKNOWN", "run-6", "access denied"),
        StatusLine("RUNNING (WARNING)", "run-5", "stalled: no step"),
        StatusLine("SUCCEEDED", "run-1", "done"),
    ]
    assert [row.run_id for row in pass_lines.rows(seen, everything=False)] == ["run-2", "run-6", "run-1"]


def warned(reason: str, **fields: Any) -> RunLine:
    return RunLine("a", Status.RUNNING, reason, conditions=("rank_silent", "slow"), **fields)


SILENT = "rank_silent: rank 3 on node-7 silent for 12m, 7 others alive"
WARNINGS = [
    pytest.param(warned(SILENT, since=START), SILENT, id="since when it is so, not since when the run was seen"),
    pytest.param(
        warned(SILENT, looked_at=START - timedelta(minutes=5)),
        f"{SILENT} (as of 5m ago)",
        id="found by an earlier look",
    ),
    pytest.param(warned(SILENT, looked_at=START - timedelta(seconds=9)), SILENT, id="found a moment ago"),
]


@pytest.mark.parametrize(("line", "text"), WARNINGS)
def test_a_warning_says_what_it_is_and_since_when(line: RunLine, text: str) -> None:
    assert pass_lines.rows(report(lines=(line,)), everything=True) == [StatusLine("RUNNING (WARNING)", "a", text)]


def test_a_run_that_begins_is_news_but_to_the_first_pass() -> None:
    begun = Transition(1, START, None, Status.RUNNING, "Heartbeats: metadata.json 3s ago", 1)
    seen = report(transitions=(("run-1", begun),))
    assert pass_lines.rows(seen, everything=True) == []
    assert pass_lines.rows(seen, everything=False) == [StatusLine("RUNNING", "run-1", begun.reason)]


def test_a_silenced_transition_says_that_nobody_was_told() -> None:
    seen = report(transitions=(("run-1", moved(Status.FAILED, "boom", silenced="node repair")),))
    assert pass_lines.rows(seen, everything=False)[0].text == "boom (silenced: node repair)"


class Printed:
    """What a sequence of passes prints; the clock is turned by hand."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *, as_json: bool = False) -> None:
        self.now = 0.0
        self._capsys = capsys
        self._shown = Shown(WHERE, as_json=as_json, steady=lambda: self.now)

    def after(self, seen: PassReport, seconds: float = 60.0) -> list[str]:
        self.now += seconds
        self._shown.show(seen)
        return self._capsys.readouterr().out.splitlines()


def test_a_first_pass_tells_everything(capsys: pytest.CaptureFixture[str]) -> None:
    told = Printed(capsys).after(
        report(
            seconds=1.25,
            statuses={"RUNNING": 1, "FAILED": 1},
            lines=(RunLine("run-3", Status.FAILED, "boom"),),
            requests={"LIST": 2, "GET": 3},
            sent=1,
            ignored=("_x",),
            complete=False,
            notes=("the store ignores conditions",),
        )
    )
    assert told == [
        f"Fleet {WHERE}: 1 running, 1 failed (last 24 h)",
        "FAILED  run-3  boom",
        "Note: the time ran out; the next pass goes on where this one was",
        "Ignored: no run may be called _x",
        "Note: the store ignores conditions",
        "Checked: 2026-01-01T12:00:00Z in 1.2 s with 5 requests, 1 sent, 0 pending",
    ]


def test_a_blind_pass_says_why_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    seen = report(blind="s3://b/p: access denied", advice="allow s3:ListBucket", complete=False)
    told = Printed(capsys).after(seen)
    assert not [line for line in told if line.startswith("Note: the time ran out")], "it was not for want of time"
    assert told[:3] == [f"Fleet {WHERE}: UNKNOWN", "Detail: s3://b/p: access denied", "Action: allow s3:ListBucket"]


def test_later_passes_tell_what_is_new_and_now_and_then_that_they_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    same = report(statuses={"RUNNING": 1, "FAILED": 1}, lines=(RunLine("run-3", Status.FAILED, "boom"),))
    assert len(printed.after(same)) == 3
    assert printed.after(replace(same, seconds=9.0, requests={"LIST": 1})) == []
    ended = replace(same, statuses={"SUCCEEDED": 1}, transitions=(("run-1", moved(Status.SUCCEEDED, "done")),))
    assert printed.after(ended)[1:3] == [
        f"Fleet {WHERE}: 0 running, 1 succeeded (last 24 h)",
        "SUCCEEDED  run-1  done",
    ]
    quiet = replace(ended, transitions=())
    assert printed.after(quiet) == []
    alive = printed.after(quiet, SIGN_OF_LIFE_S)
    assert [line.split(" ")[0] for line in alive] == ["", "Fleet", "Checked:"]


def test_a_run_that_stays_unreadable_is_told_once_and_when_it_is_readable_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = Printed(capsys)
    torn = report(statuses={"RUNNING": 1}, unreadable={"run-1": "denied"}, unreadable_count=1)
    assert "UNKNOWN  run-1  denied" in printed.after(torn)
    assert printed.after(torn) == []
    assert printed.after(report(statuses={"RUNNING": 1}))[1] == f"Fleet {WHERE}: 1 running"


def test_more_runs_than_a_screen_has_lines_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    many = tuple((f"run-{n}", moved(Status.TIMED_OUT, "stale")) for n in range(MOST_ROWS + 12))
    told = Printed(capsys).after(report(transitions=many))
    assert told[-2] == "… and 12 more"
    assert len(told) == MOST_ROWS + 3


def test_more_runs_than_a_report_names_are_not_counted_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    named = tuple(RunLine(f"run-{n}", Status.FAILED, "boom") for n in range(LINES_LIMIT))
    told = Printed(capsys).after(report(statuses={"FAILED": 5000}, lines=named))
    assert told[-2] == "… and more: the first line counts them"


def test_json_is_one_object_a_pass_whatever_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys, as_json=True)
    for _ in range(2):
        (line,) = printed.after(report(statuses={"RUNNING": 1}))
        assert json.loads(line)["statuses"] == {"RUNNING": 1}


SECRET = "https://hooks.slack.com/services/T000/B000/abcdefghijklmnopqrstuvwx"


@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_are_masked_wherever_a_run_or_a_store_says_them(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    seen = report(
        transitions=(("run-1", moved(Status.FAILED, f"curl {SECRET}")),),
        lines=(RunLine("run-2", Status.FAILED, SECRET, action=SECRET),),
        unreadable={"run-3": SECRET},
        notes=(SECRET,),
        advice=SECRET,
    )
    before = logs._format.redactor
    logs.hide(Redactor([SECRET]))
    try:
        told = Printed(capsys, as_json=as_json).after(seen)
    finally:
        logs.hide(before)
    assert "abcdefghijklmnopqrstuvwx" not in "\n".join(told)
    assert "run-1" in "\n".join(told)


@given(st.text())
def test_no_training_text_makes_a_line_of_its_own_or_a_colour(text: str) -> None:
    seen = report(transitions=(("run-1", moved(Status.FAILED, f"x{text}")),), unreadable={"run-2": text}, notes=(text,))
    told = Shown(WHERE, as_json=False)._text(seen)
    assert len(told) == 5
    assert not any("\x1b" in line or "\n" in line or "\r" in line for line in told)


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(WHERE, as_json=False)
    shown._colour = True
    (row,) = shown._rows([StatusLine("FAILED", "run-1", "boom")])
    assert row == "\x1b[31m\x1b[1mFAILED\x1b[0m  run-1  boom"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, text, wanted in (
        ("TERM", "dumb", False),
        ("FORCE_COLOR", "0", False),
        ("FORCE_COLOR", "1", True),
        ("NO_COLOR", "1", False),
    ):
        monkeypatch.setenv(name, text)
        assert paint.coloured(sys.stdout) is wanted
