"""One run in depth: what a look shows, and what it costs."""

import json
from collections.abc import Callable

import pytest

from lastbeat.model.status import Status
from lastbeat.stores.port import Blob
from lastbeat.views.excerpts import stacks
from lastbeat.views.one_run import RunWatch
from lastbeat.views.safe import Safe
from support.channel import ListChannel, down
from support.looked import LOG, OOM, STEPS, failed, refuse, view_of
from support.memory import START
from support.there import there
from support.world import RUN, World


def test_a_run_that_is_not_there_is_none() -> None:
    world = World()
    world.store.put_text(f"{RUN}-2/metadata.json", "{}")
    assert RunWatch(world.store, world.policy, RUN).look() is None


def test_a_spike_of_the_loss_that_came_back_is_a_note_and_no_alert() -> None:
    world = World()
    losses = [2.0, 2.01] * 40 + [5.0] + [2.0, 2.01] * 10
    recent = [[START.timestamp() + 30 * n, 10 * n, loss, 1e-4] for n, loss in enumerate(losses)]
    world.beat()
    world.progress(1000, loss=2.0, recent=recent)
    world.look()
    assert "The loss jumped from 2.005 to 5 at step 800 and came back within 10 steps." in view_of(world).notes
    assert world.channel.events == []


def test_a_failed_run_is_shown_with_its_cause_the_lines_around_it_and_what_people_were_told() -> None:
    world = World()
    failed(world)
    view = view_of(world)
    assert (view.row.status, view.row.cause, view.row.recorded) == (Status.FAILED, "oom", True)
    assert view.explained is not None
    assert view.evidence is not None
    assert view.evidence.marked is not None
    assert "CUDA out of memory" in view.evidence.lines[view.evidence.marked]
    assert view.evidence.lines[0].startswith("Traceback"), "a traceback is whole"
    assert [each.after for each in view.history] == [Status.RUNNING, Status.FAILED]
    assert [(alert.event, alert.deliveries[0][:2]) for alert in view.alerts] == [("FAILED", ("list", "sent"))]
    assert (view.alerts_pending, view.alerts_delivered) == (0, 1)
    assert view.error_text is not None
    assert view.log is not None
    assert view.log.lines[-1] == view.evidence.lines[view.evidence.marked]


def test_the_first_look_lists_once_and_reads_each_file_once() -> None:
    world = World()
    world.both(5)
    world.put("ranks/0.json", "{}")
    world.put(LOG, STEPS)
    world.look()
    world.store.calls.clear()
    view_of(world)
    assert sorted(world.store.calls) == sorted(
        [
            ("list", f"{RUN}/"),
            ("read", "_watchdog/silences.json"),
            *(("read", f"{RUN}/{name}") for name in ("_watchdog.json", "metadata.json", "progress.json")),
            *(("read", f"{RUN}/{name}") for name in ("ranks/0.json", LOG)),
            ("read", "_watchdog/limits.json"),
        ]
    )


@pytest.mark.parametrize(
    ("write", "read"),
    [
        pytest.param(lambda world: None, [], id="nothing was written and nothing is read"),
        pytest.param(lambda world: world.beat(), ["metadata.json"], id="a heartbeat costs one read"),
        pytest.param(lambda world: world.put(LOG, STEPS + "more\n"), [LOG], id="a log that grew costs one"),
        pytest.param(
            lambda world: world.put("ranks/1.json", "{}"), ["ranks/1.json"], id="of all ranks the one that beat"
        ),
    ],
)
def test_a_later_look_reads_what_was_written_since(write: Callable[[World], object], read: list[str]) -> None:
    world = World()
    world.both(5)
    world.put(LOG, STEPS)
    for rank in range(3):
        world.put(f"ranks/{rank}.json", json.dumps({"step": rank}))
    world.look()
    watch = RunWatch(world.store, world.policy, RUN)
    watch.look()
    write(world)
    world.store.calls.clear()
    assert watch.look() is not None
    assert world.store.calls == [("list", f"{RUN}/"), *(("read", f"{RUN}/{name}") for name in read)]


def test_very_many_checkpoints_cost_no_more_than_a_request_for_each_part_that_is_wanted() -> None:
    world = World()
    world.both(5)
    for number in range(5000):
        world.put(f"checkpoints/{number:05}.pt")
        world.put(f"results/{number:05}.json")
    world.put("ranks/0.json", json.dumps({"step": 5}))
    world.put("curves/1.json", json.dumps({"curves": {"loss": [[START.timestamp(), 50, 3.5]]}}))
    world.look()
    world.store.calls.clear()
    watch = RunWatch(world.store, world.policy, RUN)
    view = there(watch.look())
    assert ([line.rank for line in view.ranks], watch.curves()["loss"]) == ([0], [3.5])
    assert sum(operation == "list" for operation, _ in world.store.calls) <= 8


def test_a_run_that_nobody_recorded_is_judged_by_one_look_and_said_to_be() -> None:
    world = World()
    world.both(5)
    world.error(OOM)
    world.put(LOG, STEPS + OOM)
    view = view_of(world)
    assert (view.row.status, view.row.recorded, view.row.cause) == (Status.FAILED, False, "oom")
    assert view.evidence is not None
    assert (view.history, view.alerts) == ((), ())


def test_alerts_that_wait_are_told_apart_from_those_that_went_out() -> None:
    world = World()
    world.channel = ListChannel("slack:5f0c9a1e")
    world.both(5)
    world.look()
    world.channel.fault = down
    world.error("boom")
    world.look()
    view = view_of(world)
    assert (view.alerts_pending, view.alerts_delivered) == (1, 0)
    channel, state, _ = view.alerts[0].deliveries[0]
    assert (channel, state) == ("slack", "waiting"), "which of several web hooks it is, is nobody's to read"
    assert view.alerts[0].error


def test_stacks_of_an_earlier_attempt_do_not_say_where_this_one_hangs() -> None:
    world = World()
    world.put("logs/stacks.txt", "Thread 1\n")
    world.after(3600)
    world.beat(start_time=world.instance_now.isoformat(), attempt=2)
    assert view_of(world).stacks is None


def test_progress_from_right_before_a_restart_does_not_count_anywhere() -> None:
    world = World()
    world.both(150)
    world.look()
    world.after(60)
    world.progress(160, eta_s=56, age_s=0.5)
    world.beat(start_time=world.instance_now.isoformat(), attempt=2)
    world.look()
    view = view_of(world)
    assert any("progress.json" in note for note in view.notes)
    assert (view.row.step, view.row.eta_s, view.points) == (None, None, ())


def test_a_run_that_fell_silent_while_nobody_watches_is_doubted() -> None:
    world = World()
    world.both(5)
    world.look()
    world.after(3 * 3600)
    view = view_of(world)
    assert view.row.status is Status.RUNNING, "what is recorded stands"
    assert (view.row.doubt or "").endswith("no watchdog runs")
    world.store.before = refuse("_watchdog/last_pass.json")
    assert (view_of(world).row.doubt or "").endswith("no pass has judged that"), "whether any is made, nobody knows"


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        pytest.param("_complete", Status.SUCCEEDED, id="it says that it is done"),
        pytest.param("_error", Status.FAILED, id="it says that it failed"),
        pytest.param("notes.txt", None, id="it says nothing"),
    ],
)
def test_whether_it_has_ended_is_known_before_a_pass_recorded_it(name: str, ended: Status | None) -> None:
    world = World()
    world.both(5)
    world.look()
    world.after(5)
    world.put(name, "done")
    watch = RunWatch(world.store, world.policy, RUN)
    watch.look()
    assert watch.ended is ended


def test_a_failure_that_nobody_recorded_has_a_time_and_a_strip() -> None:
    world = World()
    world.beat(start_time=world.instance_now.isoformat())
    world.after(60)
    world.error("boom")
    ended = world.now
    world.after(60)
    row = view_of(world).row
    assert (row.status, row.since) == (Status.FAILED, ended)
    assert [span.status for span in row.strip] == [Status.RUNNING, Status.FAILED]


def test_of_a_failure_that_the_log_alone_tells_nobody_knows_since_when() -> None:
    world = World()
    world.beat(start_time=world.instance_now.isoformat())
    world.progress(5, eta_s=90, steps_per_second=2)
    world.after(60)
    world.put(LOG, STEPS + OOM)
    row = view_of(world).row
    assert (row.status, row.cause) == (Status.FAILED, "oom")
    assert (row.since, row.strip) == (None, ()), "it ran at first, and has not failed since then"
    assert (row.eta_s, row.steps_per_s, row.tokens_per_s) == (None, None, None)


@pytest.mark.parametrize("name", ["_error", "_complete"])
def test_an_end_that_no_pass_has_recorded_yet_is_told(name: str) -> None:
    world = World()
    world.both(5)
    world.look()
    world.after(5)
    world.put(name)
    view = view_of(world)
    assert (view.row.status, view.row.doubt) == (Status.RUNNING, None)
    assert view.notes == (f"It wrote {name}; the next pass records what became of it.",)
    world.look()
    assert view_of(world).notes == ()


def test_a_thread_that_died_is_told_unless_the_reason_tells_it() -> None:
    world = World()
    world.both(5)
    world.look()
    world.beat(thread_error="loader: ValueError: shard 7 is torn")
    told = "A thread of it has ended with an exception: loader: ValueError: shard 7 is torn"
    assert told in view_of(world).notes
    assert all("thread_error" not in beat.facts for beat in view_of(world).beats)
    world.complete()
    world.look()
    view = view_of(world)
    assert (view.row.status, told in view.notes) == (Status.SUCCEEDED, False)
    assert "shard 7 is torn" in view.row.reason


def test_settings_that_a_run_ignores_are_told() -> None:
    world = World()
    world.beat(ignored_settings=["LASTBEAT_LEARN='banana'", 7, "", "X=\x1b[31m"])
    view = view_of(world)
    assert view.notes == ("This run ignores LASTBEAT_LEARN='banana', X=; correct that where its training starts.",)
    assert all("ignored_settings" not in beat.facts for beat in view.beats)
    world.beat(ignored_settings="all of them")
    assert view_of(world).notes == ()


STACKS = """No new step for 15 min, at step 7

Thread "MainThread" (main), most recent call last:
  File "/srv/lastbeat/train.py", line 3, in <module>
  File "/usr/lib/python3/dist-packages/lastbeat/integrations/pytorch.py", line 40, in on_step
  File "/opt/train.py", line 9, in forward

Thread "lastbeat-beat", most recent call last:
  File "/usr/lib/python3/dist-packages/lastbeat/training/sdk/reporter.py", line 288, in _work
  File "/usr/lib/python3/dist-packages/lastbeat/training/sdk/stacks.py", line 63, in write

Thread "loader", most recent call last:
  File "/opt/data.py", line 5, in fetch
  File "/usr/lib/python3/dist-packages/lastbeat/training/sdk/run.py", line 90, in step
"""


def test_of_stacks_the_frames_of_lastbeat_are_left_out_but_for_one_that_hangs() -> None:
    found = stacks("logs/stacks.txt", Blob(STACKS.encode(), len(STACKS), START, "1"), Safe())
    text = "\n".join(found.lines)
    assert "lastbeat-beat" not in text
    assert "stacks.py" not in text
    assert "integrations" not in text
    # A folder of theirs may be called so, too; and where a thread is counts whoever's code it is.
    assert "/srv/lastbeat/train.py" in text
    assert text.endswith('sdk/run.py", line 90, in step')
    assert found.note == "3 of lastbeat's own frames are not shown"
