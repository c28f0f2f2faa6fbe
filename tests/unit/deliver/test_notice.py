"""What people read of a group."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lastbeat.deliver.notice import compose_notice
from lastbeat.model.group import Notice
from lastbeat.model.status import Event

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
RUNS = tuple(f"run-{number:02d}" for number in range(97))
FIRST = Notice(1, Event.TIMED_OUT, RUNS, RUNS, 97, NOW, first=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({}, "97 of the 400 runs being watched timed out together", id="the first notice"),
        pytest.param({"runs": RUNS[4:], "earlier": 4},
                     "97 of the 400 runs being watched timed out together, 4 of them told of one by one before",
                     id="some were told of before"),
        pytest.param({"first": False, "runs": RUNS[-2:]},
                     "2 more runs timed out; with them 97 of the 400 runs being watched", id="it grew"),
        pytest.param({"first": False, "repeated": True, "out": RUNS[:12], "opened_at": NOW - timedelta(hours=4)},
                     "12 of the 97 runs that timed out together still are, after 4h 00m", id="it lasts"),
        pytest.param({"event": Event.RECOVERED, "out": RUNS[:2], "runs": RUNS[2:]},
                     "95 of the 97 runs that timed out together are back; still out: run-00, run-01",
                     id="most came back"),
        pytest.param({"event": Event.RECOVERED, "out": RUNS[:12], "runs": RUNS[12:13]},
                     "1 of the 97 runs that timed out together is back; still out: "
                     + ", ".join(RUNS[:10]) + " and 2 more", id="one came back"),
        pytest.param({"event": Event.RECOVERED, "out": ()},
                     "No run of the 97 that timed out together is timed out any more", id="all came back"),
    ],
)  # fmt: skip
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    assert compose_notice(replace(FIRST, **changes), 400, "s3://b/p", NOW).reason == reason


@pytest.mark.parametrize(
    ("watched", "shared", "word"),
    [
        pytest.param(400, {"Zone": "a (all 97)"}, "what they share", id="some, alike"),
        pytest.param(400, {}, "nothing in common", id="some, unlike"),
        pytest.param(100, {"Zone": "a (all 97)"}, "credentials", id="nearly all"),
        pytest.param(0, {}, "credentials", id="all, and more than were counted"),
    ],
)
def test_what_to_do(watched: int, shared: dict[str, str], word: str) -> None:
    assert word in (compose_notice(replace(FIRST, shared=shared), watched, "s3://b/p", NOW).action or "")


def test_it_is_about_many_runs_and_no_single_one() -> None:
    message = compose_notice(FIRST, 400, "s3://b/p", NOW)
    assert (message.run_id, message.subject, message.where) == ("_groups", "97 runs", "s3://b/p")
    assert (len(message.members), message.member_count) == (50, 97)


def test_a_notice_about_one_run_of_a_group_says_in_its_first_line_which() -> None:
    assert compose_notice(replace(FIRST, runs=RUNS[:1]), 400, "s3://b/p", NOW).subject == "run-00"
