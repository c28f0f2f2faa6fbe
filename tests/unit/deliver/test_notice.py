"""What people read of a group."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lastbeat.alerts.notice import compose_first_look, compose_notice
from lastbeat.alerts.plain import render
from lastbeat.alerts.slack_blocks import payload
from lastbeat.model.group import DeferredAlert, Notice
from lastbeat.model.status import Event
from support.messages import FAILED

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


def test_a_notice_about_one_run_of_a_group_says_in_its_first_line_which() -> None:
    assert compose_notice(replace(FIRST, runs=RUNS[:1]), 400, "s3://b/p", NOW).subject == "run-00"


def ended(run_id: str, cause: str | None, event: Event = Event.FAILED, **changes: Any) -> DeferredAlert:
    message = replace(
        FAILED, run_id=run_id, cause=cause, event=event, since=NOW - timedelta(hours=2), conditions={}, **changes
    )
    return DeferredAlert(run_id, 1, event, message)


def test_a_first_look_names_each_run_with_its_cause_and_age() -> None:
    found = [
        ended("bad", "oom"),
        ended("gone", None, Event.TIMED_OUT, last_beat_at=NOW - timedelta(days=3)),
        ended("fine", None, Event.SUCCEEDED),
    ]
    found[1] = replace(found[1], message=replace(found[1].message, since=None))
    message = compose_first_look(found, "s3://b/p", NOW)
    assert dict(zip(message.members, message.member_notes, strict=True)) == {
        "bad": "FAILED, oom, 2h 00m before",
        "gone": "TIMED_OUT, 3d 0h before",
    }
    shown = render(message)
    assert "bad: FAILED, oom, 2h 00m before" in shown
    assert "`bad` `FAILED, oom, 2h 00m before`" in str(payload(message))


@pytest.mark.parametrize(
    ("causes", "reason"),
    [
        pytest.param(["oom"] * 3, "3 failed (3 oom)", id="one cause"),
        pytest.param(["oom", "oom", None], "3 failed (2 oom, 1 of unknown cause)", id="one is not known"),
        pytest.param([None, None], "2 failed", id="none is known"),
        pytest.param(
            ["a", "a", "b", "c", "d", "e"], "6 failed (2 a, 1 b, 1 c, 1 d, 1 of 1 other cause)", id="one cause too many"
        ),
        pytest.param(
            ["a", "b", "c", "d", "e", "f", "f", None],
            "8 failed (2 f, 1 a, 1 b, 1 c, 2 of 2 other causes, 1 of unknown cause)",
            id="more causes than are named",
        ),
    ],
)
def test_the_causes_of_a_first_look_add_up(causes: list[str | None], reason: str) -> None:
    found = [ended(f"run-{number}", cause) for number, cause in enumerate(causes)]
    assert compose_first_look(found, "s3://b/p", NOW).reason == f"First look at this fleet: {reason}"


def test_a_first_look_says_how_many_runs_it_does_not_name() -> None:
    message = compose_first_look([ended(f"run-{number}", "oom") for number in range(60)], "s3://b/p", NOW)
    assert (len(message.members), len(message.member_notes)) == (60, 50)
    assert "and 10 more" in render(message)
