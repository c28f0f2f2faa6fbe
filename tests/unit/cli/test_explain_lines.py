"""The answer of ``explain`` as text: what stands where, in any width, whatever training printed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.alerts import facts
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.model.cause import AttemptInFile, Cause, Evidence, Explanation, Idle, LostPeer, Warned, sureness
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean
from lastbeat.views.lines.paint import cells, rendered
from lastbeat_cli.explain.lines import story_lines
from lastbeat_cli.explain.story import ExplainReport, LogRead
from lastbeat_cli.explain.timeline import bare, ranks_told

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
OOM = Evidence("rank3.log", 14, "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", 3, "gpu-n1", AT)
TIMEOUT = Evidence(
    "rank1.log", 20, "[rank1]:[E0101 01:00:00.1 x.cpp:1] Watchdog caught timeout", 1, None, AT + timedelta(minutes=10)
)
CAUSE = Cause("oom", OOM, 0.95, "gpu_memory", None, "Smaller batch.", "cuda_oom")
AROUND = ((12, "a"), (13, "b"), (14, "[rank3]: " + OOM.text), (15, "c"))
LOGS = (LogRead("rank1.log", 1, 30, 3000, 7, 100, 2.5), LogRead("rank3.log", 3, 15, 1500, 6, 100, 2.25))
STORY = ExplainReport(Explanation(CAUSE, (), (TIMEOUT,), ended=True), LOGS, TYPES, AROUND)
ONE = replace(STORY, logs=LOGS[1:], explanation=replace(STORY.explanation, downstream=()))


def shown(story: ExplainReport, columns: int = 80) -> list[str]:
    lines = story_lines(story, columns, lambda text: mask_tokens(clean(text)))
    return [rendered(each, colours=False) for each in lines]


def test_the_whole_of_it_with_the_cause_first() -> None:
    assert shown(STORY) == [
        "Cause: oom (sure)",
        "  A GPU, the host or /dev/shm ran out of memory.",
        "  At: rank3.log:14, rank 3, host gpu-n1, 2026-01-02T03:04:05Z",
        "",
        "  12  a",
        "  13  b",
        "> 14  [rank3]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "  15  c",
        "",
        "What to do",
        "  Smaller batch.",
        "  Restart: only after a change; without one it will end here again.",
        "",
        "Timeline   > cause   + followed",
        "> 03:04:05  rank 3  rank3.log:14  RuntimeError: CUDA out of memory. Tried to al…",
        "+ 03:14:05  rank 1  rank1.log:20  Watchdog caught timeout",
        "",
        "Read: 2 logs, 45 lines, 4.5 KB; last step 7 of 100 (7%), loss 2.5",
    ]


def explained(cause: Cause | None = CAUSE, **more: object) -> ExplainReport:
    return replace(ONE, explanation=replace(ONE.explanation, cause=cause, **more))  # type: ignore[arg-type]


OUR_OWN = replace(CAUSE, error_type="ours", hint="")
DONE = replace(OOM, text="training done")
SAID = [
    pytest.param(
        explained(replace(CAUSE, restartable=True)), "  Restart: from the last", id="a cause outranks its type"
    ),
    pytest.param(explained(OUR_OWN), "  Restart: it depends", id="a type nobody knows"),
    pytest.param(explained(replace(CAUSE, hint="")), "  Find out which memory", id="its type's hint"),
    pytest.param(explained(replace(CAUSE, confidence=0.3)), "Cause: oom (perhaps)", id="a guess is called one"),
    pytest.param(
        explained(ended=False), "  The log does not show that the run ended", id="a run that may still be alive"
    ),
    pytest.param(
        explained(alternatives=(replace(CAUSE, error_type="nccl", confidence=0.5, evidence=TIMEOUT),)),
        "  nccl (perhaps): line 20, rank 1",
        id="what else it may be",
    ),
    pytest.param(explained(replace(CAUSE, error_type="unknown", confidence=0.2)), "Cause: unknown", id="no guess"),
    pytest.param(
        replace(explained(replace(CAUSE, evidence=replace(OOM, file="-", rank=None, host=None, time=None)))),
        "  At: line 14 of standard input",
        id="what was piped in",
    ),
    pytest.param(explained(None), "Nothing in it ended the run.", id="a healthy log"),
    pytest.param(explained(None), "  Last: step 6 of 100 (6%), loss 2.25 (rank3.log)", id="and how far it came"),
    pytest.param(explained(None, success=DONE), "  line 14: training done", id="a log that says that it is done"),
    pytest.param(replace(explained(None), logs=(LogRead("-"),)), "Empty: there is no line in it.", id="an empty log"),
    pytest.param(replace(ONE, notes=("a.gz: cut off",)), "Note: a.gz: cut off", id="what was left out is told"),
    pytest.param(
        explained(replace(CAUSE, evidence=replace(OOM, text="exit code 137"))),
        "> exit code 137",
        id="what is no line of the log stands behind it",
    ),
    pytest.param(
        replace(ONE, around=()),
        "> 14  RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        id="without its neighbours the evidence is shown all the same",
    ),
]


@pytest.mark.parametrize(("story", "beginning"), SAID)
def test_what_is_said(story: ExplainReport, beginning: str) -> None:
    assert any(line.startswith(beginning) for line in shown(story)), "\n".join(shown(story))


def test_of_a_frame_that_is_too_long_the_line_and_the_function_are_kept() -> None:
    around = (
        (12, '[rank3]:   File "/opt/conda/lib/python3.11/site-packages/torch/nn/linear.py", line 125, in forward'),
        (13, "[rank3]:     ^^^^^^^^"),
        *AROUND[2:],
    )
    text = shown(replace(ONE, around=around))
    assert '  12  [rank3]:   File "…/torch/nn/linear.py", line 125, in forward' in text
    assert not any("^^^" in line for line in text), "carets point nowhere beside lines that are cut"


def test_beside_a_sure_cause_what_only_followed_from_it_is_not_offered_as_another() -> None:
    other = replace(CAUSE, error_type="nccl_timeout", confidence=0.3, evidence=TIMEOUT)
    for cause, offered in ((CAUSE, False), (replace(CAUSE, confidence=0.6), True)):
        text = shown(explained(cause, alternatives=(other,), downstream=(TIMEOUT,)))
        assert ("It may also be" in text) == offered
        assert any(line.startswith("+ ") for line in text), "it stays in the timeline"


def test_a_healthy_log_gets_no_cause_and_no_advice_what_to_change() -> None:
    assert not any(line.startswith(("Cause", "What to do")) for line in shown(explained(None)))


def test_ranks_that_say_the_same_are_one_row() -> None:
    followed = tuple(
        replace(TIMEOUT, rank=rank, line=20 + rank, text=f"[rank{rank}]: Watchdog ran for {600000 + rank} ms")
        for rank in range(8)
    )
    text = shown(replace(STORY, explanation=replace(STORY.explanation, downstream=followed)))
    assert sum("Watchdog" in line for line in text) == 1
    assert any("ranks 0-7" in line for line in text)


def test_a_rank_that_fell_silent_first_is_seen() -> None:
    def log(rank: int, step: int, seconds: int) -> LogRead:
        return LogRead(f"rank{rank}.log", rank, 9, 90, step, last_time=AT + timedelta(seconds=seconds))

    text = shown(replace(STORY, logs=[log(0, 100, 900), log(1, 100, 901), log(2, 90, -600)]))
    assert [" ".join(line.split()) for line in text if "its last line" in line] == [
        "02:54:05 rank 2 rank2.log:9 its last line, step 90",
        "03:19:05 ranks 0,1 rank0.log:9 its last line, step 100",
    ]


def test_of_ranks_that_hang_without_a_word_it_is_told_who_fell_silent_first() -> None:
    logs = [
        LogRead(f"rank{rank}.log", rank, 9, 90, step, last_time=AT + timedelta(minutes=minutes))
        for rank, step, minutes in ((0, 100, 9), (1, 98, 0), (2, 100, 9))
    ]
    text = [" ".join(line.split()) for line in shown(replace(explained(None), logs=logs))]
    at = text.index("Who fell silent first")
    assert text[at + 1 : at + 3] == [
        "03:04:05 rank 1 rank1.log:9 its last line, step 98",
        "03:13:05 ranks 0,2 rank0.log:9 its last line, step 100",
    ]


def test_long_lists_are_bounded_around_the_cause() -> None:
    many = tuple(
        replace(TIMEOUT, line=index, text=f"fault {chr(97 + index % 26)}{chr(97 + index // 26)}")
        for index in range(21, 121)
    )
    text = shown(replace(STORY, explanation=replace(STORY.explanation, downstream=many)))
    assert len(text) < 45
    assert any(line.startswith("> 03:04:05") for line in text)
    assert any("and 81 more" in line for line in text)


def test_files_of_one_folder_are_called_by_their_own_names() -> None:
    def moved(evidence: Evidence) -> Evidence:
        return replace(evidence, file=f"/scratch/job/logs/{evidence.file}")

    found = Explanation(replace(CAUSE, evidence=moved(OOM)), (), (moved(TIMEOUT),), ended=True)
    logs = [replace(log, name=f"/scratch/job/logs/{log.name}") for log in LOGS]
    text = "\n".join(shown(replace(STORY, explanation=found, logs=logs)))
    assert "At: /scratch/job/logs/rank3.log:14" in text
    assert "Read: 2 logs in /scratch/job/logs, " in text
    assert "+ 03:14:05  rank 1  rank1.log:20" in text


PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(PLAIN_TEXT, st.lists(PLAIN_TEXT, max_size=4), st.integers(40, 220))
def test_every_line_fits_and_nothing_in_it_is_interpreted(text: str, around: Sequence[str], columns: int) -> None:
    bad = replace(OOM, text=text, file=f"{text[:40] or 'x'}.log", host=text[:90])
    story = ExplainReport(
        Explanation(
            replace(CAUSE, evidence=bad, hint=text),
            (replace(CAUSE, evidence=bad),),
            (replace(bad, line=99),),
            ended=True,
        ),
        [LogRead(bad.file, None, 5, 50)],
        TYPES,
        [(14 + index, clean(each)) for index, each in enumerate(around)],
        [text],
    )
    for line in shown(story, columns):
        assert cells(line) <= columns
        assert not set(line) & {chr(code) for code in (*range(32), 127, 0x202E, 0x9B)}


def test_secrets_are_masked_wherever_they_stand() -> None:
    secret = "hf_" + "a1B2" * 8
    bad = replace(OOM, text=f"download failed with {secret}")
    story = ExplainReport(
        Explanation(
            replace(CAUSE, evidence=bad, hint=f"try {secret}"),
            (),
            (replace(bad, line=20, text=f"again {secret}"),),
            ended=True,
        ),
        LOGS[1:],
        TYPES,
        (),
        [f"{secret} left out"],
    )
    text = "\n".join(shown(story))
    assert secret not in text
    assert text.count("***") == 5


@pytest.mark.parametrize(("confidence", "word"), [(1, "sure"), (0.7, "likely"), (0.3, "perhaps"), (0, "perhaps")])
def test_how_sure_it_is_in_the_words_of_an_alert(confidence: float, word: str) -> None:
    assert sureness(confidence) == word
    assert facts.cause("oom", confidence) == ("oom" if word == "sure" else f"oom ({word})")


BARE = [
    pytest.param(
        "[rank1]:[E1125 08:57:47.170660935 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 1] Timeout",
        "Timeout",
        id="a rank, a C++ logger and a process group",
    ),
    pytest.param("[rank6]:[E ProcessGroupNCCL.cpp:646] [Rank 6] Some failed", "Some failed", id="an older C++ logger"),
    pytest.param("E1121 04:29:05.239000 26936 torch/api.py:1002] failed", "failed", id="torch's Python logger"),
    pytest.param("2026-11-21 04:28:49,641 [ERROR] [rank0] out of order", "out of order", id="Python's logging"),
    pytest.param("[ERROR] no time", "[ERROR] no time", id="a level alone stays"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BARE)
def test_the_message_of_a_line(text: str, message: str) -> None:
    assert bare(text) == message


RANKS = [
    ((), ""),
    ((3,), "rank 3"),
    ((0, 1), "ranks 0,1"),
    ((2, 0, 1, 3), "ranks 0-3"),
    ((5, 0, 2, 9), "ranks 0,2,5+1"),
]


@pytest.mark.parametrize(("ranks", "told"), RANKS)
def test_ranks_are_told_shortly(ranks: tuple[int, ...], told: str) -> None:
    assert ranks_told(ranks) == told


ATTEMPT = AttemptInFile(3, "rank3.log", 9)
THIRD = "This is attempt 3 of 3 in rank3.log, from line 9 on; what the earlier ones"
HEADS = [
    pytest.param(
        replace(STORY.explanation, idle=Idle(18731.0, "the time limit")),
        "After that the job idled for 5h 12m until the time limit.",
        id="how long the job idled",
    ),
    pytest.param(replace(STORY.explanation, attempt=ATTEMPT), THIRD, id="which attempt of several in its file"),
    pytest.param(Explanation(attempt=ATTEMPT), THIRD, id="which of them, where none failed"),
    pytest.param(
        replace(STORY.explanation, peer=LostPeer(3, "Host-17")),
        "A peer died; its own log is not here: rank 3 on Host-17.",
        id="which peer went away",
    ),
]


@pytest.mark.parametrize(("found", "words"), HEADS)
def test_in_the_head_stands(found: Explanation, words: str) -> None:
    assert any(words in line for line in shown(replace(STORY, explanation=found))[:6])


KILLED = Evidence("rank3.log", 14, "Killed", 3)
EITHER = explained(
    replace(CAUSE, confidence=0.5, evidence=KILLED, hint="Less of it."),
    alternatives=(replace(CAUSE, error_type="cancelled", confidence=0.25, evidence=KILLED, hint="Ask who."),),
)


def test_where_it_is_undecided_two_causes_stand_beside_each_other() -> None:
    text = shown(EITHER, 80)
    assert text[:3] == [
        "Cause: oom or cancelled (perhaps)",
        "  It is undecided which of the two; below is what each means.",
        "  At: rank3.log:14, rank 3",
    ]
    at = text.index("If it is oom                           │ If it is cancelled")
    block = text[at : text.index("", at)]
    assert any("Less of it." in line and " │ " in line for line in block)
    assert any(line.endswith("│   The same line.") for line in block)
    assert any(line.endswith("│   Ask who.") for line in block)
    assert len({line.index("│") for line in block}) == 1
    assert max(map(cells, text)) <= 80
    assert "What to do" not in text
    assert "It may also be" not in text


def test_where_there_is_no_room_they_stand_below_each_other() -> None:
    text = shown(EITHER, 60)
    assert text.index("If it is oom") < text.index("  Less of it.") < text.index("If it is cancelled")
    assert not any("│" in line for line in text)


def test_a_third_one_is_still_told() -> None:
    third = replace(CAUSE, error_type="nccl", confidence=0.2, evidence=TIMEOUT)
    story = replace(
        EITHER, explanation=replace(EITHER.explanation, alternatives=(*EITHER.explanation.alternatives, third))
    )
    text = shown(story)
    assert text[text.index("It may also be") + 1].startswith("  nccl (perhaps)")
    assert not any(line.startswith("  cancelled (perhaps)") for line in text)


def test_warnings_stand_beside_a_cause_and_beside_none() -> None:
    slow = Warned(Evidence("rank3.log", 88, "Some GPUs are slow"), "Take them out.")
    for found in (replace(STORY.explanation, warned=(slow,)), Explanation(warned=(slow,))):
        told = shown(replace(STORY, explanation=found))
        at = told.index("Warnings beside")
        assert told[at + 1].endswith(": Some GPUs are slow")
        assert told[at + 2] == "  Take them out."
