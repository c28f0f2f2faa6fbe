"""Several ranks of one training report to one store: who writes what."""

import json
import time
from pathlib import Path

import pytest

import lastbeat
from lastbeat.stores.port import UnreachableError
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.threads import ThreadError
from support.memory import MemoryStore
from support.reporting import document, environment, ranked
from support.waiting import until


def text(store: MemoryStore, name: str) -> str:
    return store.held[f"r/{name}"].body.decode()


def begun(store: MemoryStore) -> bool:
    return document(store, "metadata.json").get("begun") is True


class Frequent(BeatTask):
    """Has something to do every 50 ms."""

    done = 0
    wait_s = 0.05

    def follow(self, beat: Beat) -> None:
        del beat
        self.done += 1


def test_a_task_of_another_rank_has_its_turn_as_often_as_it_asks_however_rarely_the_rank_beats() -> None:
    task = Frequent()
    rank = Rank(4, 8, 0, "node-1")
    around = environment(MemoryStore(), beat_s=0.1, rank=rank, rank_beat_s=0.0, tasks=[task])
    run = Run("r", Reporter(lambda: around), 100)
    until(lambda: task.done > 3)
    run.complete()


def test_every_rank_writes_a_heartbeat_and_rank_0_the_documents() -> None:
    store = MemoryStore()
    runs = [ranked(store, number, 4) for number in range(4)]
    for number, run in enumerate(runs):
        run.step(10 + number, loss=0.5)
        run.set_phase("train")
    until(lambda: all(document(store, f"ranks/{number}.json").get("attempt") == 1 for number in range(4)))
    until(lambda: all(document(store, f"ranks/{number}.json").get("step") == 10 + number for number in range(4)))
    for run in reversed(runs):
        assert run.complete()
    assert sorted(store.held) == [
        "r/_complete",
        "r/metadata.json",
        "r/progress.json",
        *(f"r/ranks/{number}.json" for number in range(4)),
    ]
    assert document(store, "progress.json")["step"] == 10
    assert document(store, "metadata.json")["world_size"] == 4
    rank_3 = document(store, "ranks/3.json")
    assert (rank_3["status"], rank_3["step"], rank_3["host"], rank_3["local_rank"]) == ("completed", 13, "node-1", 1)


def test_every_rank_tells_what_ended_one_of_its_threads() -> None:
    store = MemoryStore()
    runs = [ranked(store, number) for number in range(2)]
    for run in runs:
        run.thread_died(ThreadError("loader: ValueError: bad", "Thread loader …"))
        run.thread_died(ThreadError("other: KeyError", "Thread other …"))
    until(lambda: all(f"r/ranks/{number}.json" in store.held for number in range(2)))
    for run in reversed(runs):
        assert run.complete()
    for name in ("metadata.json", "ranks/0.json", "ranks/1.json"):
        assert document(store, name)["thread_error"] == "loader: ValueError: bad"


def test_a_clean_end_of_another_rank_is_not_the_end_of_the_run() -> None:
    store = MemoryStore()
    lead, other = ranked(store, 0, 4), ranked(store, 1, 4)
    until(lambda: begun(store))
    assert other.complete()
    assert document(store, "ranks/1.json")["status"] == "completed"
    assert "r/_complete" not in store.held
    assert lead.complete()
    assert "r/_complete" in store.held


def test_the_first_error_is_the_runs_and_later_ones_are_kept() -> None:
    store = MemoryStore()
    runs = [ranked(store, number, 4) for number in range(4)]
    until(lambda: begun(store))
    assert runs[2].fail(ValueError("bad batch"))
    assert runs[3].fail(ConnectionError("peer closed"))
    assert runs[0].fail(ConnectionError("peer closed, too"))
    runs[1].complete()
    first, second, *_ = text(store, "_error").split("\n")
    assert first == "ValueError: bad batch"
    assert second.startswith("rank 2 of 4 on node-1, local rank 0, process ")
    assert text(store, "ranks/3.error").startswith("ConnectionError: peer closed\nrank 3 of 4 on node-1")
    assert text(store, "ranks/0.error").startswith("ConnectionError: peer closed, too\nrank 0 of 4 on node-0")
    assert "r/ranks/2.error" not in store.held
    assert document(store, "ranks/2.json")["status"] == "failed"


def test_a_rank_that_is_stopped_is_no_cause() -> None:
    store = MemoryStore()
    lead, other = ranked(store, 0, 4), ranked(store, 1, 4)
    until(lambda: begun(store))
    assert other.cancel("received signal 15 (SIGTERM)")
    assert document(store, "ranks/1.json")["status"] == "cancelled"
    assert not {"r/_error", "r/ranks/1.error"} & set(store.held)
    lead.complete()


def test_errors_of_an_earlier_attempt_are_gone() -> None:
    store = MemoryStore()
    for name in ("_error", "_complete", "ranks/1.error"):
        store.put_text(f"r/{name}", "OSError: last time\n")
    store.pass_time(60)
    lead, other = ranked(store, 0, 4), ranked(store, 1, 4)
    until(lambda: begun(store) and "r/ranks/1.json" in store.held)
    assert not {"r/_error", "r/_complete", "r/ranks/1.error"} & set(store.held)
    other.complete()
    lead.complete()


def test_without_rank_heartbeats_errors_are_told_all_the_same() -> None:
    store = MemoryStore()
    lead, other = ranked(store, 0, 4, every_s=0.0), ranked(store, 1, 4, every_s=0.0)
    until(lambda: begun(store))
    assert other.fail("out of luck")
    assert text(store, "_error").startswith("out of luck\nrank 1 of 4")
    lead.complete()
    assert not [key for key in store.held if key.startswith("r/ranks/")]


def test_a_world_of_one_writes_nothing_of_ranks() -> None:
    store = MemoryStore()
    run = ranked(store, 0, 1)
    until(lambda: "r/metadata.json" in store.held)
    run.fail("out of luck")
    assert text(store, "_error") == "out of luck"
    assert not {"world_size", "begun"} & set(document(store, "metadata.json"))
    assert sorted(store.held) == ["r/_error", "r/metadata.json"]


def test_other_ranks_keep_quiet_between_their_beats() -> None:
    store = MemoryStore()
    run = ranked(store, 3, 4, every_s=3600.0)
    run.step(1)
    time.sleep(0.3)
    assert store.calls == []
    assert run.complete()
    assert [call for call in store.calls if call[0] != "read"] == [("write", "r/ranks/3.json")]


@pytest.mark.parametrize(
    ("environ", "chosen"),
    [
        pytest.param({"RANK": "1", "WORLD_SIZE": "2"}, {}, id="the launcher's environment"),
        pytest.param({"RANK": "0", "WORLD_SIZE": "1"}, {"rank": 1, "world_size": 2}, id="its own arguments, which win"),
    ],
)
def test_a_script_is_a_rank_by(
    environ: dict[str, str], chosen: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environ, "LASTBEAT_BEAT_SECONDS": "ranks:0.1"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "r"
    with lastbeat.run("r", root=str(tmp_path), rank=chosen.get("rank"), world_size=chosen.get("world_size")) as run:
        run.step(3, loss=0.5)
        until((folder / "ranks" / "1.json").exists)
    told = json.loads((folder / "ranks" / "1.json").read_text(encoding="utf-8"))
    assert (told["rank"], told["world_size"], told["status"], told["step"]) == (1, 2, "completed", 3)
    assert told["host"]
    assert sorted(path.name for path in folder.rglob("*") if path.is_file() and "lock" not in path.name) == ["1.json"]


def test_an_error_that_cannot_be_told_at_once_is_told_when_the_store_is_back() -> None:
    store = MemoryStore()
    lead = ranked(store, 0, 4)
    until(lambda: begun(store))
    other = ranked(store, 1, 4, every_s=0.0)

    store.refuse("write", UnreachableError("no answer"), key="r/_error")
    assert not other.fail("out of luck", wait_s=0.2)
    store.before = lambda _operation, _key: None
    until(lambda: "r/_error" in store.held)
    assert text(store, "_error").startswith("out of luck\nrank 1 of 4")
    lead.complete()
