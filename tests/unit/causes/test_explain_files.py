# ruff: noqa: E501 - lines of logs are as long as they are
"""Several files of one run, its exit code and its scheduler's word, told together."""

from itertools import pairwise, permutations

from lastbeat.explain.causes.explaining import explain, explain_text
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import Explanation
from support.explained import cause_of, explained, of_ranks, summary
from support.row_by_row import check_each

CATALOGUE = load("default")
STEPS = "".join(f"2026-03-01 10:00:{n},000 [INFO] step {n} loss 2.{n}\n" for n in range(10, 50, 10))
KEY_ERROR = """\
Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    y = batch["z"]
KeyError: 'z'
"""
CLOSED = """\
Traceback (most recent call last):
  File "/w/train.py", line 10, in <module>
    loss.backward()
RuntimeError: [/p/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:22966.
"""


def timed_out(clock: str, milliseconds: int) -> str:
    return (
        f"[E301 {clock}.136769803 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, "
        f"OpType=ALLREDUCE, NumelIn=2, NumelOut=2, Timeout(ms)={milliseconds}) ran for {milliseconds + 300} milliseconds before timing out.\n"
    )


def told(*texts: str, exit_code: int | None = None, scheduler: str | None = None) -> Explanation:
    """Of one file a rank."""
    return of_ranks(texts, exit_code=exit_code, scheduler=scheduler)


FILES = {
    "the others only missed the one that failed": (
        (STEPS + CLOSED, STEPS + KEY_ERROR, STEPS + CLOSED),
        "exception",
        "rank1.log",
    ),
    "a timeout in the first file ended ten minutes after the second failed": (
        (STEPS + timed_out("10:11:00", 600_000), STEPS + "2026-03-01 10:00:55,000 [ERROR] dying\n" + KEY_ERROR),
        "exception",
        "rank1.log",
    ),
    "of two timeouts, the one that began to wait first": (
        (STEPS + timed_out("10:11:00", 600_000), STEPS + timed_out("10:31:00", 1_800_000)),
        "nccl_timeout",
        "rank0.log",
    ),
    "nobody says why": ((STEPS + CLOSED, STEPS + CLOSED, STEPS), "communication", "rank0.log"),
    "a kernel's log without a calendar's time": (
        (STEPS + CLOSED, "[ 9120.008122] NVRM: Xid (PCI:0000:3b:00): 79, pid=4110, GPU has fallen off the bus.\n"),
        "hardware",
        "rank1.log",
    ),
}


def test_files_are_read_together() -> None:
    check_each(FILES.items(), is_found)


def is_found(texts: tuple[str, ...], error_type: str, file: str) -> None:
    cause = cause_of(told(*texts))
    assert (cause.error_type, cause.evidence.file) == (error_type, file)


def behind(prefix: str) -> str:
    return "".join(f"{prefix}{line}" for line in KEY_ERROR.splitlines(keepends=True))


RANKS = {
    "neither file nor line names one": (("train.log", None), KEY_ERROR, None),
    "the line alone names one": (("train.log", None), behind("[rank3]: "), 3),
    "the file alone names one": (("rank0.log", 0), KEY_ERROR, 0),
    "a launcher wrote other ranks' lines into the file of one": (("rank0.log", 0), behind("[rank3]: "), 3),
    "a node's file, with a task before each line": (("worker-1.out", 1), behind("12: "), 12),
    "another rank's lines stand around it": (
        ("rank0.log", 0),
        "[rank1]: warming up\n" + behind("[rank3]: ") + "[rank2]: waiting\n",
        3,
    ),
}


def test_the_rank_of_a_cause_is_the_one_that_its_own_line_names() -> None:
    check_each(RANKS.items(), is_of_rank)


def is_of_rank(log: tuple[str, int | None], text: str, rank: int | None) -> None:
    name, own = log
    assert cause_of(explained((name, STEPS + text, own))).evidence.rank == rank


def test_steps_in_another_file_acquit_too() -> None:
    out = "".join(f"2026-03-01 10:{n}:00,000 [INFO] step {n} loss 2.{n}\n" for n in range(10, 50))
    trouble = "2026-03-01 10:12:30,000 [ERROR] evaluation: KeyError: 'gold'\nOSError: [Errno 28] No space left on device: '/tmp/x'\n"
    assert told(out, "2026-03-01 10:12:30,000 ERROR OSError: [Errno 28] No space left on device\n").cause is None
    assert (
        told(out, trouble.replace("10:12", "10:49").replace("OSError", "2026-03-01 10:49:31,000 OSError")).cause
        is not None
    )


SILENT = {
    "SIGKILL": (-9, None, "oom"),
    "a native crash": (139, None, "exception"),
    "Ctrl-C": (130, None, "cancelled"),
    "1 says nothing": (1, None, "unknown"),
    "-6 follows from too much": (-6, None, "unknown"),
    "the scheduler knows": (-9, "OUT_OF_MEMORY", "oom"),
    "its time was up": (0, "TIMEOUT", "time_limit"),
    "its node went down": (1, "NODE_FAIL", "slurm_failure"),
    "a person cancelled it": (1, "CANCELLED by 1000", "cancelled"),
    "another job took its place": (1, "PREEMPTED", "cancelled"),
}


def test_an_exit_code_and_a_schedulers_word_speak_where_the_log_is_silent() -> None:
    check_each(SILENT.items(), speaks)


def speaks(exit_code: int, scheduler: str | None, error_type: str) -> None:
    found = told(STEPS, exit_code=exit_code, scheduler=scheduler)
    assert (cause_of(found).error_type, found.ended) == (error_type, True)


def test_what_the_log_says_goes_before_an_exit_code() -> None:
    assert cause_of(told(STEPS + KEY_ERROR, exit_code=-9)).error_type == "exception"


def test_no_exit_code_and_a_good_one_say_nothing() -> None:
    assert told(STEPS).cause is None
    assert told(STEPS, exit_code=0).cause is None


def test_better_evidence_makes_surer() -> None:
    texts = (
        (
            STEPS + "slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-03-01T10:02:00 DUE TO TIME LIMIT ***\n",
            STEPS + KEY_ERROR.replace("KeyError: 'z'", "OSError: [Errno 28] No space left on device"),
            STEPS + KEY_ERROR,
        ),
        (STEPS + timed_out("10:11:00", 600_000),),
        (STEPS + CLOSED,),
        (STEPS + "Killed\n", STEPS + "exit code 137\n", STEPS + KEY_ERROR.replace("KeyError: 'z'", "acme.Failure: z")),
        (STEPS + "exit code 1\n",),
    )
    sure = [[cause.confidence for text in alike if (cause := told(text).cause) is not None] for alike in texts]
    assert [len(each) for each in sure] == [len(alike) for alike in texts]
    assert all(min(better) > max(worse) for better, worse in pairwise(sure))
    assert all(0 < each < 1 for alike in sure for each in alike)


def test_what_followed_is_told_in_its_order_and_is_not_much() -> None:
    found = told(STEPS + KEY_ERROR + CLOSED + "srun: error: n1: task 0: Exited with exit code 1\n" * 40)
    assert [line.line for line in found.downstream] == sorted(line.line for line in found.downstream)
    assert 1 < len(found.downstream) <= 12
    assert "Connection closed by peer" in found.downstream[0].text


def test_a_hint_names_what_the_line_says() -> None:
    text = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 418.00 MiB. GPU 3 has a total capacity of 79.15 GiB of which 1.36 GiB is free.\n"
    hint = explain_text(
        STEPS + '[rank3]: Traceback (most recent call last):\n[rank3]:   File "t.py", line 1, in <module>\n' + text,
        CATALOGUE,
    ).hint
    assert hint is not None
    assert hint.startswith("Rank 3 could not get 418.00 MiB on GPU 3 with 1.36 GiB free")


def test_a_run_has_not_ended_because_of_a_traceback_that_somebody_logged() -> None:
    logged = "2026-03-01 10:00:50,000 [ERROR] evaluation failed\n" + KEY_ERROR.replace("in <module>", "in evaluate")
    assert not told(STEPS + logged).ended
    assert told(STEPS + KEY_ERROR).ended
    assert told(STEPS + logged + "exit code 1\n").ended


def test_a_huge_text_is_read_at_both_ends() -> None:
    text = KEY_ERROR + "nothing of note\n" * 700_000 + "srun: error: Node failure on n7\n"
    assert cause_of(explain_text(text, CATALOGUE)).error_type in {"exception", "slurm_failure"}


def test_the_order_in_which_files_are_listed_is_nothing() -> None:
    texts = {
        "rank0.log": CLOSED,
        "rank1.log": KEY_ERROR,
        "rank10.log": KEY_ERROR.replace("'z'", "'y'"),
        "_error": "died",
    }
    summaries = [summary(name, text) for name, text in texts.items()]
    first, *others = (explain(listed, CATALOGUE) for listed in permutations(summaries))
    assert all(each == first for each in others)
