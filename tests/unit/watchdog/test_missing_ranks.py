"""A timeout that all ranks but one report: alerts, ``show`` and ``explain`` name that one, and show its log."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.alerts.document import document
from lastbeat.alerts.plain import render
from lastbeat.explain.signals.loading import load
from lastbeat.model.alert import Message
from lastbeat.model.policy import Policy
from lastbeat.model.view import RunView
from lastbeat.views.lines.run import show_lines
from lastbeat.views.one_run import RunWatch
from lastbeat.views.run_document import run_document
from lastbeat_cli.explain import log_sources, reading
from lastbeat_cli.explain.lines import story_lines
from lastbeat_cli.explain.run import RankFacts
from lastbeat_cli.explain.story import story_document
from support.missing_ranks import ranks
from support.there import there
from support.world import RUN, World

NAMED = (
    "Look at rank 7 on h100-012: the only one of 8 that does not report it; its last line is of 18:45, step 3554 "
    "(8 of 8 logs read)."
)
GENERAL = "does NOT report it"
ERROR = "torch.distributed.DistBackendError: NCCL timeout\nrank 3 of 8 on h100-008, process 99\n"
STACKS = 'Thread "MainThread":\n  File "train.py", line 12, in wait_for_the_others\n'


@pytest.fixture
def world() -> World:
    world = World(Policy())
    world.after((datetime(2026, 11, 20, 18, 56, tzinfo=timezone.utc) - world.now).total_seconds())
    return world


def fail(world: World, *missing: int, there: int = 8, world_size: int = 8, error: str = ERROR) -> Message:
    """The alert of a run of eight ranks whose collective timed out."""
    world.beat(world_size=world_size, beat_seconds=30.0)
    world.look()
    for rank, text in ranks(there, *missing).items():
        world.put(f"logs/rank{rank}.txt", text)
        world.put(f"ranks/{rank}.json", json.dumps({"rank": rank, "host": f"h100-{rank + 5:03}", "step": 3554}))
    world.log(ranks(1)[0])
    world.put("logs/stacks.txt", STACKS)
    world.error(error)
    (alert,) = world.look().alerts
    return alert


def shown(world: World) -> RunView:
    return there(RunWatch(world.store, Policy(), RUN).look())


def test_the_alert_names_it_and_shows_its_log(world: World) -> None:
    alert = fail(world, 7)
    assert alert.cause == "nccl_timeout"
    assert there(alert.action).startswith(NAMED)
    assert there(alert.ranks).startswith("rank 7 on h100-012")
    assert alert.log_name == "logs/rank7.txt"
    assert alert.log_tail[-1] == "2026-11-20 18:45:00 step 3554/9000 loss 2.35"
    assert not any("Watchdog caught" in line for line in alert.log_tail), "which only the others print"
    assert document(alert)["log_name"] == "logs/rank7.txt"
    text = render(alert)
    assert "logs/rank7.txt" in text
    assert GENERAL not in text


def test_show_says_the_same_whether_it_was_recorded_or_not(world: World) -> None:
    fail(world, 7)
    recorded = shown(world)
    world.delete("_watchdog.json")
    for view in (recorded, shown(world)):
        text = "\n".join("".join(part for part, _ in line) for line in show_lines(view, 300, str))
        assert NAMED in text
        assert GENERAL not in text
        assert "rank 3 on h100-008" not in text, "it wrote _error, and waited as the others did"
        assert there(view.log).file == "logs/rank7.txt"
        explained = run_document(view)["explained"]
        assert isinstance(explained, dict)
        assert explained["missing"]["ranks"] == [
            {
                "rank": 7,
                "host": "h100-012",
                "log": "logs/rank7.txt",
                "last_line_at": "2026-11-20T18:45:00Z",
                "step": 3554,
                "stack": None,
            }
        ]


def test_a_host_of_an_earlier_attempt_is_not_taken(world: World) -> None:
    world.put("ranks/7.json", json.dumps({"rank": 7, "host": "old-host"}), age_s=86_400)
    world.beat(start_time=(world.now - timedelta(hours=1)).isoformat(), world_size=8, beat_seconds=30.0)
    world.look()
    for rank, text in ranks(8, 7).items():
        world.put(f"logs/rank{rank}.txt", text)
    world.error("")
    (alert,) = world.look().alerts
    assert there(alert.action).startswith("Look at rank 7: the only one of 8")


def test_explain_of_its_folder_says_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "run-1"
    for name in ("logs", "ranks"):
        (folder / name).mkdir(parents=True)
    for rank, text in ranks(8, 7).items():
        (folder / "logs" / f"rank{rank}.txt").write_text(text)
        (folder / "ranks" / f"{rank}.json").write_text(json.dumps({"rank": rank, "host": f"h100-{rank + 5:03}"}))
    (folder / "metadata.json").write_text(json.dumps({"run_id": "run-1", "world_size": 8}))
    sources = log_sources.directory(folder, lambda _: None)
    story = there(reading.story(sources, load("default"), str, [], [], ranks=RankFacts.of_folder(folder, str)))
    text = "\n".join("".join(part for part, _ in line) for line in story_lines(story, 300, str))
    assert NAMED in text
    assert "The end of rank 7's log  rank7.txt\n" in text.replace(f"{folder}/", "")
    assert "6  2026-11-20 18:45:00 step 3554/9000 loss 2.35" in text
    document_of_it = story_document(story, str)["missing"]
    assert isinstance(document_of_it, dict)
    assert document_of_it["text"] == NAMED
    (folder / "metadata.json").write_text(json.dumps({"run_id": "run-1", "world_size": 16}))
    half = there(reading.story(sources, load("default"), str, [], [], ranks=RankFacts.of_folder(folder, str)))
    assert half.explanation.missing is None, "eight of sixteen logs are here"
