"""How error types behave where runs are judged: it hangs on the type, whatever a catalogue says of it."""

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.loading import load_setting
from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.watch.decide.conditions.log_text import raised_by_cause
from lastbeat.watch.decide.logs import fatal
from support.there import there

STUCK = "step 10/1000 loss 2.5\nERROR: no progress for 1800 s, training is stuck\n"
ENDED = [
    pytest.param("hang", "stalled", False, id="a hang is a stall, and may come loose"),
    pytest.param("deadlock", "stalled", False, id="so is a deadlock"),
    pytest.param("numerical_instability", "loss_nan", True, id="a loss that is not finite has a condition of its own"),
    pytest.param("oom", "failure_in_log", True, id="running out of memory is a failure in the log"),
    pytest.param("unknown", "failure_in_log", True, id="so is one that nobody knows the cause of"),
    pytest.param("licence", "failure_in_log", True, id="and one of a type that a user has added"),
]


@pytest.mark.parametrize(("error_type", "condition", "ends"), ENDED)
def test_what_an_error_type_does_to_a_run(error_type: str, condition: str, ends: bool) -> None:
    found = Explanation(Cause(error_type, Evidence("train.log", 3, "it failed"), 0.9), ended=True)
    assert fatal(found) is ends
    raised = there(raised_by_cause(found.cause, None))
    assert raised[0] == condition


def test_a_catalogue_changes_the_words_of_a_type_and_not_what_it_does() -> None:
    own = load_setting("./own.yaml", lambda _: "error_types:\n  hang:\n    hint: ask Ana\n")
    cause = there(explain_text(STUCK, own).cause)
    assert (cause.error_type, cause.hint) == ("hang", "ask Ana")
    assert not fatal(Explanation(cause, ended=True))


def test_each_type_that_another_is_mistaken_for_exists() -> None:
    assert all(each.traits.shows_as <= TYPES.keys() for each in TYPES.values())
