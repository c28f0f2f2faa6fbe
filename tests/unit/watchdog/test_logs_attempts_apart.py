"""A log that goes on from attempt to attempt and names no times: whose text it is, whoever looks."""

from support.growing import OOM, LoggedScene


def test_a_watcher_that_was_away_takes_no_old_crash_for_the_new_attempts() -> None:
    scene = LoggedScene()
    scene.beat(attempt=1, start_time=scene.now.isoformat())
    scene.look()
    away = scene.fresh_watch()
    away.tick()
    for attempt in (2, 3, 4):
        scene.after(2)
        scene.write(OOM)
        scene.after(2)
        started = scene.now.isoformat()
        scene.beat(attempt=attempt, start_time=started)
        if attempt < 4:
            # This one sees one crash after the other.
            scene.look()
    scene.look()
    for _ in range(4):
        scene.after(60)
        scene.beat(attempt=4, start_time=started)
        scene.write("loading the model\n")
        for outcome in (away.tick(), scene.look()):
            assert (outcome.status.value, list(outcome.conditions)) == ("RUNNING", [])
