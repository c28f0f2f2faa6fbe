"""A training that is killed while ``lastbeat sweep`` watches its fleet: people hear how it ended, and at once."""

import json
import sys
from pathlib import Path

import pytest

from support.cli import LASTBEAT, start
from support.guardians import guardians
from support.http_sink import http_sink
from support.training import Site, directory_site, end
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guardians are for Linux alone")

SCRIPT = """\
import time, lastbeat
with lastbeat.run("run-1", total_steps=10) as run:
    run.step(2)
    print("asleep", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return directory_site(tmp_path)


def test_a_sweep_tells_of_a_training_that_is_killed(site: Site) -> None:
    training = site.start(SCRIPT)
    with http_sink() as sink:
        until(lambda: site.read("progress.json"))
        # At the default limit of ten minutes: nothing here is silent for as long.
        hook = f"{sink.url}/services/T/B/X"
        command = [*LASTBEAT, "sweep", "--interval", "0.2"]
        sweep = start(command, cwd=site.folder, MONITORING_ROOT=site.root, SLACK_WEBHOOK_URL=hook)
        try:
            until((Path(site.root) / "run-1" / "_watchdog.json").exists)
            assert not sink.requests
            end(training)
            until(lambda: sink.requests)
        finally:
            end(training)
            sweep.terminate()
            sweep.communicate(timeout=LIMIT_S)
        told = json.dumps(json.loads(sink.requests[0].body))
        assert "FAILED" in told
        assert "train.py was killed by SIGKILL" in told
        assert len(sink.requests) == 1
    until(lambda: not guardians(site.folder))
