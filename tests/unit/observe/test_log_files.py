"""Which files of a run are logs, whose they are, and which of very many are read."""

from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.stores.port import Entry
from lastbeat.watch.observe.fleet import FleetListing
from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.log_files import choose, is_log, rank_of
from support.memory import MemoryStore

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MAIN = "logs/training_log_latest.txt"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(MAIN, True, id="the main log"),
        pytest.param("logs/rank3.log", True, id="one of a rank"),
        pytest.param("logs/slurm-123.out", True, id="one of Slurm"),
        pytest.param("logs/stderr_3.err", True, id="errors"),
        pytest.param("logs/stacks.txt", False, id="the stacks are no log"),
        pytest.param("logs/attempt_0/0/stderr.log", False, id="deeper in"),
        pytest.param("train.log", False, id="beside the folder"),
        pytest.param("logs2/train.log", False, id="in another folder"),
        pytest.param("logs/events.out.tfevents.1", False, id="of TensorBoard"),
        pytest.param("logs/train.log.gz", False, id="packed"),
        pytest.param("logs/.train.log", False, id="hidden"),
    ],
)
def test_what_is_a_log(name: str, expected: bool) -> None:
    assert is_log(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("logs/rank3.log", 3), ("logs/rank_12.txt", 12), ("rank-007.err", 7), ("train.rank4.log", 4),
        ("node-1_rank9.out", 9), ("stderr_3.log", 3), ("stdout.5.log", 5), ("log_2.txt", 2), ("3.out", 3),
        ("worker-6.log", 6), ("proc_1.err", 1), ("global_rank_8.log", 8), ("RANK2.LOG", 2), ("Rank2.log", 2),
        (MAIN, None), ("slurm-123456.out", None), ("slurm-123_4.out", None), ("20250804.log", None),
        ("local_rank3.log", None), ("frank3.log", None), ("train.log", None), ("rank.log", None),
    ],
)  # fmt: skip
def test_a_name_tells_the_rank(name: str, expected: int | None) -> None:
    assert rank_of(name) == expected


def _entries(ages: dict[str, float]) -> dict[str, Entry]:
    return {name: Entry(f"r/{name}", 1, NOW - timedelta(hours=hours), "v") for name, hours in ages.items()}


def test_of_many_logs_the_main_one_then_those_that_live_then_the_newest_are_read() -> None:
    ages = {f"logs/slurm-{number}.out": 100.0 - number for number in range(90)}
    ages |= {f"logs/rank{number}.log": 0.5 * (number % 2) for number in range(4)}
    ages |= {MAIN: 500.0, "logs/launcher.err": 0.9}
    chosen = list(choose(_entries(ages), 10))
    assert chosen == [
        MAIN,
        "logs/launcher.err",
        *(f"logs/rank{number}.log" for number in range(4)),
        *(f"logs/slurm-{number}.out" for number in (89, 88, 87, 86)),
    ]
    assert choose(_entries(dict(reversed(ages.items()))), 10) == choose(_entries(ages), 10)


def _run(*names: str) -> MemoryStore:
    store = MemoryStore()
    for name in (*names, "_watchdog.json", "metadata.json", "progress.json", MAIN, "logs/stacks.txt"):
        store.put_text(f"run-1/{name}", "x")
    return store


OWN = {"_watchdog.json", "metadata.json", "progress.json", MAIN, "logs/stacks.txt"}


@pytest.mark.parametrize(
    ("others", "logs", "pages"),
    [
        pytest.param([], set(), 1, id="the main log alone"),
        pytest.param([f"checkpoints/{n:06}.pt" for n in range(5000)] + ["logs/rank0.log"], {"logs/rank0.log"}, 2,
                     id="5,000 checkpoints before the logs"),
        pytest.param([f"logz/{n:06}.pt" for n in range(5000)] + ["logs/rank0.log"], {"logs/rank0.log"}, 2,
                     id="5,000 files behind the logs"),
        pytest.param([f"logs/000/{n:06}.bin" for n in range(5000)] + ["logs/rank0.log"], {"logs/rank0.log"}, 2,
                     id="5,000 files in a folder among the logs"),
        pytest.param([f"größe/{n:06}.pt" for n in range(5000)], set(), 2, id="5,000 files in a folder beyond ASCII"),
        pytest.param([f"logs-{n:06}" for n in range(5000)] + ["logs/rank0.log"], {"logs/rank0.log"}, 2,
                     id="files whose names begin as the folder's does"),
    ],
)  # fmt: skip
def test_every_log_is_found_by_few_pages(others: list[str], logs: set[str], pages: int) -> None:
    store = _run(*others)
    assert set(run_files(store, "run-1")) == OWN | logs
    assert len(store.calls) == pages
    listing = FleetListing(store)
    assert {run.run_id: set(run.files) for run in listing} == {"run-1": OWN | logs}
    assert listing.pages == pages
