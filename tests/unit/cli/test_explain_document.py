"""The answer of ``explain`` as JSON."""

from datetime import datetime, timezone

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.signals.error_types import TYPES
from lastbeat_cli.explain.document import story_document
from lastbeat_cli.explain.story import ExplainReport

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
LINE = Evidence("rank3.log", 14, "CUDA out of memory", 3, None, AT)


def told(explanation: Explanation) -> dict[str, object]:
    return story_document(ExplainReport(explanation, (), TYPES, (), ("cut off",)), str.upper)


def test_a_healthy_log_has_every_key_and_no_cause() -> None:
    assert told(Explanation()) == {
        "cause": None,
        "alternatives": [],
        "downstream": [],
        "hint": None,
        "ended": False,
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
    }
    assert document["downstream"] == [line]
    assert document["hint"] == TYPES["oom"].hint.upper()
