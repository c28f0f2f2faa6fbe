"""The first lines of an alert fit a phone: what happened and since when, what to do, where, whose, what comes next."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lastbeat.alerts.plain import render
from lastbeat.alerts.slack_blocks import head, payload
from lastbeat.model.alert import MentionedPerson, Message
from lastbeat.model.cause import Evidence
from support.messages import AT, FAILED, GROUP, STALLED, TIMED_OUT

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total capacity of 79.15 GiB "
    "of which 1.22 GiB is free. Including non-PyTorch memory, this process has 77.92 GiB memory in use."
)
HINT = (
    "Rank 5 could not get 2.00 GiB on GPU 5 with 1.22 GiB free: reduce the micro-batch size. nvidia-smi on its node "
    "shows whether another process sits there. If much is reserved but unallocated, set "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment of the job."
)
STEPS = tuple(f"2026-11-20 18:{n}:00 [INFO] step {3500 + n}/9000 loss 2.3 lr 3.0e-04" for n in range(30, 44))
PHONED = replace(
    FAILED,
    reason=OUT_OF_MEMORY,
    cause="oom",
    action=HINT,
    ranks="rank 5 on h100-010, last step 3554",
    evidence=Evidence("logs/rank5.txt", 23, f"[rank5]: {OUT_OF_MEMORY}", 5, None, AT),
    also_seen=(f"then _error:1: {OUT_OF_MEMORY}",),
    owner="ana",
    team="llm",
    restart="not restarted: oom ends in the same way again",
    conditions={},
    log_tail=(
        *STEPS,
        "[rank5]: Traceback (most recent call last):",
        '[rank5]:   File "/home/u/train.py", line 88, in step',
        "[rank5]:     loss = model(batch)",
        f"[rank5]: {OUT_OF_MEMORY}",
    ),
    log_name="logs/rank5.txt",
    notes=(),
    link="https://watch.example/#/runs/mistral-20250804-171621",
)


def first_lines(message: Message) -> list[str]:
    """Those above the first empty line."""
    text = render(message).replace("│ ", "").replace("│", "")
    return text.split("\n\n")[0].split("\n")


def test_the_first_lines_say_all_that_is_needed_at_night() -> None:
    assert first_lines(PHONED) == [
        "❌ FAILED: mistral-20250804-171621",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "Since 2025-08-04 17:15:41 UTC, 40s before this alert · Cause: oom",
        f"👉 Action required: {HINT.partition(' If much')[0]}",
        "Ranks: rank 5 on h100-010, last step 3554",
        "Owner    ana (llm)",
        "Restart  not restarted: oom ends in the same way again; last complete checkpoint: step 1000, saved 12m before",
        "lastbeat show mistral-20250804-171621 --root s3://ml-training/training-runs",
        "https://watch.example/#/runs/mistral-20250804-171621",
    ]


def test_slack_begins_with_the_same_and_a_thread_has_nothing_else_at_its_head() -> None:
    begin = payload(PHONED)["blocks"][:5]
    assert head(PHONED)["blocks"][:5] == begin
    shown = "\n".join(block["text"]["text"] for block in begin)
    for text in (
        "FAILED: mistral-20250804-171621",
        "Tried to allocate 2.00 GiB.\nSince 2025-08-04 17:15:41 UTC",
        "Action required: Rank 5 could not get",
        "Ranks: rank 5 on h100-010, last step 3554\n*Owner* `ana (llm)`\n*Restart* `not restarted",
        "`lastbeat show mistral-20250804-171621 --root s3://ml-training/training-runs`",
        "<https://watch.example/#/runs/mistral-20250804-171621|Open in the browser>",
    ):
        assert text in shown
    assert "step 3543" not in json.dumps(head(PHONED))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param({"ranks": None}, "Where: rank 5 on i-0abc123def4567890", id="the instance stands for a host"),
        pytest.param({"ranks": None, "cause": "nccl_timeout", "evidence": Evidence("a.log", 1, "x", 0, "h1")},
                     "Reported by: rank 0 on h1", id="a rank that waited for others is not where it began"),
        pytest.param({"ranks": None, "evidence": None}, "Where: i-0abc123def4567890", id="only the instance is known"),
        pytest.param({"restart": None, "checkpoint": None},
                     "Restart  not by lastbeat; last complete checkpoint: unknown",
                     id="what is not known is not said to be missing"),
        pytest.param({"since": None}, "At 2025-08-04 17:16:21 UTC · Cause: oom", id="since when is unknown"),
        pytest.param({"mentions": (MentionedPerson("bob"),)}, "For      bob", id="whom it is for"),
        pytest.param({"where": "/mnt/my runs/mistral-20250804-171621/"},
                     "lastbeat show mistral-20250804-171621 --root '/mnt/my runs'",
                     id="a command can be pasted whatever the path"),
        pytest.param({"where": "/mnt/$(reboot)/mistral-20250804-171621/"},
                     "lastbeat show mistral-20250804-171621 --root '/mnt/$(reboot)'", id="a command runs nothing else"),
    ],
)  # fmt: skip
def test_lines_of_what_is_known(changes: dict[str, Any], line: str) -> None:
    assert line in first_lines(replace(PHONED, **changes))


@pytest.mark.parametrize(
    ("message", "command"),
    [
        pytest.param(GROUP, "lastbeat fleet --root s3://ml-training/training-runs", id="many runs: their fleet"),
        pytest.param(TIMED_OUT, "lastbeat show mistral-20250804-171621 --root /shared/training-runs", id="a folder"),
        pytest.param(replace(FAILED, where="elsewhere"), None, id="no place that is known to be the run's"),
        pytest.param(
            replace(FAILED, run_id="x; reboot", where="/r/x; reboot/"), None, id="a name that no run can have"
        ),
    ],
)
def test_a_command_to_paste(message: Message, command: str | None) -> None:
    found = [line for line in first_lines(message) if line.startswith("lastbeat ")]
    assert found == ([command] if command else [])


def test_a_warning_says_nothing_of_restarts() -> None:
    assert not any(line.startswith("Restart") for line in first_lines(STALLED))
