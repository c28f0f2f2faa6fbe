"""Alerts say when another run failed like this, and what became of it."""

import pytest

from lastbeat.model.similar import KNOWN_FAILURES
from lastbeat.record.known_failures import KnownFailures
from lastbeat.stores.port import UnreachableError
from support.fleet import FleetScene
from support.scene import Scene

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB"
DAY = 86400.0


def swept(scene: FleetScene) -> None:
    scene.kept = scene.fresh_sweep(failures=KnownFailures(scene.store))
    scene.kept.run()


def watched() -> FleetScene:
    """Two runs; the first one failed a day ago, and has gone on since."""
    scene = FleetScene()
    scene.run("first").both(1)
    scene.run("second").both(1)
    swept(scene)
    scene.run("first").error(OOM.format("2.00"))
    swept(scene)
    scene.after(300)
    scene.run("first").delete("_error")
    scene.run("first").beat(attempt=2)
    scene.run("first").progress(2)
    swept(scene)
    scene.after(DAY)
    scene.run("first").beat(attempt=2)
    scene.run("first").progress(900)
    scene.run("second").both(5)
    swept(scene)
    scene.channel.sent.clear()
    return scene


def test_the_next_alert_names_the_run_and_says_that_a_restart_helped() -> None:
    scene = watched()
    scene.run("second").error("[rank7]: " + OOM.format("512.00"))
    swept(scene)
    (alert,) = scene.channel.sent
    assert alert.similar == "same as run first on 1 Jan (2 runs so far), which went on after a restart"
    record = scene.run("second").record
    assert record is not None
    assert record.explained is not None
    assert record.explained.similar is not None
    assert record.history[-1].fingerprint == record.explained.cause.fingerprint != ""
    assert record.history[-1].node == "i-0abc"


def test_another_mistake_is_not_said_to_be_the_same() -> None:
    scene = watched()
    scene.run("second").error("ValueError: the tokenizer has no pad token")
    swept(scene)
    (alert,) = scene.channel.sent
    assert alert.similar is None


@pytest.mark.parametrize("body", [b"{", b"x" * 10**6, b'{"schema": 99}'], ids=["broken", "huge", "newer"])
def test_whatever_lies_there_the_alert_goes_out(body: bytes) -> None:
    scene = watched()
    scene.store.write(KNOWN_FAILURES, body)
    scene.run("second").error(OOM.format("3.00"))
    swept(scene)
    (alert,) = scene.channel.sent
    assert (alert.cause, alert.similar) == ("oom", None)


def test_a_document_that_nobody_can_read_or_write_costs_the_line_alone() -> None:
    scene = watched()

    def refuse(_operation: str, key: str) -> None:
        if key == KNOWN_FAILURES:
            raise UnreachableError("no answer")

    scene.store.before = refuse
    scene.run("second").error(OOM.format("3.00"))
    swept(scene)
    (alert,) = scene.channel.sent
    assert (alert.cause, alert.similar) == ("oom", None)


def test_many_that_fail_at_once_cost_one_read_and_one_change_in_a_pass() -> None:
    scene = FleetScene()
    for number in range(50):
        scene.run(f"run-{number:02}").both(1)
    swept(scene)
    for number in range(50):
        scene.run(f"run-{number:02}").error(OOM.format(number))
    scene.store.calls.clear()
    swept(scene)
    assert [call for call in scene.store.calls if call[1] == KNOWN_FAILURES] == [
        ("read", KNOWN_FAILURES), ("read", KNOWN_FAILURES), ("write", KNOWN_FAILURES)
    ]  # fmt: skip
    assert len(scene.channel.sent) == 50


def test_the_watcher_of_one_run_says_that_its_last_attempt_failed_like_this() -> None:
    scene = Scene()
    for attempt in (1, 2):
        scene.delete("_error")
        scene.beat(attempt=attempt)
        scene.watch = scene.fresh_watch(failures=KnownFailures(scene.store))
        scene.watch.tick()
        scene.after(60)
        scene.put("_error", OOM.format(attempt))
        scene.watch.tick()
        scene.after(3600)
    told = [alert.similar for alert in scene.channel.sent if alert.event.value == "FAILED"]
    assert told == [None, "same as attempt 1 of this run on 1 Jan"]
