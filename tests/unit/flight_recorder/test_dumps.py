"""One rank's dump, in each version and form, whole or not."""

import json
import pickle
from io import BytesIO
from typing import Any

import pytest

from lastbeat.explain.flight_recorder.dump import ProcessGroup, if_dump, read_dump
from lastbeat.explain.flight_recorder.matching import stuck_collective
from lastbeat.explain.flight_recorder.plain_pickle import RefusedDumpError
from support.flight_dumps import WORLD, Step, document, pickled, read, run
from support.row_by_row import check_each
from support.there import there

GROUPS = {WORLD: range(3), "1": (0, 1)}
STEPS = [Step(), Step("1", "broadcast", line=20), Step(line=30)]
MADE = run({0: STEPS, 1: STEPS, 2: [Step()]}, GROUPS)


def as_json(found: Any) -> bytes:
    return json.dumps(found).encode()


FORMS = {f"version 2.{minor}": (document(MADE[0], GROUPS, 0, f"2.{minor}"),) for minor in range(1, 11)}


def test_every_version_says_what_the_rank_waits_in() -> None:
    check_each(FORMS.items(), shows_the_wait)


def shows_the_wait(found: dict[str, Any]) -> None:
    for data in (pickled(found), pickled(found, 5), as_json(found)):
        dump = read(data)
        calls = {
            group.name: (group.ranks, [(call.seq, call.name, call.done) for call in each])
            for group, each in dump.calls.items()
        }
        assert calls == {
            WORLD: ((0, 1, 2), [(1, "all_reduce", True), (2, "all_reduce", False)]),
            "1": ((0, 1), [(1, "broadcast", True)]),
        }
        assert there(dump.last)[1].frame == "train.py:30 in step"
        assert there(dump.last)[1].sizes == "[4096] → [4096]"


def test_gloo_records_no_members_and_forgets_a_call_once_it_has_ended() -> None:
    found = document(MADE[0], GROUPS, 0)
    found["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
    for entry in found["entries"]:
        entry |= {"profiling_name": entry["profiling_name"].replace("nccl", "gloo"), "state": "scheduled"}
        entry |= {"time_discovered_started_ns": None, "time_discovered_completed_ns": None}
    dump = read(pickled(found))
    assert [call.done for call in dump.calls[ProcessGroup(WORLD, "default_pg", ())]] == [True, False]


def test_parts_of_a_coalesced_call_are_one() -> None:
    found = document(MADE[0], GROUPS, 0)
    last = found["entries"][-1]
    found["entries"] += [last | {"op_id": 9, "state": "completed"}, last | {"profiling_name": "nccl:coalesced"}]
    calls = next(calls for group, calls in read(pickled(found)).calls.items() if group.name == WORLD)
    assert [(call.seq, call.name, call.done) for call in calls] == [(1, "all_reduce", True), (2, "all_reduce", False)]


def test_a_group_that_is_made_again_counts_from_its_new_beginning() -> None:
    found = document(MADE[0], GROUPS, 0)
    first = found["entries"][0]
    found["entries"] += [first | {"collective_seq_id": 1, "profiling_name": "nccl:barrier"}]
    calls = next(calls for group, calls in read(pickled(found)).calls.items() if group.name == WORLD)
    assert [(call.seq, call.name) for call in calls] == [(1, "barrier")]


def many(count: int) -> dict[str, Any]:
    """A dump whose last call has not ended."""
    groups = {WORLD: (0,)}
    return document([(Step(line=each % 7), each + 1, each, each < count - 1) for each in range(count)], groups, 0)


def test_the_latest_calls_of_a_long_dump_are_kept_in_either_form() -> None:
    count = 6_000
    for data in (pickled(many(count)), pickled(many(count), 4), as_json(many(count))):
        dump = read(data, keep=100)
        (calls,) = dump.calls.values()
        assert (len(calls), calls[-1].seq, calls[-1].done, dump.fault) == (100, count, False, "")
        assert there(dump.last)[1].frame == f"train.py:{(count - 1) % 7} in step"


CUT = {
    "a pickle": (pickled(many(50)),),
    "JSON": (as_json({"pg_config": many(1)["pg_config"], **many(50)}),),
}


def test_a_dump_that_was_cut_off_serves_as_far_as_it_goes() -> None:
    check_each(CUT.items(), serves)


def serves(data: bytes) -> None:
    dump = read(data[: len(data) * 2 // 3])
    assert "cut off" in dump.fault
    (group,) = dump.calls
    assert group.ranks == (0,)
    assert 10 < len(dump.calls[group]) < 50


HOSTILE = {
    "texts in place of numbers": ({"collective_seq_id": "7", "time_created_ns": "now", "timeout_ms": [], "state": 3},),
    "numbers beyond all measure": ({"collective_seq_id": 2**100, "time_created_ns": -5},),
    "sizes that are none": ({"input_sizes": {"a": 1}, "output_sizes": [[[[[]]]], None, "x" * 10_000]},),
    "frames that are none": ({"frames": [None, 7, {"filename": 3}, {"filename": "x" * 10**6, "name": "y" * 10**6}]},),
    "a group that is none": ({"process_group": [[], {}], "pg_name": None},),
    "no fields": ({},),
}


def test_whatever_stands_in_an_entry_is_read() -> None:
    check_each(HOSTILE.items(), is_read)


def is_read(entry: dict[str, Any]) -> None:
    entries = [{"profiling_name": "nccl:x", **entry}]
    damaged = pickled({"entries": entries, "pg_config": 5}, 4)
    for data in (damaged, as_json({"entries": entries, "pg_config": {"": {"ranks": [-1, "a"]}}})):
        dump = read(data)
        (call,) = there(next(iter(dump.calls.values())))
        assert len(call.sizes) < 600
        assert len(call.frame) < 300
        stuck_collective({0: dump})


BROKEN_JSON = {
    "no JSON": (b'{"entries": [', "cut off"),
    "nested too deep": (b'{"entries": ' + b"[" * 200_000, "cut off|nested|no JSON"),
    "a list": (b'["entries"]', "no JSON"),
    "a value that never ends": (b'{"pg_config": "' + b"x" * (20 << 20), "no JSON, or cut off"),
}


def test_json_that_is_no_dump_is_refused() -> None:
    check_each(BROKEN_JSON.items(), is_refused)


def is_refused(data: bytes, why: str) -> None:
    with pytest.raises(RefusedDumpError, match=why):
        read_dump(BytesIO(data).read, lambda: False)


NO_DUMPS = {
    "a pickle of something else": (pickle.dumps({"weights": [1, 2]}),),
    "a heartbeat": (b'{"rank": 3, "host": "h100-3", "step": 7}',),
    "a log": (b"step 1 loss 2.5\n",),
    "a log of JSON lines that speaks of entries": (b'{"level": "info", "message": "12 entries loaded"}\n',),
    "a log of JSON lines with NCCL's version": (b'{"message": "started", "nccl_version": "2.27.3"}\n',),
    "nothing": (b"",),
}


def test_other_files_are_told_by_their_first_bytes() -> None:
    check_each(NO_DUMPS.items(), is_none)
    assert if_dump(BytesIO(pickled(many(1))).read) is not None


def is_none(data: bytes) -> None:
    assert if_dump(BytesIO(data).read) is None
