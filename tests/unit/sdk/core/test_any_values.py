"""Whatever training hands over: nothing raises into it, and the sentinel is written."""

import json
import logging
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lastbeat
from lastbeat.training.sdk.ranks import rank_of
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run, is_cancelled
from support.hostile import EXCEPTIONS, VALUES, Made, plainly
from support.memory import MemoryStore
from support.reporting import environment
from support.row_by_row import check_each
from support.waiting import until

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=50))
ANYTHING = st.one_of(
    st.sampled_from(sorted(VALUES)).map(Made),
    st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=4),
)
ERROR = st.sampled_from(sorted(EXCEPTIONS)).map(Made)
NAMES = ("total_steps", "phase", "detail", "step", "loss", "learning_rate", "epoch", "tokens", "a", "\ud83d", "resume")
ENDS = ("complete", "fail", "cancel", "raise")


@pytest.fixture(autouse=True)
def _unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of runs begin here, and none of them needs a process beside it."""
    monkeypatch.setenv("LASTBEAT_GUARDIAN", "off")


def strict(body: bytes) -> dict[str, Any]:
    """A document as any reader of JSON takes it."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads(body.decode("utf-8"), parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def value_of(drawn: Any) -> Any:
    return drawn() if isinstance(drawn, Made) else drawn


def end(run: Run, how: str, said: Any, error: BaseException, wait_s: Any) -> None:
    if how == "complete":
        run.complete(said, wait_s=wait_s)
    elif how == "fail":
        run.fail(said, wait_s=wait_s)
    elif how == "cancel":
        run.cancel(said, wait_s=wait_s)
    else:
        run.end_with(error, wait_s=wait_s)


@settings(max_examples=60 if settings().derandomize else 5000)
@given(
    drawn=st.fixed_dictionaries(dict.fromkeys(NAMES, ANYTHING)),
    rank=st.one_of(st.none(), ANYTHING),
    how=st.sampled_from(ENDS),
    said=ANYTHING,
    error=ERROR,
    wait_s=st.sampled_from([0.0, -1, math.nan]),
)
@plainly
def test_whatever_is_said_of_a_run_its_end_is_told(
    drawn: dict[str, Any], rank: Any, how: str, said: Any, error: Made, wait_s: Any
) -> None:
    value = {name: value_of(one) for name, one in drawn.items()}
    store, its_rank = MemoryStore(), rank_of({}, "node", value_of(rank), 1)
    # For the ranks that do not lead: they wait for the one that does.
    store.put_text("r/metadata.json", '{"begun": true}')
    around = environment(store, beat_s=0.001, rank=its_rank, rank_beat_s=0.001, resume=value["resume"])
    run = Run("r", Reporter(lambda: around), value["total_steps"])
    run.set_phase(value["phase"], value["detail"])
    with run.phase(value["detail"], value["phase"]):
        run.step(
            value["step"],
            loss=value["loss"],
            learning_rate=value["learning_rate"],
            epoch=value["epoch"],
            tokens=value["tokens"],
            **{"a": value["a"], "\ud83d": value["\ud83d"]},
        )
    end(run, how, value_of(said), error(), wait_s)
    until(lambda: not run.end_pending)
    assert run.ending is not None
    if its_rank.leads or (run.ending[0] == "_error" and not is_cancelled(run.ending)):
        assert f"r/{run.ending[0]}" in store.held
    for key, held in store.held.items():
        if key.endswith(".json"):
            strict(held.body)


@settings(max_examples=40 if settings().derandomize else 1000)
@given(
    drawn=st.fixed_dictionaries(dict.fromkeys(("total_steps", "rank", "world_size", "resume", "capture"), ANYTHING)),
    root=st.one_of(st.none(), st.sampled_from([name for name in sorted(VALUES) if "text" not in name]).map(Made)),
    log_file=st.sampled_from([name for name in sorted(VALUES) if "text" not in name]).map(Made),
)
@plainly
def test_whatever_a_run_is_begun_with_training_goes_on(
    drawn: dict[str, Any], root: Made | None, log_file: Made
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        place = root() if root is not None else folder
        run = lastbeat.run("r", root=place, log_file=log_file(), **{name: value_of(one) for name, one in drawn.items()})
        run.step(1)
        # Where there is no such place nothing can be written, and there is nothing to wait for.
        run.complete(wait_s=None if root is None else 0.0)
        if root is None:
            assert (Path(folder) / "r" / "_complete").exists() or list(Path(folder).glob("r/ranks/*.json"))


@plainly
def test_a_run_may_be_called_anything(tmp_path: Path) -> None:
    def may_be_its_name(name: str, root: Path) -> None:
        root.mkdir()
        try:
            with lastbeat.run(VALUES[name](), root=root) as run:
                run.step(1)
        except BaseException as error:  # noqa: BLE001 - an exit is no Exception
            pytest.fail(f"{type(error).__name__} comes out: {error}")
        assert type(run.run_id) is str

    rows = enumerate(sorted(VALUES))
    check_each(((name, (name, tmp_path / str(number))) for number, name in rows), may_be_its_name)


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
@plainly
def test_any_exception_leaves_a_block_as_it_came_and_is_told(name: str, tmp_path: Path) -> None:
    error = EXCEPTIONS[name]()
    with pytest.raises(BaseException) as caught, lastbeat.run("r", root=tmp_path) as run:  # noqa: PT011 - it is any
        raise error
    assert caught.value is error
    assert run.ended
    assert {path.name for path in (tmp_path / "r").iterdir()} & {"_error", "_complete"}


def test_total_steps_are_read() -> None:
    store = MemoryStore()
    run = Run("r", Reporter(lambda: environment(store, beat_s=0.01)), " 5e3 ")
    run.step(1)
    assert run.complete()
    assert strict(store.held["r/progress.json"].body)["total_steps"] == 5000


LEFT_OUT = [
    pytest.param("many", "'many' (type str) is not a whole number", id="a text that is no number"),
    pytest.param(float("inf"), "inf (type float) is not a whole number", id="infinity"),
    pytest.param([5], "a value of type list is not a whole number", id="a list"),
    pytest.param(
        10**5000, "a number of thousands of digits (type int) is not a whole number", id="one of 5,000 digits"
    ),
]


@pytest.mark.parametrize(("given_", "why"), LEFT_OUT)
def test_what_is_no_number_is_left_out_with_one_line(given_: Any, why: str, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with caplog.at_level(logging.INFO, logger="lastbeat"):
        run = Run("r", Reporter(lambda: environment(store, beat_s=0.005)), given_)
        run.step(1)
        until(lambda: store.calls.count(("write", "r/metadata.json")) > 3)
        run.step(2)
        assert run.complete()
    assert "total_steps" not in strict(store.held["r/progress.json"].body)
    (line,) = [message for message in caplog.messages if "total_steps" in message]
    assert line.startswith("lastbeat leaves total_steps out: ")
    assert line.endswith(why)


def test_tokens_that_cannot_be_had_at_once_are_said_not_to_be_counted(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with caplog.at_level(logging.INFO, logger="lastbeat"):
        run = Run("r", Reporter(lambda: environment(store, beat_s=0.005)))
        for step in range(3):
            run.step(step, tokens=[512])  # type: ignore[arg-type]  # as users do
        assert run.complete()
    assert caplog.messages == [
        "lastbeat leaves tokens out: a value of type list cannot be counted without waiting for it; give an int"
    ]
