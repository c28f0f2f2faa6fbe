"""Ranks side by side: which are read, how far behind each is, and which belong to an earlier attempt."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.model.view import RankLine
from lastbeat.stores.port import DeniedError, Entry
from lastbeat.views.judging import Judged
from lastbeat.views.one_run import list_run
from lastbeat.views.ranks import MOST, RankReader, Ranks, choose, compared, standing_out
from lastbeat.views.safe import Safe
from lastbeat.watch.observe.listing import RANK_PAGES
from support.memory import START, MemoryStore

RUN = "run-1"


def store_of(ranks: int, **fields: object) -> MemoryStore:
    store = MemoryStore()
    store.put_text(f"{RUN}/metadata.json", "{}")
    for rank in range(ranks):
        store.put_text(f"{RUN}/ranks/{rank}.json", json.dumps({"rank": rank, "step": rank, **fields}))
    return store


@given(st.lists(st.one_of(st.none(), st.integers(-5, 10**9)), max_size=20))
def test_the_foremost_is_behind_nobody_and_no_other_is_ahead_of_it(steps: list[int | None]) -> None:
    lines = compared([RankLine(rank, START, step=step) for rank, step in enumerate(steps)])
    behind = [line.behind for line in lines]
    known = [each for each in behind if each is not None]
    assert [each is None for each in behind] == [step is None for step in steps]
    assert not known or min(known) == 0
    for line in lines:
        assert line.behind is None or (line.step or 0) + line.behind == max(step for step in steps if step is not None)


@given(st.dictionaries(st.integers(0, 5000), st.integers(0, 600), max_size=60), st.integers(2, 20))
def test_of_too_many_those_that_were_silent_for_longest_are_always_read(ages: dict[int, int], most: int) -> None:
    listed = {rank: Entry(str(rank), 1, START - timedelta(seconds=age), "v") for rank, age in ages.items()}
    chosen = choose(listed, most)
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(most, len(listed))
    oldest = max(ages.values(), default=None)
    assert oldest is None or any(ages[rank] == oldest for rank in chosen)


def test_of_thousands_of_ranks_some_are_read_and_the_rest_is_counted() -> None:
    store = store_of(MOST + 300)
    found = RankReader(store, Safe()).look(list_run(store, RUN).ranks, None, None)
    assert (len(found.lines), found.left_out) == (MOST, 300)
    assert sum(operation == "read" for operation, _ in store.calls) == MOST


def test_a_folder_of_ranks_that_never_ends_is_not_listed_to_its_end() -> None:
    store = store_of(0)
    for rank in range((RANK_PAGES + 2) * 1000):
        store.put_text(f"{RUN}/ranks/{rank}.json", "{}")
    listed = list_run(store, RUN)
    assert listed.more_ranks
    assert sum(operation == "list" for operation, _ in store.calls) <= RANK_PAGES + 2


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("ranks/7.json", True, id="a rank"),
        pytest.param("ranks/07.json", False, id="a number that no rank writes so"),
        pytest.param("ranks/7.error", False, id="the error of a rank"),
        pytest.param("ranks/7.json/8.json", False, id="deeper in"),
        pytest.param("ranks/99999999.json", False, id="a number beyond any training"),
        pytest.param("ranks.json", False, id="a file of that name"),
        pytest.param("ranks-old/7.json", False, id="a folder with nearly that name"),
    ],
)
def test_what_is_a_rank(name: str, counts: bool) -> None:
    store = store_of(0)
    store.put_text(f"{RUN}/{name}", "{}")
    assert list(list_run(store, RUN).ranks) == ([7] if counts else [])


@pytest.mark.parametrize(
    ("fields", "age_s", "counts"),
    [
        pytest.param({"attempt": 2}, 0, True, id="it names this attempt"),
        pytest.param({}, 0, True, id="it names none and is younger than its start"),
        pytest.param({"attempt": 1}, 0, False, id="it names an earlier attempt"),
        pytest.param({"attempt": 2}, 120, False, id="it was written before this attempt began"),
    ],
)
def test_which_ranks_are_of_this_attempt(fields: dict[str, object], age_s: int, counts: bool) -> None:
    store = store_of(0)
    store.put_text(f"{RUN}/ranks/0.json", json.dumps(fields), modified=START - timedelta(seconds=age_s))
    found = RankReader(store, Safe()).look(list_run(store, RUN).ranks, START - timedelta(seconds=60), 2)
    assert bool(found.lines) is counts


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(
            '{"step": 5, "loss": 2.5, "phase": "train", "status": "running", "host": "node-1"}',
            RankLine(0, START, 5, 2.5, "train", "running", "node-1", 0),
            id="all that it tells",
        ),
        pytest.param('{"step": "5", "status": 7, "host": []}', RankLine(0, START, 5, behind=0), id="of odd types"),
        pytest.param("{}", RankLine(0, START), id="nothing"),
        pytest.param("[1]", RankLine(0, START, fault="it is a JSON list where an object belongs"), id="no object"),
    ],
)
def test_what_a_rank_tells(body: str, line: RankLine) -> None:
    store = store_of(0)
    store.put_text(f"{RUN}/ranks/0.json", body)
    assert RankReader(store, Safe()).look(list_run(store, RUN).ranks, None, None).lines == (line,)


def test_a_rank_that_cannot_be_read_any_more_stands_as_it_was_and_says_so() -> None:
    store = store_of(2)
    reader = RankReader(store, Safe())
    reader.look(list_run(store, RUN).ranks, None, None)
    store.put_text(f"{RUN}/ranks/1.json", '{"step": 9}')

    store.refuse("read", DeniedError(f"{RUN}/ranks/1.json is refused"))
    first, second = reader.look(list_run(store, RUN).ranks, None, None).lines
    assert (first.step, first.fault) == (0, None)
    assert (second.step, second.fault) == (1, f"{RUN}/ranks/1.json is refused")


def test_a_rank_whose_thread_died_says_so() -> None:
    store = store_of(1, thread_error="loader: ValueError: shard 7 is torn")
    (line,) = RankReader(store, Safe()).look(list_run(store, RUN).ranks, None, None).lines
    assert line.fault == "a thread of it had ended with an exception: loader: ValueError: shard 7 is torn"


@pytest.mark.parametrize(
    ("status", "conditions", "told"),
    [
        pytest.param(Status.TIMED_OUT, {}, "rank 1 on b, last step 7, silent for 50s; 1 other waits", id="it hangs"),
        pytest.param(Status.RUNNING, {"stalled": "…"}, "rank 1 on b, last step 7, silent for 50s; 1 other waits",
                     id="it may hang"),
        pytest.param(Status.RUNNING, {}, None, id="nobody asks while it runs"),
        pytest.param(Status.SUCCEEDED, {}, None, id="nor after a success"),
    ],
)  # fmt: skip
def test_who_stands_out_is_said_where_people_ask(status: Status, conditions: dict[str, str], told: str | None) -> None:
    lines = (
        RankLine(0, START, step=7, host="a", status="running", beat_s=10.0),
        RankLine(1, START - timedelta(seconds=50), step=7, host="b", status="running", beat_s=10.0),
    )
    assert standing_out(Ranks(lines), Judged(State(status, conditions=conditions)), 2, START) == told
