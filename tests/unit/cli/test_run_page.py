"""One run on a terminal that is ours: that nothing of it is lost at the edge."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.resources import Resources
from lastbeat.model.silence import Silence
from lastbeat.model.state import RecordedCause, ShownState
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.model.view import Excerpt, RankLine, Row, RunView
from lastbeat.stores.port import StoreError
from lastbeat.views.lines import signs
from lastbeat.views.lines.paint import cells, rendered
from lastbeat.views.lines.run import show_lines
from lastbeat_cli.run.page import Freshness, RunPage

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
WHY = "No progress: still at step 25252 after 1h 08m (limit 15m, twice exceeded), and that is where it hangs"
DOUBT = "it wrote a sentinel, and it beats again, and no pass has judged that; this sentence takes two lines, at least"
VIEW = RunView(
    Row(
        "gpt-neox-20b",
        ShownState(Status.TIMED_OUT, WHY, action="Look at nvidia-smi."),
        doubt=DOUBT,
        since=NOW - timedelta(hours=1),
    ),
    NOW,
    "s3://bucket/training-runs/gpt-neox-20b/",
)


def seen(fault: StoreError | None = None) -> Freshness:
    return Freshness(looked=True, since_s=3, fault=fault, fault_s=60)


def shown(page: RunPage, columns: int, height: int, how: Freshness) -> list[str]:
    told = [rendered(each, colours=False) for each in page.picture(VIEW, how, columns, height)]
    assert max(map(cells, told)) <= columns
    assert len(told) == height
    return told


@pytest.mark.parametrize("columns", [30, 80, 200])
def test_why_it_needs_people_is_told_whole(columns: int) -> None:
    told = " ".join(" ".join(shown(RunPage("gpt-neox-20b", signs.UTF8, curves=False), columns, 40, seen())).split())
    assert f"Run gpt-neox-20b: TIMED_OUT Detail: {WHY} In doubt: {DOUBT} Since:" in told


def test_a_silenced_run_says_until_when_why_and_by_whom() -> None:
    now = VIEW.at
    silence = Silence("ab12cd34", "gpt*", now, now + timedelta(hours=3), "node repair", "ana@desk")
    view = replace(VIEW, row=replace(VIEW.row, silence=silence))
    told = " ".join(rendered(each, colours=False) for each in show_lines(view, 200, str))
    until = format_time(silence.until)
    assert f"Silenced: no alerts until {until}, by ana@desk: node repair" in told


@pytest.mark.parametrize("columns", [20, 40, 80])
@pytest.mark.parametrize("curves", [False, True], ids=["all about it", "curves"])
def test_a_terminal_without_utf8_gets_nothing_else(columns: int, *, curves: bool) -> None:
    page = RunPage("gpt-neox-20b", signs.ascii_only(), curves=curves)
    for fault in (None, StoreError("no answer " * 20)):
        assert "\n".join(shown(page, columns, 12, seen(fault))).isascii()


def test_of_a_frame_of_a_stack_both_ends_are_shown() -> None:
    frame = '    File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 2806, in all_reduce'
    stacks = Excerpt("logs/stacks.txt", ('  Thread "MainThread" (main)', frame))
    told = [rendered(each, colours=False) for each in show_lines(replace(VIEW, stacks=stacks), 80, str)]
    shown_frame = next(text for text in told if "File" in text)
    assert shown_frame.startswith('      File "/usr/lib/python3/')
    assert shown_frame.endswith('d.py", line 2806, in all_reduce')
    assert cells(shown_frame) <= 80


def test_what_to_do_is_on_the_first_screen_also_of_a_low_terminal() -> None:
    evidence = Evidence("train.log", 80, "CUDA out of memory", rank=3)
    log = Excerpt(
        "train.log", tuple(f"line {n} " + "CUDA out of memory " * 9 * (n == 80) for n in range(70, 88)), 70, 10
    )
    hint = "Reduce the micro-batch size. " * 10 + "That is all."
    row = replace(
        VIEW.row, state=replace(VIEW.row.state, status=Status.FAILED, reason="CUDA out of memory. " * 12), doubt=None
    )
    failed = replace(VIEW, row=row, explained=RecordedCause(Cause("oom", evidence, 0.9, hint=hint)), evidence=log)
    for height, seen_lines in ((24, (77, 80, 82)), (60, (70, 80, 87))):
        page = RunPage("gpt-neox-20b", signs.UTF8, curves=False)
        told = [rendered(each, colours=False) for each in page.picture(failed, seen(), 80, height)]
        assert "That is all." in "\n".join(told)
        assert [n for n in seen_lines if not any(f" {n} line {n}" in text for text in told)] == []
        assert any(text.startswith("  > 80") for text in told)


def test_a_rank_that_lags_is_named_beside_one_that_failed() -> None:
    steps = {0: 97, 1: 97, 2: 55, 3: 70}
    ranks = tuple(
        RankLine(rank, NOW, step, status="failed" if rank == 3 else "running", behind=97 - step)
        for rank, step in steps.items()
    )
    told = [rendered(each, colours=False) for each in show_lines(replace(VIEW, ranks=ranks), 100, str)]
    assert [text.split()[1] for text in told if text.startswith("  rank ")] == ["3", "2"]


SAID = "KeyError: 'tokens'"
TRACE = (
    "Traceback (most recent call last):",
    *(
        f'  File "/usr/lib/python3/dist-packages/torch/deep.py", line {number}, in call_{number}'
        for number in range(40)
    ),
    '  File "/opt/train.py", line 88, in collate',
    "    return batch['tokens']",
    SAID,
)


def lines_of(view: RunView, columns: int = 100) -> list[str]:
    return [rendered(each, colours=False) for each in show_lines(view, columns, str)]


def test_of_a_traceback_the_end_is_shown() -> None:
    row = Row("run-1", ShownState(Status.FAILED, SAID))
    told = lines_of(replace(VIEW, row=row, error_text="\n".join((SAID, "", *TRACE))))
    assert any('File "/opt/train.py", line 88' in text for text in told)
    assert any("return batch['tokens']" in text for text in told)
    assert not any("in call_1" in text and text.rsplit(" ", 1)[-1] == "call_1" for text in told)


def test_one_error_is_told_once_below_the_detail() -> None:
    row = Row("run-1", ShownState(Status.FAILED, SAID))
    steps = tuple(f"step {number} loss 2.5" for number in range(30))
    log = Excerpt("logs/a.log", (*steps[-20:], *TRACE[-4:], "bye"), 11)
    evidence = Excerpt("logs/a.log", (*steps[-8:], *TRACE[-4:], "bye"), 23, 11)
    explained = RecordedCause(Cause("data", Evidence("logs/a.log", 34, SAID), 0.9))
    error = "\n".join((SAID, "rank 0 of 1 on node-7", "", *TRACE[-4:]))
    view = replace(VIEW, row=row, explained=explained, evidence=evidence, log=log, error_text=error)
    told = lines_of(view)
    # Its detail is what `watch` says, too, and the line in its log is where it comes from.
    assert sum(SAID in text for text in told) == 2
    assert sum("rank 0 of 1 on node-7" in text for text in told) == 1
    for step in steps[-20:]:
        assert sum(text.endswith(step) for text in told) == 1


def test_where_it_is_undecided_both_causes_have_their_advice() -> None:
    line = Evidence("exit status", 0, "killed by SIGKILL")
    first = Cause("oom", line, 0.5, restartable=False, hint="Less of it. " + "More words. " * 40)
    explained = RecordedCause(first, second=Cause("cancelled", line, 0.25, restartable=True, hint="Ask who."))
    view = replace(VIEW, row=Row("run-1", ShownState(Status.FAILED, "killed", action="both")), explained=explained)
    told = lines_of(view)
    assert "Cause: oom or cancelled (perhaps)" in told
    at = told.index("What to do")
    assert told[at + 1].startswith("If oom: Less of it. More words.")
    assert "Restart: if this is the cause, only after a change." in told
    assert told.index("If cancelled: Ask who.") > at
    assert "\n".join(told).count("More words.") < 20


def test_next_to_no_cpu_is_said_in_words() -> None:
    used = [
        next(text for text in lines_of(replace(VIEW, resources=Resources(cpu=cpu))) if "CPU" in text)
        for cpu in (7.9e-5, 0.05, 3.19, 63.97)
    ]
    assert [text.split(" CPU")[0].strip() for text in used] == ["under 0.01", "0.05", "3.19", "64"]
