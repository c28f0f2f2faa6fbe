"""The answer of ``explain`` as JSON."""

from dataclasses import replace
from datetime import datetime, timezone

from lastbeat.explain.signals.error_types import TYPES
from lastbeat.model.cause import AttemptInFile, Cause, Evidence, Explanation, Idle, LostPeer
from lastbeat_cli.explain.story import ExplainReport, story_document

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
LINE = Evidence("rank3.log", 14, "CUDA out of memory", 3, None, AT)


def told(explanation: Explanation) -> dict[str, object]:
    return story_document(ExplainReport(explanation, (), TYPES, (), ("cut off",)), str.upper)


def test_a_healthy_log_has_every_key_and_no_cause() -> None:
    assert told(Explanation()) == {
        "cause": None,
        "second": None,
        "alternatives": [],
        "downstream": [],
        "hint": None,
        "fingerprint": None,
        "similar": None,
        "ended": False,
        "missing": None,
        "stuck": None,
        "peer": None,
        "idle": None,
        "attempt": None,
        "warned": [],
        "success": None,
        "notes": ["CUT OFF"],
    }


def test_a_cause_with_what_its_type_knows_and_masked_text() -> None:
    document = told(Explanation(Cause("oom", LINE, 0.91234), (), (LINE,), ended=True))
    line = {
        "file": "rank3.log",
        "line": 14,
        "text": "CUDA OUT OF MEMORY",
        "rank": 3,
        "host": None,
        "time": "2026-01-02T03:04:05Z",
    }
    assert document["cause"] == {
        "error_type": "oom",
        "subsystem": None,
        "confidence": 0.912,
        "restartable": False,
        "signal": None,
        "evidence": line,
        "frames": [],
    }
    assert document["downstream"] == [line]
    assert document["hint"] == TYPES["oom"].hint.upper()


def test_what_is_known_of_idling_of_the_attempt_and_of_a_peer() -> None:
    idle, attempt = Idle(18731.0, "the time limit", at_most=True), AttemptInFile(3, "train.log", 412)
    cause = Cause("communication", LINE, 0.4)
    document = told(Explanation(cause, ended=True, idle=idle, attempt=attempt, peer=LostPeer(3, "host-17")))
    assert document["idle"] == {"seconds": 18731.0, "at_most": True, "until": "the time limit"}
    assert document["attempt"] == {"number": 3, "file": "train.log", "line": 412}
    said = "A PEER DIED; ITS OWN LOG IS NOT HERE: RANK 3 ON HOST-17"
    assert document["peer"] == {"rank": 3, "host": "HOST-17", "log": None, "told": said}


def test_where_it_is_undecided_there_is_a_second_cause_with_its_hint() -> None:
    first = Cause("oom", LINE, 0.5, hint="More memory.")
    other = Cause("cancelled", LINE, 0.25, hint="Ask who it was.")
    second = told(Explanation(first, (other,)))["second"]
    assert isinstance(second, dict)
    assert (second["error_type"], second["confidence"], second["hint"]) == ("cancelled", 0.25, "ASK WHO IT WAS.")
    assert told(Explanation(replace(first, confidence=0.6), (other,)))["second"] is None
