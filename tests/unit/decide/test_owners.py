"""Whose run it is: what training says of it is kept, told and bounded."""

from typing import Any

import pytest

from lastbeat.alerts.document import document
from lastbeat.model.document import outcome_document
from lastbeat_cli.plain import lines
from support.world import World


@pytest.mark.parametrize(
    ("said", "owner"),
    [
        pytest.param("alice", "alice", id="a name"),
        pytest.param("  alice \n Smith\x1b[31m ", "alice Smith", id="one line without what a terminal would do"),
        pytest.param("a" * 500, "a" * 99 + "…", id="a long one is cut"),
        pytest.param(4711, "4711", id="a number is a name"),
        pytest.param("   ", None, id="blank is nobody"),
        pytest.param(["alice"], None, id="a list is nobody"),
    ],
)
def test_an_owner_is_kept_in_the_record(said: Any, owner: str | None) -> None:
    world = World()
    world.beat(owner=said)
    record = world.record_after_look()
    assert (record.owner, record.team) == (owner, None)


@pytest.mark.parametrize("broken", ['{"run_', None], ids=["cut off", "removed"])
def test_who_owns_it_is_known_when_its_document_is_gone(broken: str | None) -> None:
    world = World()
    world.beat(owner="alice", team="vision")
    world.look()
    if broken is None:
        world.delete("metadata.json")
    else:
        world.put("metadata.json", broken, age_s=0)
    world.look()
    world.after(3600)
    outcome = world.look()
    assert outcome.status.value == "TIMED_OUT"
    (message,) = outcome.alerts
    assert (message.owner, message.team) == ("alice", "vision")


def test_an_owner_that_changes_is_written_down_once() -> None:
    world = World()
    written = []
    for owner in ("alice", "alice", "bob", "bob", None, None):
        world.after(30)
        world.beat(owner=owner)
        world.look()
        written.append(world.record_writes())
    first = written[0]
    assert written == [first, first, first + 1, first + 1, first + 2, first + 2]


def test_a_look_and_its_alert_say_whose_it_is() -> None:
    world = World()
    world.beat(owner="alice", team="vision")
    world.error("ValueError: bad")
    outcome = world.look()
    assert "Owner: alice (vision)" in lines(outcome)
    for told in (outcome_document(outcome), document(outcome.alerts[0])):
        assert (told["owner"], told["team"]) == ("alice", "vision")
