"""Each document that lastbeat keeps, as an earlier build wrote it: it is read, and a rewrite loses nothing of it.

In the files below ``tests/records/documents`` every field has a value, and each mapping has a key of its field's name.
"""

import json
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from lastbeat.fleet import index_store
from lastbeat.fleet.mark import PassMark, ShortPass, parse_mark
from lastbeat.model.codec import codec
from lastbeat.model.group import Ledger
from lastbeat.model.persisted import Persisted
from lastbeat.model.policy import Policy
from lastbeat.model.starts_in_place import StartsInPlace
from lastbeat.stores.port import Blob
from lastbeat.training.exec.in_place.together import encode_starts
from lastbeat.views.named_views import ViewList
from lastbeat.watch.record import fleet_document, routes
from lastbeat.watch.record.agent_mark import AgentMark, agent_mark, mark_key
from lastbeat.watch.record.channels import ChannelList
from lastbeat.watch.record.codec import decode, decode_record, encode
from lastbeat.watch.record.known_failures import FailuresDocument
from lastbeat.watch.record.limits import LimitsDocument
from lastbeat.watch.record.silences import SilenceList
from support.memory import START, MemoryStore
from support.world import World

RECORDS = Path(__file__).parents[2] / "records" / "documents"


def blob(body: bytes) -> Blob:
    return Blob(body, len(body), START, "version")


def of_fleet(kind: type[Persisted]) -> Callable[[bytes], bytes]:
    """Rewrites a document of :mod:`lastbeat.watch.record.fleet_document`."""
    return lambda body: fleet_document.encode(codec(kind).read(fleet_document.parse(blob(body), "key", "{}")))


def starts(body: bytes) -> bytes:
    return encode_starts(codec(StartsInPlace).read(json.loads(body)))


REWRITES: dict[str, Callable[[bytes], bytes]] = {
    "record.json": lambda body: encode(decode_record(body)),
    "groups.json": lambda body: encode(decode(body, Ledger)),
    "silences.json": of_fleet(SilenceList),
    "views.json": of_fleet(ViewList),
    "limits.json": of_fleet(LimitsDocument),
    "channels.json": of_fleet(ChannelList),
    "causes.json": of_fleet(FailuresDocument),
    "routes.json": lambda body: routes.encode(routes.decode(blob(body))),
    "in_place.json": starts,
}
MORE = {
    "record.json": ["history", "outbox"],
    "groups.json": ["outbox"],
}
"""Lists whose entries have a word that a version may not know, their event or status."""


def document_of(file: str) -> Any:
    return json.loads((RECORDS / file).read_bytes())


def rewritten(file: str, document: Any) -> Any:
    return json.loads(REWRITES[file](json.dumps(document).encode()))


def objects(value: Any, name: str = "") -> Iterator[dict[str, Any]]:
    """The objects in ``value`` that are no mappings. ``name`` is that of the field which has it."""
    if isinstance(value, list):
        for each in value:
            yield from objects(each, name)
    if isinstance(value, dict):
        if value and name not in value:
            yield value
        for key, each in list(value.items()):
            yield from objects(each, key)


@pytest.mark.parametrize("file", REWRITES)
def test_it_is_read_and_a_rewrite_loses_nothing(file: str) -> None:
    document = document_of(file)
    assert rewritten(file, document) == document


@pytest.mark.parametrize("file", REWRITES)
def test_a_field_that_this_version_does_not_know_survives_a_rewrite_wherever_it_is(file: str) -> None:
    document = document_of(file)
    for each in list(objects(document)):
        each["weather"] = {"deep": [1, 2.5, None]}
    assert rewritten(file, document) == document


@pytest.mark.parametrize("file", MORE)
def test_an_entry_with_a_word_that_this_version_does_not_know_survives_in_its_place(file: str) -> None:
    document = document_of(file)
    for name in MORE[file]:
        (known,) = document[name]
        new = {**deepcopy(known), "event": "NAPPING", "after": "napping-again"}
        document[name] = [new, known, new]
    assert rewritten(file, document) == document


def test_an_index_is_read() -> None:
    document = document_of("fleet.json")
    index = index_store.decode(zlib.compress(json.dumps(document).encode()))
    after = json.loads(zlib.decompress(index_store.encode(index)))
    assert after == {name: document[name] for name in after}


def test_marks_are_read() -> None:
    store = MemoryStore()
    store.write(mark_key("slurm"), (RECORDS / "agent.json").read_bytes())
    assert agent_mark(store, "slurm") == AgentMark(START, "ana@desk", 60.0)
    last = ShortPass(START, {"LIST": 1, "GET": 4, "PUT": 1, "DELETE": 0}, active=2, runs=7)
    assert parse_mark((RECORDS / "last_pass.json").read_bytes()) == PassMark(START, 60.0, 60.0, (last,))


def test_people_are_not_told_again_of_a_warning_that_stands() -> None:
    world = World()
    for silent in (False, True, True, True, True, True, True):
        world.after(60)
        world.beat(rank_beat_seconds=60.0, world_size=8)
        for number in range(8):
            if number != 3 or not silent:
                world.rank(number)
    world.put("_watchdog.json", (RECORDS / "warned.json").read_text())
    assert set(world.look().conditions) == {"rank_silent"}
    assert world.channel.events == []


@pytest.mark.parametrize(("step", "events"), [(7, []), (8, ["RECOVERED"])], ids=["it beats only", "it steps on"])
def test_a_run_that_was_given_up_stays_so_until_it_steps_on(step: int, events: list[str]) -> None:
    world = World(Policy(stall_s=300.0))
    world.both(7)
    for _ in range(11):
        world.after(60)
        world.beat()
    world.put("_watchdog.json", (RECORDS / "timed_out.json").read_text())
    world.after(60)
    world.beat()
    if step != 7:
        world.progress(step)
    assert world.look().status.value == ("RUNNING" if events else "TIMED_OUT")
    assert world.channel.events == events
