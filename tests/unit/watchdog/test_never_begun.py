"""A run that nobody has seen: perhaps a typing error, so nothing is made for it."""

from support.scene import RUN, Scene


def written(scene: Scene) -> list[str]:
    return [key for operation, key in scene.store.calls if operation == "write"]


def test_no_folder_is_made_for_a_run_that_nobody_has_seen() -> None:
    scene = Scene()
    for _ in range(3):
        outcome = scene.look()
        assert outcome.status.value == "TIMED_OUT"
        scene.after(60)
    assert written(scene) == []
    assert scene.channel.events == ["TIMED_OUT"], "its record is kept, so people are told once"
    assert any("no folder" in note for note in outcome.notes)


def test_once_it_begins_its_record_lies_beside_it_and_people_are_told_that_it_started() -> None:
    scene = Scene()
    scene.look()
    scene.after(60)
    scene.both(1)
    outcome = scene.look()
    assert scene.channel.events == ["TIMED_OUT", "STARTED"]
    assert f"{RUN}/_watchdog.json" in written(scene)
    assert outcome.notes == ()
    assert outcome.record is not None
    assert [each.after.value for each in outcome.record.history] == ["TIMED_OUT", "RUNNING"]
    assert scene.state.list("records/").entries == (), "and not in the state directory any more"


def test_without_a_state_directory_it_lies_beside_the_run_that_is_not_there() -> None:
    scene = Scene()
    scene.fresh_watch(state=None).tick()
    scene.fresh_watch(state=None).tick()
    assert f"{RUN}/_watchdog.json" in written(scene)
    assert scene.channel.events == ["TIMED_OUT"]


def test_a_run_whose_folder_was_deleted_is_no_typing_error() -> None:
    scene = Scene()
    scene.both(1)
    watch = scene.watch
    watch.tick()
    for name in ("metadata.json", "progress.json", "_watchdog.json"):
        scene.delete(name)
    scene.after(700)
    watch.tick()
    scene.after(700)
    assert watch.tick().status.value == "TIMED_OUT"
    assert f"{RUN}/_watchdog.json" in written(scene)
