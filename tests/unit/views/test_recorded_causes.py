"""Why a run is as it is, as its record has it and as people are shown it: anybody may have written it."""

from dataclasses import asdict

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.state import RecordedCause
from lastbeat.views.recorded import explained
from lastbeat.views.safe import Safe

EVIL = "\x1b[31m a\nb hunter2"


def test_both_causes_are_shown_without_secrets_and_control_characters() -> None:
    cause = Cause(EVIL, Evidence(EVIL, 3, EVIL, host=EVIL), 0.5, EVIL, hint=EVIL, signal=EVIL, frames=(EVIL,))
    shown = explained(RecordedCause(cause, (EVIL,), second=cause), Safe(lambda text: text.replace("hunter2", "***")))
    assert shown is not None
    assert shown.second == shown.cause
    said = str(asdict(shown))
    assert ("***" in said, "hunter2" in said, "x1b" in said, "\\n" in said) == (True, False, False, False)


def test_nothing_is_nothing() -> None:
    assert explained(None, Safe()) is None
    bare = explained(RecordedCause(Cause("oom", Evidence("a.log", 3, "boom"), 0.9)), Safe())
    assert bare is not None
    assert (bare.second, bare.similar) == (None, None)
