"""What a look at one run says of what it could not read, and what of hostile text reaches nobody."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lastbeat.model.status import Status
from lastbeat.model.view import RunView
from lastbeat.stores.port import UnreachableError
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat.watch.observe.log_observer import LogSettings
from support.closed import closed
from support.looked import LOG, STEPS, failed, refuse, view_of
from support.there import there
from support.world import RUN, World


def assert_untold(view: RunView) -> None:
    """How many alerts and transitions there were is not known: that is not zero."""
    assert (view.alerts_pending, view.alerts_delivered, view.alerts_dropped) == (None, None, None)
    assert view.transitions is None


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param("{", Status.FAILED, "damaged", id="a damaged record is no record, and that is said"),
        pytest.param('{"schema": 99}', Status.UNKNOWN, "newer", id="what a newer lastbeat wrote is not judged anew"),
    ],
)
def test_a_record_that_cannot_be_used(body: str, status: Status, said: str) -> None:
    world = World()
    failed(world)
    world.put("_watchdog.json", body)
    view = view_of(world)
    assert (view.row.status, view.row.recorded) == (status, False)
    assert any(said in note for note in (*view.notes, view.row.fault or ""))
    assert_untold(view)


def test_a_record_that_may_not_be_read_is_no_missing_one() -> None:
    world = World()
    failed(world)
    world.store.before = refuse("_watchdog.json")
    view = view_of(world)
    assert view.row.status is Status.UNKNOWN
    assert "may not be read" in (view.row.fault or "")
    assert_untold(view)
    assert view.beats, "what can be read is shown all the same"


def test_a_run_that_seems_silent_but_for_a_log_that_cannot_be_looked_at_is_unknown(tmp_path: Path) -> None:
    world = World()
    world.beat(age_s=3 * 3600)
    assert view_of(world).row.status is Status.TIMED_OUT
    log = tmp_path / "train.log"
    with closed(tmp_path):
        view = view_of(world, catalogue=LogSettings(places=(str(log),)))
    assert (view.row.status, view.row.recorded) == (Status.UNKNOWN, False)
    assert "cannot be looked at" in (view.row.fault or "")
    assert view.alerts_pending == 0, "there is no record: nobody was told anything"


def test_what_was_read_before_stands_when_it_can_be_read_no_more() -> None:
    world = World()
    failed(world)
    watch = RunWatch(world.store, world.policy, RUN)
    watch.look()
    record = world.store.held[f"{RUN}/_watchdog.json"].body.decode()
    world.put("_watchdog.json", record + " ")
    world.store.before = refuse("_watchdog.json")
    view = there(watch.look())
    assert (view.row.status, view.row.cause) == (Status.FAILED, "oom")
    assert "may not be read" in (view.row.fault or "")
    world.store.heal()
    healed = there(watch.look())
    assert healed.row.fault is None


@pytest.mark.parametrize(
    ("name", "where"),
    [
        pytest.param(LOG, lambda view: view.log.note, id="a log"),
        pytest.param("logs/stacks.txt", lambda view: view.stacks.note, id="stacks"),
        pytest.param("_error", lambda view: view.error_text, id="what it said when it failed"),
        pytest.param("ranks/0.json", lambda view: view.ranks[0].fault, id="a rank"),
        pytest.param("progress.json", lambda view: view.beats[1].fault, id="a heartbeat"),
    ],
)
def test_what_may_not_be_read_says_so_in_its_place(name: str, where: Callable[[RunView], str]) -> None:
    world = World()
    world.both(5)
    for each in (LOG, "logs/stacks.txt", "ranks/0.json"):
        world.put(each, "Thread 1\n")
    world.error("boom")
    world.look()
    world.store.before = refuse(name)
    assert "may not be read" in where(view_of(world))


def test_a_store_that_does_not_answer_is_raised() -> None:
    world = World()
    failed(world)

    world.store.refuse("any", UnreachableError("no answer"))
    with pytest.raises(UnreachableError):
        RunWatch(world.store, world.policy, RUN).look()


def test_a_file_that_goes_away_between_listing_and_read_is_looked_for_again() -> None:
    world = World()
    world.both(5)
    world.look()

    def gone(operation: str, key: str) -> None:
        if operation == "read" and key.endswith("progress.json"):
            world.store.held.pop(key, None)

    world.store.before = gone
    assert [beat.name for beat in view_of(world).beats] == ["metadata.json"]


def test_secrets_are_masked_wherever_training_may_have_printed_them() -> None:
    world = World()
    world.both(5)
    secret = "hunter2-and-some-more"
    world.put(LOG, f"{STEPS}RuntimeError: {secret} hf_abcdefghijklmnopqrstuvwx\n")
    world.error(f"RuntimeError: {secret}")
    world.put("logs/stacks.txt", f"Thread {secret}")
    world.put("ranks/0.json", json.dumps({"step": 1, "host": secret, "status": secret, "phase": secret}))
    world.look()
    view = view_of(world, mask=lambda text: text.replace(secret, "***"))
    told = json.dumps(run_document(view))
    assert secret not in told
    assert "hf_abc" not in told


def test_what_a_terminal_would_interpret_reaches_nobody() -> None:
    world = World()
    world.beat(phase="\x1b[31mred\x1b]0;title\x07", instance_id="i\u202e0")
    world.progress(5, metrics={"\x1b[2Jx": 1})
    world.put(LOG, "\x1b[31mstep 1\x1b[0m\rstep 2\x07\x9b2J\n" + "x" * 100_000 + "\n")
    world.error("\x1b[31mboom\x1b[0m \u202egnp")
    world.put("ranks/0.json", json.dumps({"host": "\x1b[31m", "status": "\x07"}))
    world.look()
    told = json.dumps(run_document(view_of(world)), ensure_ascii=False)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(told)
    assert len(told) < 40_000
