"""The sentinel ``_error``: a few words of a script, or a stack trace with its message first."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import TORCH

TRACE = """\
Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    main()
"""


@pytest.mark.parametrize(
    ("text", "error_type"),
    [
        ("CUDA out of memory", "oom"),
        ("OOM at step 40", "oom"),
        ("disk full", "storage"),
        ("NCCL timeout on rank 3", "nccl_timeout"),
        ("NCCL failure", "nccl"),
        ("loss became NaN at step 1200", "numerical_instability"),
        ("Xid 79 on gpu-n3", "hardware"),
        ("walltime reached", "time_limit"),
        ("spot instance reclaimed", "cancelled"),
        ("Connection reset by peer", "communication"),
        ("training hung for 20 minutes", "hang"),
        ("KeyError: 'x'\n" + TRACE + "KeyError: 'x'", "exception"),
        (TRACE + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "oom"),
        ("training failed\n" + TRACE + "OSError: [Errno 28] No space left on device", "storage"),
    ],
)
def test_what_the_sentinel_says(text: str, error_type: str) -> None:
    for name in ("_error", "runs/my-run/_error"):
        cause = explain_text(text, load("default"), name).cause
        assert cause is not None
        assert cause.error_type == error_type


def test_the_message_above_a_traceback_was_raised_where_that_says() -> None:
    said = "RuntimeError: basic_ios::clear: iostream error"
    frames = f'  File "{TORCH}/serialization.py", line 812, in __exit__\n    self.file_like.write_end_of_file()\n'
    found = explain_text(f"{said}\nrank 0 of 2 on host-17\n\n{TRACE}{frames}{said}\n", load("default"), "_error")
    assert found.cause is not None
    assert (found.cause.error_type, found.cause.evidence.line, found.alternatives) == ("storage", 1, ())
    assert found.cause.frames[0].startswith("/w/train.py:12")


def test_the_same_words_in_a_log_prove_nothing() -> None:
    assert explain_text("OOM at step 40\ndisk full\nwalltime reached\n", load("default"), "train.log").cause is None


def test_words_that_say_nothing_have_no_cause() -> None:
    assert explain_text("it did not work", load("default"), "_error").cause is None
    assert explain_text("", load("default"), "_error").cause is None


def test_what_the_trace_says_once_more_did_not_follow_from_it() -> None:
    text = "OSError: [Errno 28] No space left on device\n" + TRACE + "OSError: [Errno 28] No space left on device\n"
    found = explain_text(text + "Connection reset by peer\n", load("default"), "_error")
    assert [evidence.text for evidence in found.downstream] == ["Connection reset by peer"]
