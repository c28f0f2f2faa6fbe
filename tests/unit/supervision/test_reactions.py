"""What a policy's ``on:`` does, whoever dies when."""

import json

import pytest

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.restarts.loading import load_text
from lastbeat.jobs.supervision.commands import unfinished
from lastbeat.model.job import JobState
from lastbeat.model.restart import RestartPolicy
from lastbeat.model.status import Event, Status
from lastbeat.model.stop_request import StopRequest, encode_request
from lastbeat.watch.effects.runner import ACTION_LEASE_S
from support import checkpoint_files as made
from support.jobs import RUN, SupervisedScene, call_points
from support.memory import Killed, MemoryStore
from unit.supervision.test_supervised import running, settled

CRASHES = "policies: [{mode: crash, implementation: {class_name: AlwaysRestartPolicy, max_retries: 2}}]\n"
EVALUATES = "on: {checkpoint_saved: {command: [evaluate, '{checkpoint}', '--step={step}'], limit_s: 600}}\n"
STEPS = "step 1/100 loss 2.5\n"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n"


def policy(text: str) -> RestartPolicy:
    return load_text(CRASHES + text, "own.yaml", "own")


def scene(text: str, *, checkpoints: bool = False) -> SupervisedScene:
    place = MemoryStore() if checkpoints else None
    found = running(SupervisedScene(policy=policy(text), checkpoints=place))
    found.since = found.store.now
    return found


def save(scene: SupervisedScene, step: int) -> None:
    assert scene.checkpoints is not None
    scene.store.pass_time(60)
    scene.checkpoints.now = scene.store.now
    for name, body in made.huggingface(step).items():
        scene.checkpoints.write(f"checkpoint-{step}/{name}", body)
    pass_time(scene, 5)


def pass_time(scene: SupervisedScene, seconds: float) -> None:
    scene.store.pass_time(seconds)
    if scene.checkpoints is not None:
        scene.checkpoints.now = scene.store.now


def commands(scene: SupervisedScene) -> list[tuple[str, ...]]:
    """What was run, without what bounds it."""
    return [scene.commands.jobs[name].spec.command[5:] for name in scene.commands.submitted]


def note_texts(scene: SupervisedScene) -> list[str]:
    memory = scene.record().reactions
    return [each.text for each in memory.notes] if memory is not None else []


# Notes.


def test_a_note_stands_in_the_record_and_in_the_alert_of_its_transition() -> None:
    found = scene("on: {failed: {note: 'tell ada: {reason}'}}\n")
    found.end("run-r0", JobState.FAILED, 7)
    found.watch().tick()
    assert note_texts(found) == ["tell ada: job run-r0: FAILED, exit status 7"]
    (message,) = found.channel.sent
    assert (message.event, message.notes) == (Event.FAILED, (f"on failed: {note_texts(found)[0]}",))


def test_a_transition_that_a_sweep_recorded_is_answered_all_the_same_and_once() -> None:
    found = scene("on: {failed: {note: seen}}\n")
    found.store.put_text(f"{RUN}/metadata.json", "{}")
    found.watch().tick()
    found.store.put_text(f"{RUN}/_error", "ValueError: x")
    found.watch(supervises=False).tick()
    assert note_texts(found) == []
    for _ in range(3):
        found.watch().tick()
    assert note_texts(found) == ["seen"]


BEGINNINGS = "on: {started: {note: begun}, restarted: {note: begun again}, succeeded: {note: done}}\n"


def test_each_job_that_begins_to_run_is_told_once() -> None:
    found = scene(BEGINNINGS)
    settled(found, 3)
    found.end("run-r0", JobState.FAILED, 1)
    settled(found, 4)
    found.end("run-r1", JobState.SUCCEEDED, 0)
    settled(found, 3)
    assert note_texts(found) == ["begun", "begun again", "done"]


def test_what_was_there_before_the_supervision_began_is_not_answered() -> None:
    found = SupervisedScene(policy=policy("on: {failed: {note: seen}}\n"))
    found.store.put_text(f"{RUN}/_error", "ValueError: of an earlier job")
    found.watch(supervises=False).tick()
    running(found)
    settled(found, 3)
    assert note_texts(found) == []


def test_a_signal_in_the_log_of_a_living_job_is_told_once_an_attempt() -> None:
    found = scene("on: {xid_fatal: {note: 'call the data centre'}}\n")
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    watch = found.watch()
    for number in range(2, 5):
        found.store.pass_time(5)
        found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID + f"step {number}/100 loss 2.5\n" + XID)
        assert watch.tick().status is Status.RUNNING
    assert note_texts(found) == ["call the data centre"]
    (message,) = found.channel.sent
    assert (message.event, message.reason) == (Event.WARNING, "on xid_fatal: call the data centre")


def diverge(scene: SupervisedScene) -> None:
    """Write a curve whose loss grows at its end."""
    now = scene.store.now.timestamp()
    losses = [2.5 + 0.01 * (at % 5) + max(0, at - 170) / 20 for at in range(200)]
    recent = [[now - 30.0 * (200 - at), 1000 + 10 * at, loss, 1e-4] for at, loss in enumerate(losses)]
    document = {"step": 3000, "loss": losses[-1], "last_updated": scene.store.now.isoformat(), "recent": recent}
    scene.store.put_text(f"{RUN}/progress.json", json.dumps(document))
    scene.store.put_text(f"{RUN}/metadata.json", "{}")


def test_a_condition_of_the_runs_numbers_stops_its_job_once() -> None:
    found = scene("on: {loss_diverging: [stop, {note: 'higher at {step}: {reason}'}]}\n")
    diverge(found)
    for _ in range(3):
        found.watch().tick()
    assert [call for call in found.launcher.calls if call[0] == "cancel"] == [("cancel", "run-r0")]
    (note,) = note_texts(found)
    assert note.startswith("higher at 3000: the loss has risen from 2.5")
    ruling = found.record().ruling
    assert ruling is not None
    assert ruling.reason == "stopped by the policy own on loss_diverging"


def test_a_condition_asks_the_policy_as_a_number_that_is_not_finite_does() -> None:
    found = scene("on: {loss_diverging: restart}\n")
    diverge(found)
    settled(found, 3)
    (entry,) = found.record().restarts
    assert (entry.error_type, entry.cause_key) == ("numerical_instability", "numerical_instability loss_diverging")
    assert found.launcher.submitted[:2] == ["run-r0", "run-r1"]


# Stops and restarts.


def test_a_stop_ends_the_job_and_nothing_restarts_it() -> None:
    found = scene("on: {xid_fatal: stop}\n")
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    found.watch().tick()
    assert ("cancel", "run-r0") in found.launcher.calls
    assert settled(found).status is Status.FAILED
    assert found.launcher.submitted == ["run-r0"]
    ruling = found.record().ruling
    assert ruling is not None
    assert (ruling.restart, ruling.reason, ruling.on) == (False, "stopped by the policy own on xid_fatal", "xid_fatal")
    assert [message.restart for message in found.channel.sent] == [
        "not restarted: stopped by the policy own on xid_fatal"
    ]


def test_a_stop_wins_over_a_restart() -> None:
    found = scene("on: {failed: [{action: restart}, {action: stop}]}\n")
    found.end("run-r0", JobState.FAILED, 1)
    settled(found)
    assert found.launcher.submitted == ["run-r0"]
    assert found.channel.sent[0].restart == "not restarted: stopped by the policy own on failed"


def test_a_restart_on_a_signal_is_the_policys_decision_and_one_alert() -> None:
    found = scene("on: {xid_fatal: restart}\n")
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    watch = found.watch()
    for _ in range(4):
        watch.tick()
        found.store.pass_time(3)
    assert found.launcher.submitted == ["run-r0", "run-r1"]
    assert found.launcher.alive_at_once == 1
    told = [(message.event, message.restart) for message in found.channel.sent]
    assert told == [(Event.WARNING, "restarting, attempt 1/2, from where training itself resumes")]
    assert found.record().restarts[0].error_type == "hardware"


def test_a_restart_that_the_policy_refuses_leaves_the_job_alone() -> None:
    found = running(SupervisedScene(policy=load_text("on: {xid_fatal: restart}\n", "own.yaml", "own")))
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    watch = found.watch()
    for _ in range(3):
        found.store.pass_time(3)
        watch.tick()
    assert (found.launcher.submitted, found.launcher.jobs["run-r0"].state) == (["run-r0"], JobState.RUNNING)
    (message,) = found.channel.sent
    assert (message.event, message.restart) == (Event.WARNING, "not restarted: NoRestartPolicy on crash")
    assert found.record().ruling is None, "its end will be decided about when it comes"


def test_what_a_person_stops_before_its_restart_stays_stopped() -> None:
    found = scene("on: {xid_fatal: restart}\n")
    found.delay_s = 1200.0
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    watch = found.watch()
    assert watch.tick().status is Status.RUNNING
    assert found.record().restarts, "it waits for its time"
    found.store.pass_time(5)
    request = StopRequest("ada", found.store.now, "wrong data", None, 1, 60.0)
    found.store.write(f"{RUN}/_stop", encode_request(request))
    found.end("run-r0", JobState.CANCELLED)
    watch.tick()
    found.store.pass_time(3000)
    settled(found, 3)
    assert found.launcher.submitted == ["run-r0"]
    ruling = found.record().ruling
    assert ruling is not None
    assert ruling.reason == "stopped by ada: what a person ended is not restarted"


# Commands.


def test_each_checkpoint_is_evaluated_once_and_none_that_was_there_before() -> None:
    place = MemoryStore()
    found = SupervisedScene(policy=policy(EVALUATES), checkpoints=place)
    save(found, 50)
    pass_time(found, 600)
    found.since = found.store.now
    running(found)
    for step in (100, 200):
        save(found, step)
        settled(found, 2)
    assert commands(found) == [
        ("evaluate", f"memory://runs/checkpoint-{step}", f"--step={step}") for step in (100, 200)
    ]
    assert found.commands.submitted == ["run.command-checkpoint-100", "run.command-checkpoint-200"]


def test_a_half_written_checkpoint_is_not_saved_yet() -> None:
    found = scene(EVALUATES, checkpoints=True)
    assert found.checkpoints is not None
    found.store.pass_time(60)
    found.checkpoints.now = found.store.now
    files = made.huggingface(100)
    for name in ("optimizer.pt", "model.safetensors.index.json"):
        found.checkpoints.write(f"checkpoint-100/{name}", files[name])
    pass_time(found, 600)
    found.watch().tick()
    assert commands(found) == []
    save(found, 100)
    found.watch().tick()
    assert len(commands(found)) == 1


def test_how_a_command_failed_is_told_with_where_its_output_is() -> None:
    found = scene(EVALUATES, checkpoints=True)
    save(found, 100)
    watch = found.watch()
    watch.tick()
    watch.tick()
    found.commands.jobs["run.command-checkpoint-100"].outputs = ("/tmp/x",)
    found.commands.jobs["run.command-checkpoint-100"].said = "exit status 3"
    found.commands.jobs["run.command-checkpoint-100"].state = JobState.FAILED
    watch.tick()
    watch.tick()
    (message,) = found.channel.sent
    where = "commands/command-checkpoint-100.log"
    assert (message.event, message.reason) == (
        Event.WARNING,
        f"command-checkpoint-100: exit status 3; its output: {where}",
    )
    assert found.store.held[f"{RUN}/{where}"].body == b"its output"


def test_commands_wait_for_each_other_and_too_many_are_left_out_and_told_once() -> None:
    found = scene(EVALUATES, checkpoints=True)
    watch = found.watch()
    for step in range(100, 1300, 100):
        save(found, step)
        watch.tick()
    assert len(found.commands.submitted) == 2, "two run at once"
    assert [message.event for message in found.channel.sent] == [Event.WARNING]
    for _ in range(12):
        for job in found.commands.jobs.values():
            job.state = JobState.SUCCEEDED
        pass_time(found, ACTION_LEASE_S)
        watch.tick()
    assert len(found.commands.submitted) == 8
    assert found.launcher.submitted == ["run-r0"]


def test_a_command_that_was_decided_elsewhere_is_not_run_here() -> None:
    found = scene(EVALUATES, checkpoints=True)
    save(found, 100)
    found.commands.die_at(0, Killed, before=True)
    with pytest.raises(Killed):
        found.watch().tick()
    found.heal()
    found.place = "elsewhere:state"
    settled(found, 4)
    assert commands(found) == []
    assert "not run: it was to be run on here" in found.channel.sent[-1].reason


def test_a_command_that_certainly_has_not_begun_is_run_by_whoever_goes_on() -> None:
    found = scene(EVALUATES, checkpoints=True)
    watch = found.watch()
    for step in (100, 200, 300):
        save(found, step)
        watch.tick()
    assert len(commands(found)) == 2, "the third waits"
    found.place = "elsewhere:state"
    for job in found.commands.jobs.values():
        job.state = JobState.SUCCEEDED
    settled(found, 3)
    assert found.commands.submitted[2:] == ["run.command-checkpoint-300"]


def test_a_run_is_not_over_while_its_commands_wait_or_run() -> None:
    found = scene(EVALUATES, checkpoints=True)
    save(found, 100)
    found.end("run-r0", JobState.SUCCEEDED, 0)
    watch = found.watch()
    watch.tick()
    assert len(commands(found)) == 1, "also the one that was saved last"
    assert unfinished(found.record())
    found.commands.jobs["run.command-checkpoint-100"].state = JobState.SUCCEEDED
    watch.tick()
    watch.tick()
    assert not unfinished(found.record())


def test_an_agent_stays_until_the_commands_have_ended() -> None:
    found = scene("on: {succeeded: {command: [publish]}}\n")
    found.end("run-r0", JobState.SUCCEEDED, 0)
    agent = found.agent()
    for _ in range(3):
        agent.run()
        pass_time(found, 60)
    assert commands(found) == [("publish",)]
    (name,) = found.commands.submitted
    found.commands.jobs[name].state, found.commands.jobs[name].exit_code = JobState.FAILED, 3
    for _ in range(3):
        agent.run()
        pass_time(found, 60)
    assert found.channel.sent[-1].event is Event.WARNING, "its failure is told"


def story() -> SupervisedScene:
    found = scene(EVALUATES, checkpoints=True)
    save(found, 100)
    return found


def test_what_to_do_is_told_where_a_command_is_over_its_limit_and_cannot_be_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = story()
    found.watch().tick()
    found.commands.refuse("cancel", LauncherError("no answer", "try scontrol ping"))
    for _ in range(3):
        pass_time(found, 600)
        found.watch().tick()
    assert "is over its limit, and could not be ended: no answer; try scontrol ping" in caplog.text


@pytest.mark.parametrize(("which", "call", "before"), call_points(story, "store", "commands"))
def test_a_supervisor_that_is_killed_runs_a_command_once(which: str, call: int, before: bool) -> None:
    found = story()
    found.die_at(which, call, before=before)
    with pytest.raises(Killed):
        found.watch().tick()
    settled(found)
    assert found.commands.submitted == ["run.command-checkpoint-100"]


@pytest.mark.parametrize(("_which", "call", "before"), call_points(story, "commands"))
def test_a_lost_answer_leads_to_one_command(_which: str, call: int, before: bool) -> None:
    found = story()
    found.commands.die_at(call, lambda: LauncherError("no answer"), before=before)
    for _ in range(3):
        found.watch().tick()
    settled(found)
    assert found.commands.submitted == ["run.command-checkpoint-100"]


def stops() -> SupervisedScene:
    found = scene("on: {xid_fatal: stop}\n")
    found.store.put_text(f"{RUN}/logs/a.log", STEPS + XID)
    return found


@pytest.mark.parametrize(("which", "call", "before"), call_points(stops, "launcher"))
def test_a_supervisor_that_is_killed_while_it_stops_a_job_restarts_nothing(which: str, call: int, before: bool) -> None:
    found = stops()
    found.die_at(which, call, before=before)
    with pytest.raises(Killed):
        found.watch().tick()
    outcome = settled(found)
    assert (outcome.status, found.launcher.submitted) == (Status.FAILED, ["run-r0"])
