"""The curves of a run as people see them: all attempts, bounded, whatever lies in their files."""

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.view import Point
from lastbeat.stores.port import Blob, Entry
from lastbeat.views.curves import CELLS, FILE_BYTES, CurveReader, CurveRow, CurvesAsked, attempt_of, curves_table
from support.memory import MemoryStore


def rows(*given: tuple[float, float, float]) -> list[CurveRow]:
    return [CurveRow(at, step, value, value, value) for at, step, value in given]


def table(*attempts: dict[str, list[CurveRow]], points: tuple[Point, ...] = (), **asked: Any) -> dict[str, Any]:
    return curves_table(attempts, points, CurvesAsked(**asked))


FIRST = {"loss": rows((1, 10, 3.0), (2, 20, 2.0), (3, 30, 1.0)), "acc": rows((3, 30, 0.5))}
SECOND = {"loss": rows((10, 20, 2.5), (11, 30, 1.5))}


@pytest.mark.parametrize(
    ("asked", "step", "loss"),
    [
        pytest.param({}, [10, 20, 30], [3.0, 2.5, 1.5], id="by step, those that were trained again are the later ones"),
        pytest.param({"by": "at"}, [10, 20, 30, 20, 30], [3.0, 2.0, 1.0, 2.5, 1.5], id="by time, all stand"),
        pytest.param({"window": (15.0, 25.0)}, [20], [2.5], id="a window"),
        pytest.param({"by": "at", "window": (2.5, 10.5)}, [30, 20], [1.0, 2.5], id="a window of time"),
        pytest.param({"only": "acc"}, [], [], id="one curve, of which nothing stands by step"),
    ],
)
def test_attempts_come_together(asked: dict[str, Any], step: list[int], loss: list[float]) -> None:
    found = table(FIRST, SECOND, **asked)
    assert (found["step"], found["loss"]) == (step, loss)


def test_what_stands_at_one_place_stands_in_one_row() -> None:
    found = table(FIRST, by="at")
    assert (found["metrics"], found["least"]) == ({"acc": [None, None, 0.5]}, {})
    assert (found["first"], found["last"]) == (1, 3)


def test_a_row_for_many_has_their_mean_and_a_band_and_shows_what_is_no_number() -> None:
    values = [float(step % 10) for step in range(CELLS * 100)]
    values[777] = float("nan")
    found = table({"loss": rows(*((float(step), step, value) for step, value in enumerate(values)))})
    assert len(found["step"]) == CELLS
    assert found["loss"][0] == pytest.approx(4.5)
    assert (found["least"]["loss"][0], found["greatest"]["loss"][0]) == (0, 9)
    assert (found["loss"][7], found["least"]["loss"][7]) == ("NaN", 0)
    closer = table(
        {"loss": rows(*((float(step), step, value) for step, value in enumerate(values)))}, window=(0.0, 50.0)
    )
    assert closer["loss"][:3] == [0, 1, 2], "zoom brings the finer points"


def test_the_points_of_the_heartbeat_stand_behind_what_is_kept() -> None:
    points = tuple(
        Point(datetime.fromtimestamp(at, timezone.utc), step, loss, metrics={"acc": 0.75})
        for at, step, loss in ((2, 20, 9.0), (4, 40, 0.5))
    )
    found = table(FIRST, points=points)
    assert (found["step"], found["loss"]) == ([10, 20, 30, 40], [3.0, 2.0, 1.0, 0.5])
    assert found["metrics"]["acc"] == [None, None, 0.5, 0.75]
    assert table(points=points)["loss"] == [9.0, 0.5], "where nothing is kept they are all there is"


@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 1e11), st.integers(-(10**15), 10**15), st.floats()), max_size=20), max_size=4
    ),
    st.sampled_from(["step", "at"]),
    st.none() | st.tuples(st.floats(-1e15, 0), st.floats(1, 1e15)),
)
def test_the_law_of_tables(attempts: list[Any], by: Any, window: Any) -> None:
    found = table(*({"loss": sorted(rows(*each))} for each in attempts), by=by, window=window)
    assert len(found["at"]) == len(found["step"]) == len(found["loss"]) == len(found["steps_per_s"]) <= CELLS
    assert found[by] == sorted(found[by])
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("body", "loss"),
    [
        pytest.param(
            f'{{"curves": {{"loss": [[1.5, 10, 2.5, 2.5, {10**400}], [1.5, {10**400}, 2.5], [2.5, 10, 3.5, 3, 4]]}}}}',
            [(1.5, 10, 2.5, 2.5, 2.5), (2.5, 10, 3.5, 3.0, 4.0)],
            id="numbers beyond all bounds",
        ),
        pytest.param('{"curves": {"loss": [[1, 10, 2.5, 2, 3]]}}', [(1, 10, 2.5, 2, 3)], id="a row of five"),
        pytest.param('{"curves": {"loss": [[1, 10, 2.5, null, 3]]}}', [(1, 10, 2.5, 2.5, 2.5)], id="half a band"),
        pytest.param('{"curves": {"loss": [1, [], [1], ["a", 1, 2], [1e300, 1, 2], [1, 2, {}]]}}', None, id="no rows"),
        pytest.param('{"curves": {"loss": [[1, 10', None, id="cut short"),
        pytest.param("[" * 100_000, None, id="deeper than a parser goes"),
        pytest.param("", None, id="an empty file"),
        pytest.param('{"curves": {"loss": [[1, 10, 2]]}}' + " " * FILE_BYTES, None, id="too large a file"),
    ],
)
def test_what_a_file_may_hold(body: str, loss: list[tuple[float, ...]] | None) -> None:
    store = MemoryStore()
    store.write("r/curves/1.json", body.encode())
    read = CurveReader(store).read({1: store.list("r/").entries[0]})
    assert [list(map(tuple, each["loss"])) for each in read] == ([] if loss is None else [loss])


def test_names_are_clean_and_curves_few() -> None:
    store = MemoryStore()
    token = f"hf_{'a' * 34}"
    named = {f"a\n{token}": [[1, 1, 1]], **{str(number): [[1, 1, 1]] for number in range(100)}}
    store.write("r/curves/1.json", json.dumps({"curves": named}).encode())
    (read,) = CurveReader(store).read({1: store.list("r/").entries[0]})
    assert len(read) == 20
    assert not any("\n" in name or token in name for name in read)


def test_eight_attempts_are_read_each_only_when_it_was_written() -> None:
    reads: list[str] = []

    class Counting(MemoryStore):
        def read(self, key: str, limit_bytes: int, **more: Any) -> Blob | None:
            reads.append(key)
            return super().read(key, limit_bytes, **more)

    store = Counting()
    for attempt in range(1, 11):
        store.write(f"r/curves/{attempt}.json", json.dumps({"curves": {"loss": [[attempt, attempt, 1]]}}).encode())

    def files() -> dict[int, Entry]:
        return {attempt_of(entry.key[2:]) or 0: entry for entry in store.list("r/").entries}

    reader = CurveReader(store)
    assert [each["loss"][0].at for each in reader.read(files())] == list(range(3, 11))
    reads.clear()
    store.write("r/curves/10.json", b"{}")
    assert len(reader.read(files())) == 7
    assert reads == ["r/curves/10.json"]


def test_old_attempts_are_left_out_where_all_are_too_large() -> None:
    store = MemoryStore()
    for attempt in (1, 2, 3):
        body = json.dumps({"curves": {"loss": [[attempt, attempt, 1]]}}) + " " * (FILE_BYTES // 2)
        store.write(f"r/curves/{attempt}.json", body.encode())
    files = {attempt_of(entry.key[2:]) or 0: entry for entry in store.list("r/").entries}
    assert [each["loss"][0].at for each in CurveReader(store).read(files)] == [2, 3]
