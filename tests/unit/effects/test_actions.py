"""What changes the world: asked for once, claimed before it is done, never dropped, never done by two."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.record import Record
from lastbeat.model.status import Event, Status
from lastbeat.watch.effects.actions import (
    KEPT,
    MOST_OPEN,
    ExecutorError,
    NotDoneError,
    Performed,
    RefusedError,
    claim,
    request,
    settle,
    wake_at,
)
from lastbeat.watch.effects.outbox import enqueue

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LATER = NOW + timedelta(days=400)
LEASE_S = 300.0


def restart(name: str = "mistral-r2", **fields: object) -> Action:
    return Action(name, "restart", NOW, "policy megatron_transient", "hang", **fields)  # type: ignore[arg-type]


def asked(*actions: Action) -> Record:
    record = Record("mistral")
    for action in actions or (restart(),):
        record = request(record, action)
    return record


def claimed(record: Record, token: str = "me", now: datetime = NOW) -> list[str]:
    return [action.name for action in claim(record, {"restart"}, token, now, LEASE_S)[1]]


def after(*answers: Performed | ExecutorError, token: str = "me", now: datetime = NOW) -> Action:
    """The action after it was claimed and this came of it, again and again."""
    record = asked()
    for answer in answers:
        record, _ = claim(record, {"restart"}, token, now, LEASE_S)
        record = settle(record, {"mistral-r2": answer}, token, now)
    return record.actions[0]


def test_an_action_of_the_same_name_is_the_same_action() -> None:
    record = request(asked(), replace(restart(), why="asked for again"))
    assert [action.why for action in record.actions] == ["hang"]


def test_a_claimed_action_is_nobody_elses_until_the_claim_runs_out() -> None:
    record, mine = claim(asked(), {"restart"}, "me", NOW, LEASE_S)
    assert [action.claimed_by for action in mine] == ["me"]
    assert claimed(record, "you") == []
    assert claimed(record, "me") == [], "not even its own: what came of it is not known"
    assert claimed(record, "you", NOW + timedelta(seconds=LEASE_S)) == ["mistral-r2"]


def test_who_has_no_executor_for_it_leaves_it_alone() -> None:
    record = asked(restart(), replace(restart("eval-7"), kind="command"))
    assert claimed(record) == ["mistral-r2"]
    assert claim(record, set(), "me", NOW, LEASE_S) == (record, ())


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        pytest.param(Performed("4711"), ("done", "4711"), id="done"),
        pytest.param(RefusedError("no such partition"), ("failed", "no such partition"), id="refused for good"),
        pytest.param(NotDoneError("the queue is full"), ("waits", "the queue is full"), id="certainly not done"),
        pytest.param(ExecutorError("no answer"), ("claimed", "no answer"), id="nobody knows"),
    ],
)
def test_what_comes_of_it(answer: Performed | ExecutorError, state: tuple[str, str]) -> None:
    action = after(answer)
    states = {
        "done": (action.done_at == NOW, action.result),
        "failed": (action.settled, action.failed),
        "waits": (
            not action.settled and action.claimed_by is None and action.not_before is not None,
            action.last_error,
        ),
        "claimed": (not action.settled and action.claimed_by == "me", action.last_error),
    }
    name, told = state
    assert states[name] == (True, told)


def test_what_was_certainly_not_done_is_tried_again_less_and_less_often() -> None:
    waits = []
    record = asked()
    now = NOW
    for _ in range(12):
        record, mine = claim(record, {"restart"}, "me", now, LEASE_S)
        assert mine
        record = settle(record, {"mistral-r2": NotDoneError("full")}, "me", now)
        not_before = record.actions[0].not_before
        assert not_before is not None
        waits.append((not_before - now).total_seconds())
        now = not_before
    assert waits == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600]


def test_a_cluster_that_asks_for_a_pause_gets_it() -> None:
    action = after(NotDoneError("busy", retry_after_s=90))
    assert action.not_before == NOW + timedelta(seconds=90)


def test_an_answer_that_comes_after_the_claim_ran_out_counts_only_if_it_is_done() -> None:
    record, _ = claim(asked(), {"restart"}, "me", NOW, LEASE_S)
    late = NOW + timedelta(seconds=LEASE_S)
    record, _ = claim(record, {"restart"}, "you", late, LEASE_S)
    for answer in (RefusedError("no"), NotDoneError("no"), ExecutorError("?")):
        assert settle(record, {"mistral-r2": answer}, "me", late) is record
    assert settle(record, {"mistral-r2": Performed("4711")}, "me", late).actions[0].result == "4711"


def test_a_pending_action_is_never_dropped_however_old_it_is_and_whatever_comes() -> None:
    record = asked()
    for number in range(200):
        record = enqueue(record, Message("mistral", Event.WARNING, Status.RUNNING, str(number), NOW))
        record = request(record, restart(f"other-{number}"))
        record, _ = claim(record, {"restart"}, "me", NOW, LEASE_S)
        record = settle(record, {f"other-{number}": Performed("1")}, "me", NOW)
    assert claimed(record, now=LATER) == ["mistral-r2"]
    assert len(record.actions) == KEPT + 1


def test_who_asks_without_end_is_refused_and_told() -> None:
    record = asked(*(restart(f"r{number}") for number in range(MOST_OPEN + 3)))
    assert [action.failed is None for action in record.actions] == [True] * MOST_OPEN + [False] * 3
    assert record.actions[-1].failed == f"refused: {MOST_OPEN} others have not been carried out yet"


def test_when_somebody_has_something_to_do_next() -> None:
    assert wake_at(Record("mistral"), {"restart"}, NOW) is None
    assert wake_at(asked(), {"restart"}, NOW) == NOW
    assert wake_at(asked(), {"command"}, NOW) is None
    assert wake_at(asked(restart(not_before=NOW + timedelta(60))), {"restart"}, NOW) == NOW + timedelta(60)
    record, _ = claim(asked(), {"restart"}, "me", NOW, LEASE_S)
    assert wake_at(record, {"restart"}, NOW) == NOW + timedelta(seconds=LEASE_S)
