"""A checkpoint on which attempts die before their first step is passed over, told of, and never deleted."""

from lastbeat.model.job import JobState
from support import checkpoint_files as made
from support.jobs import RUN, SupervisedScene
from support.memory import MemoryStore
from unit.supervision.test_supervised import running, settled


def saved(*steps: int) -> MemoryStore:
    place = MemoryStore()
    for step in steps:
        for name, body in made.huggingface(step).items():
            place.write(f"checkpoint-{step}/{name}", body)
        place.pass_time(600)
    return place


def begun(scene: SupervisedScene, name: str) -> str | None:
    return scene.launcher.jobs[name].spec.environment.get("LASTBEAT_RESUME_STEP")


def dies(scene: SupervisedScene, name: str) -> None:
    scene.store.pass_time(30)
    scene.launcher.jobs[name].started_at = scene.store.now
    scene.store.pass_time(30)
    scene.end(name, JobState.FAILED, 1)
    settled(scene, 3)


def test_two_attempts_that_die_on_a_checkpoint_put_it_in_quarantine() -> None:
    scene = running(SupervisedScene(checkpoints=saved(100, 200)))
    dies(scene, "run-r0")
    dies(scene, "run-r1")
    assert [begun(scene, f"run-r{number}") for number in range(3)] == ["200", "200", "100"]
    told = [message.restart for message in scene.channel.sent if message.restart]
    why = "not from checkpoint-200: 2 attempts died on it before their first step"
    assert told == ["restarting, attempt 1/2, from step 200", f"restarting, attempt 2/2, from step 100 ({why})"]
    record = scene.record()
    assert record.ruling is not None
    assert record.ruling.passed_over == why.removeprefix("not from ")
    assert scene.checkpoints is not None
    assert any(key.startswith("checkpoint-200/") for key in scene.checkpoints.held), "nothing is deleted"


def test_an_attempt_that_gets_to_a_step_acquits_its_checkpoint() -> None:
    scene = running(SupervisedScene(checkpoints=saved(100, 200)))
    dies(scene, "run-r0")
    scene.store.put_text(f"{RUN}/progress.json", '{"step": 205}')
    scene.watch().tick()
    dies(scene, "run-r1")
    assert [begun(scene, f"run-r{number}") for number in range(3)] == ["200", "200", "200"]
