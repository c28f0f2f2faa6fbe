"""Training, and scripts beside it, raise alerts; watchers tell people once."""

from typing import Any

import pytest

import lastbeat
from lastbeat import settings as configuration
from lastbeat.stores.clock import steady_clock
from lastbeat.watch.configured import configured_watch
from support import monitor
from support.channel import ListChannel
from support.row_by_row import labelled
from support.training import STALE_MINUTES, Site


def told(site: Site, watchers: int = 2) -> list[tuple[str, str, str]]:
    """What people get by looks of so many watchers that share nothing but the run."""
    channel = ListChannel()
    env = monitor.environment(site.folder, {"MONITORING_ROOT": site.root, "STALE_MINUTES": STALE_MINUTES, **site.env})
    settings = configuration.load({}, env, site.folder, watching=True)
    for _ in range(watchers):
        configured_watch(settings, "run-1", [channel], clock=steady_clock()).tick()
    return [(message.event.value, message.severity, message.reason) for message in channel.sent]


def test_an_alert_that_training_raises_is_told_once(directory: Site) -> None:
    script = """\
    import lastbeat
    with lastbeat.run("run-1") as run:
        run.step(1, loss=3.5)
        assert run.alert("Loss is high", "3.5 at step 1", level="warning")
        assert not run.alert("Loss is high", "3.5 at step 1", level="warning")
    assert not run.alert("too late")
    """
    trained = directory.train(script)
    assert trained.exit == 0, trained.said
    assert told(directory) == [
        ("ALERT", "warning", "Loss is high: 3.5 at step 1"),
        ("SUCCEEDED", "info", "Training completed (_complete found)"),
    ]


SCRIPTS = [
    ("a status", ("FAILED", "bad", {"to": "x", 7: [1]}), "critical", "FAILED: bad to: x 7: [1]"),
    ("a level", ("warning", "disk is nearly full"), "warning", "disk is nearly full"),
    ("a word of its own", ("done",), "info", "done"),
]


@pytest.mark.parametrize(("arguments", "severity", "reason"), labelled(SCRIPTS))
def test_another_script_raises_one(directory: Site, arguments: tuple[Any, ...], severity: str, reason: str) -> None:
    assert lastbeat.alert("run-1", *arguments, root=directory.root) is True
    assert told(directory) == [("ALERT", severity, reason)]
    assert directory.look()["status"] == "NO_HEARTBEAT"


def test_a_script_that_cannot_raise_one_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    nameless: Any = None
    nowhere: Any = 7
    assert not lastbeat.alert(nameless, "FAILED", "x")
    assert not lastbeat.alert("run-1", "x", root=nowhere)
    assert "the run id has to be text" in caplog.text
