"""A training whose main thread hangs: what the watchdog says, and where it says that it hangs."""

import json
from contextlib import ExitStack
from dataclasses import replace

from support.http_sink import http_sink
from support.training import WRITTEN, Site
from support.waiting import until

STEPS = f"""\
import threading, time
import lastbeat
{WRITTEN}
run = lastbeat.start("run-1", total_steps=10)
def hang_here():
    for step in range(3):
        run.step(step, loss=2.0 - step)
    written(run)
    threading.Event().wait()
hang_here()
"""
STALL_S = 1.5


def test_it_beats_and_makes_no_progress_so_the_alerts_say_where(directory: Site) -> None:
    with http_sink() as sink, ExitStack() as open_:
        env = {"LASTBEAT_STALL_MINUTES": str(STALL_S / 60), "LASTBEAT_WEBHOOK_URL": sink.url}
        site = replace(directory, env=env)
        open_.enter_context(site.running(STEPS))
        until(lambda: '"step": 2' in (site.read("progress.json") or ""))
        until(lambda: site.read("logs/stacks.txt"))
        # A look that follows right after the whole machine stood still finds old beats, and cannot say that it hangs.
        found = until(site.look, lambda found: found["cause"] == "hang")
    assert found["status"] == "TIMED_OUT"
    assert found["reason"].startswith("No progress: still at step 2 after ")
    sent = [json.loads(request.body) for request in sink.requests]
    assert [alert["event"] for alert in sent] in (["WARNING", "TIMED_OUT"], ["TIMED_OUT"])
    for alert in sent:
        assert any(frame.endswith(", in hang_here") for frame in alert["stack"]), alert["stack"]
