# ruff: noqa: E501 - lines of logs are as long as they are
"""All ranks but a few report that a collective timed out: the others are the ones to look at, by name."""

from collections.abc import Mapping
from datetime import datetime, timezone

from lastbeat.explain.causes.explaining import explain
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import Explanation
from support.explained import cause_of, summary
from support.missing_ranks import DUMPED, STACK, STEPS, log, ranks
from support.row_by_row import check_each
from support.there import there


def explained(texts: Mapping[int, str], *, world_size: int | None = None, whole: bool = True) -> Explanation:
    """What the logs of these ranks show together; ``whole``: all of them were read to their end."""
    now = datetime(2026, 11, 20, 19, tzinfo=timezone.utc)
    summaries = [summary(f"rank{rank}.log", text, rank, now) for rank, text in texts.items()]
    return explain(summaries, load("default"), world_size=world_size, whole=whole)


CASES = {
    "one of eight is missing": (
        "Look at rank 7: the only one of 8 that does not report it; its last line is of 18:45, step 3554 (8 of 8 logs read).",
        ranks(8, 7),
    ),
    "rank 0 may be the one": (
        "Look at rank 0: the only one of 2 that does not report it; its last line is of 18:45, step 3554 (2 of 2 logs read).",
        ranks(2, 0),
    ),
    "to be asked for a dump by another rank is no report of its own": (
        "Look at rank 7: the only one of 8 that does not report it; its last line is of 18:55, step 3554 (8 of 8 logs read).",
        ranks(8, 7, more=DUMPED.format(rank=7)),
    ),
    "its log holds a stack": (
        "Look at rank 7: the only one of 8 that does not report it; its last line is of 18:45, step 3554; its stack ends in data.py:88 in load_batch (8 of 8 logs read).",
        ranks(8, 7, more=STACK),
    ),
    "two are missing": (
        "Look at rank 2 (last line 18:45, step 3554) and rank 5 (last line 18:45, step 3554): 2 of 8 that do not report it (8 of 8 logs read).",
        ranks(8, 2, 5),
    ),
    "of many that are missing, a few are named": (
        "Look at rank 1 (last line 18:45, step 3554), rank 2 (last line 18:45, step 3554), rank 3 (last line 18:45, step 3554) and 2 more: 5 of 16 that do not report it (16 of 16 logs read).",
        ranks(16, 1, 2, 3, 4, 5),
    ),
}


def test_missing_ranks_are_named() -> None:
    check_each(CASES.items(), is_named)


def is_named(sentence: str, texts: Mapping[int, str]) -> None:
    found = explained(texts, world_size=len(texts))
    assert there(found.missing).sentence == sentence
    cause = cause_of(found)
    assert cause.error_type == "nccl_timeout"
    assert cause.hint.startswith(sentence), "what to do begins with it, wherever it is shown"
    assert "does NOT" not in cause.hint
    assert "py-spy dump" in cause.hint


def test_its_log_and_host_are_known() -> None:
    host = "h100-012:4711:4801 [7] NCCL INFO Channel 00/0 : 7[7] -> 0[0] via P2P/CUMEM\n"
    found = explained({**ranks(8, 7), 7: host + log(7, reports=False)}, world_size=8)
    only = there(found.missing).ranks[0]
    assert (only.rank, only.log, only.step) == (7, "rank7.log", 3554)
    named = found.located({7: "h100-012"})
    assert there(named.hint).startswith("Look at rank 7 on h100-012: the only one of 8 that does not report it;")
    assert there(named.missing).ranks[0].host == "h100-012"


NOBODY = {
    "half of the logs are not there": (ranks(8, 7), 16, True),
    "one log is not there": ({rank: text for rank, text in ranks(8, 7).items() if rank != 3}, 8, True),
    "one log is not there, by the numbers of the others": (
        {rank: text for rank, text in ranks(8, 7).items() if rank != 3},
        None,
        True,
    ),
    "a log was not read to its end": (ranks(8, 7), 8, False),
    "all report it": (ranks(8), 8, True),
    "most do not report it: they had no part in it": (ranks(8, 1, 2, 3, 4, 5), 8, True),
    "there is one log alone": ({0: log(0)}, 1, True),
    "a damaged document names a huge world": (ranks(8, 7), 10**12, True),
}


def test_nobody_is_accused_on_a_guess() -> None:
    check_each(NOBODY.items(), accuses_nobody)


def accuses_nobody(texts: Mapping[int, str], world_size: int | None, whole: bool) -> None:
    found = explained(texts, world_size=world_size, whole=whole)
    assert found.missing is None
    assert "does NOT report it" in cause_of(found).hint


def test_a_rank_that_says_what_is_wrong_is_not_missing() -> None:
    failed = (
        "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 3, in <module>\nKeyError: 'labels'\n"
    )
    found = explained({**ranks(8, 7), 7: STEPS + failed}, world_size=8)
    assert cause_of(found).evidence.rank == 7
    assert found.missing is None


def test_logs_alone_tell_how_many_ranks_there_are_if_their_numbers_have_no_gap() -> None:
    found = explained(ranks(8, 7))
    assert there(found.missing).sentence.endswith("(8 of 8 logs read).")
