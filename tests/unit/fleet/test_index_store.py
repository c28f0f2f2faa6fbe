"""The fleet index as it is written, and as others may have left it."""

import json
import logging
import zlib
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from lastbeat.fleet.index import FleetIndex, IndexedRun
from lastbeat.fleet.index_store import FleetIndexStore, decode, encode
from lastbeat.model.fleet import RunLine
from lastbeat.model.status import Status
from support.memory import MemoryStore

KEY = "_watchdog/fleet.json.z"
SINCE = datetime(2026, 1, 1, 11, 0, tzinfo=timezone.utc)
TOLD = ["run-1", "FAILED", "out of memory", "cuda_oom", "Use a smaller batch.", ["stalled"], SINCE.timestamp(), 2]
TIMES = [
    1767268761.0, 1767268762.0, 1767268740.0, None, 1767268741.5, True, False, None, None, None, None, 0, None, 0,
]  # fmt: skip
COUNTS = [1, None, 4, 5, False, None, None, None, False]
FILES = [[1767268700.0, '"e"'], None, [1767268740.0, '"m"'], [1767268741.5, '"p"'], [1767268750.25, '"w"'], None]
DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "cursor": "run-0",
    "pages": 3,
    "listed_at": 1767268760.0,
    "cuts": ["run-1"],
    "unseen": {"run-2": 1767268000.0},
    "runs": [[TOLD, TIMES, FILES, COUNTS]],
    "finished": {"old-1": 1767000000},
    "owners": {},
    "left_out": {},
}
RUN = IndexedRun(
    RunLine("run-1", Status.FAILED, "out of memory", "cuda_oom", "Use a smaller batch.", ("stalled",), SINCE, 2),
    looked_at=1767268761.0,
    seen_at=1767268762.0,
    moved=1767268740.0,
    newest=1767268741.5,
    beating=True,
    files={
        "_error": (1767268700.0, '"e"'),
        "_complete": None,
        "metadata.json": (1767268740.0, '"m"'),
        "progress.json": (1767268741.5, '"p"'),
        "_watchdog.json": (1767268750.25, '"w"'),
        "logs/training_log_latest.txt": None,
    },
    pending=1,
    transitions=4,
    alerts=5,
)
INDEX = FleetIndex(
    runs={"run-1": RUN},
    finished={"old-1": 1767000000},
    cursor="run-0",
    pages=3,
    listed_at=1767268760.0,
    unseen={"run-2": 1767268000.0},
    cuts=("run-1",),
)


def packed(document: object) -> bytes:
    return zlib.compress(json.dumps(document).encode())


def unpacked(body: bytes) -> Any:
    return json.loads(zlib.decompress(body))


def changed(*path: object, to: object) -> dict[str, Any]:
    """The document with another value at ``path``."""
    document = deepcopy(DOCUMENT)
    held: Any = document
    for step in path[:-1]:
        held = held[step]
    held[path[-1]] = to
    return document


def test_what_is_written_is_what_is_read() -> None:
    assert unpacked(encode(INDEX)) == DOCUMENT
    assert decode(packed(DOCUMENT)) == INDEX


def test_an_owner_is_kept_apart() -> None:
    index = replace(INDEX, runs={"run-1": replace(RUN, line=replace(RUN.line, owner="alice"))})
    assert unpacked(encode(index)) == {**DOCUMENT, "owners": {"run-1": "alice"}}
    assert decode(encode(index)).runs["run-1"].line.owner == "alice"


UNKNOWN = [
    pytest.param(changed("new", to={"deep": [1]}), id="a field"),
    pytest.param(changed("runs", 0, to=[*DOCUMENT["runs"][0], ["more"]]), id="a part of a row"),
    pytest.param(changed("runs", 0, 0, to=[*TOLD, "more"]), id="something of a run's line"),
]


@pytest.mark.parametrize("document", UNKNOWN)
def test_what_this_version_does_not_know_is_read_over_and_not_carried_along(document: object) -> None:
    index = decode(packed(document))
    assert index == INDEX
    assert unpacked(encode(index)) == DOCUMENT


def test_a_status_that_a_newer_version_added_stays_as_it_is() -> None:
    document = changed("runs", 0, 0, 1, to="PAUSED")
    index = decode(packed(document))
    assert index.runs["run-1"].line.status.is_foreign
    assert unpacked(encode(index)) == document


DAMAGED = [
    pytest.param(b"no zlib", id="no zlib"),
    pytest.param(packed([]), id="no object"),
    pytest.param(packed(changed("schema", to=2)), id="another schema"),
    pytest.param(packed(changed("runs", 0, 0, 0, to="../etc")), id="a run id that none may have"),
    pytest.param(packed(changed("finished", to={"_watchdog": 1})), id="a finished run with such an id"),
    pytest.param(packed(changed("runs", 0, 0, 6, to=1e300)), id="a time that no calendar has"),
    pytest.param(packed(changed("runs", 0, 2, to=[*FILES, None])), id="a file without a name"),
]


@pytest.mark.parametrize("body", DAMAGED)
def test_an_index_that_cannot_be_used_is_an_empty_one(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.write(KEY, body)
    with caplog.at_level(logging.WARNING):
        assert FleetIndexStore(store).load() == FleetIndex()
    assert "the whole fleet is listed" in caplog.text
    assert len(caplog.text) < 500


def test_a_bomb_is_not_unpacked() -> None:
    store = MemoryStore()
    store.write(KEY, zlib.compress(b" " * 101_000_000))
    assert FleetIndexStore(store).load() == FleetIndex()


def test_what_another_sweep_takes_for_ended_has_not_if_this_one_has_seen_it_since() -> None:
    store = MemoryStore()
    store.put_text(KEY, encode(replace(INDEX, finished={})))
    mine = FleetIndexStore(store)
    index = mine.load()
    before = replace(RUN, line=replace(RUN.line, run_id="run-0"), seen_at=RUN.seen_at - 60)
    ended = {"run-1": 1767000000, "old-1": 1767000000}
    store.put_text(KEY, encode(replace(INDEX, runs={"run-0": before}, finished=ended)))
    mine.refresh()
    assert (set(index.runs), set(index.finished)) == ({"run-0", "run-1"}, {"old-1"})
