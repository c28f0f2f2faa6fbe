"""Which rank of a distributed training stands out, and that nobody is accused on a guess."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RanksSeen
from lastbeat.watch.decide.ranks import suspects

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
STOOD = NOW - timedelta(minutes=10)
"""When training last got further."""
MIN = 60.0
Rank = tuple[int, Heartbeat]


def rank(
    number: int, age_s: float = 4.0, step: int | None = 50, status: str | None = "running", **more: object
) -> Rank:
    at, host = NOW - timedelta(seconds=age_s), f"host-{16 + number}"
    known = Heartbeat(at, "v", step=step, host=host, status=status, beat_s=10.0)
    return number, replace(known, **more)  # type: ignore[arg-type]


def others(*numbers: int, step: int | None = 50, age_s: float = 4.0) -> tuple[Rank, ...]:
    return tuple(rank(number, age_s, step) for number in numbers)


ROWS = [
    pytest.param((rank(1, 50), *others(0, 2, 3)), "rank 1 on host-17, last step 50, silent for 50s; 3 others wait",
                 id="one that fell silent"),
    pytest.param((rank(1, 50), rank(0)), "rank 1 on host-17, last step 50, silent for 50s; 1 other waits",
                 id="one of two"),
    pytest.param((rank(0), rank(1, step=49), rank(2), rank(3)),
                 "rank 1 on host-17, last step 49; 3 others wait at step 50", id="one that is behind most others"),
    pytest.param((rank(0, step=51), *others(1, 2, 3)), "rank 0 on host-16, last step 51, ahead of 3 others at step 50",
                 id="one that is ahead of all others"),
    pytest.param(others(0, 1, 2, 3), "all 4 ranks beat and stand at step 50", id="nobody stands out"),
    pytest.param((rank(0), rank(1, status="failed"), rank(2)),
                 "rank 1 on host-17, last step 50: it failed; 2 others wait",
                 id="one that says that it failed"),
    pytest.param((rank(1, 50, host=None, step=None), rank(0)), "rank 1, silent for 50s; 1 other waits",
                 id="what is not known is left out"),
    pytest.param((rank(0, 3 * MIN), rank(1, 9 * MIN), rank(2, 3 * MIN)),
                 "rank 1 on host-17, last step 50, fell silent 6m before any other",
                 id="of ranks that are all silent, the first"),
    pytest.param(others(0, 1, 2, age_s=3 * MIN), "all 3 ranks are silent, for 3m at least",
                 id="all fell silent together"),
    pytest.param((rank(0), rank(1, 3 * MIN, status="completed")), None, id="one that is done is not silent"),
    pytest.param((rank(0), rank(1, 100, beat_s=None)), "all 2 ranks beat and stand at step 50",
                 id="one that does not say how often it beats is given the usual time"),
    pytest.param((rank(0, 11 * MIN, step=51, beat_s=600.0), rank(1)), None,
                 id="steps from before training stood still compare nothing"),
    pytest.param((rank(0, step=None), rank(1, step=None)), None, id="no steps are known"),
    pytest.param((rank(0, step=1), rank(1, step=2), rank(2, step=3)), None, id="everybody is elsewhere: pipelines"),
    pytest.param((rank(1, 50),), None, id="a single rank"),
    pytest.param((), None, id="none at all"),
    pytest.param((rank(0), *(rank(n, 50) for n in range(1, 6))),
                 "rank 1 on host-17, last step 50, silent for 50s; rank 2 on host-18, last step 50, silent for 50s; "
                 "rank 3 on host-19, last step 50, silent for 50s; 2 more like these; 1 other waits",
                 id="many are counted"),
]  # fmt: skip


@pytest.mark.parametrize(("ranks", "told"), ROWS)
def test_who_stands_out_of_a_run_that_hangs(ranks: tuple[Rank, ...], told: str | None) -> None:
    assert suspects(RanksSeen(dict(ranks)), NOW, since=STOOD) == told


@pytest.mark.parametrize(
    ("world", "began", "left_out", "told"),
    [
        pytest.param(3, STOOD, 0, "rank 2 of 3 has never beaten", id="one that never came"),
        pytest.param(9, STOOD, 0, "ranks 2, 3, 4 and 4 more of 9 have never beaten", id="many that never came"),
        pytest.param(10**9, STOOD, 0, "ranks 2, 3, 4 and 999999995 more of 1000000000 have never beaten",
                     id="a world that a damaged document makes up costs nothing"),
        pytest.param(3, NOW - timedelta(seconds=30), 0, "all 2 ranks beat and stand at step 50",
                     id="it may still come"),
        pytest.param(3, None, 0, "all 2 ranks beat and stand at step 50", id="nobody knows since when"),
        pytest.param(3, STOOD, 1, "the 2 ranks that were read beat and stand at step 50", id="it was not read"),
    ],
)  # fmt: skip
def test_ranks_that_never_beat(world: int, began: datetime | None, left_out: int, told: str) -> None:
    assert suspects(RanksSeen(dict(others(0, 1)), left_out, world, began), NOW, since=STOOD) == told


@pytest.mark.parametrize(
    ("ranks", "named", "told"),
    [
        pytest.param((rank(1, 50), rank(0)), 1, "rank 1 on host-17, last step 50", id="the one that _error names"),
        pytest.param((rank(1),), 1, "rank 1 on host-17, last step 50", id="even if it alone has beaten"),
        pytest.param((rank(0), rank(1, status="failed")), None, "rank 1 on host-17, last step 50: it failed",
                     id="the one that says so"),
        pytest.param((rank(0), rank(1, 50)), None, None, id="after the end silence says nothing"),
        pytest.param((rank(0), rank(1)), 7, None, id="one that never beat is named by _error alone"),
    ],
)  # fmt: skip
def test_who_stands_out_of_a_run_that_failed(ranks: tuple[Rank, ...], named: int | None, told: str | None) -> None:
    assert suspects(RanksSeen(dict(ranks)), NOW, named=named, over=True) == told


beats = st.builds(
    Heartbeat,
    version=st.just("v"),
    modified=st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc)),  # noqa: DTZ001
    step=st.none() | st.integers(),
    host=st.none() | st.text(max_size=300),
    status=st.none() | st.text(max_size=9) | st.sampled_from(["failed", "running", "completed"]),
    beat_s=st.none() | st.floats(0.001, 10**9),
)


@given(
    st.dictionaries(st.integers(0, 10**7), beats, max_size=40),
    st.integers(0, 10**6),
    st.none() | st.integers(0, 10**12),
    st.booleans(),
)
def test_whatever_was_written_it_is_one_bounded_line(
    ranks: dict[int, Heartbeat],
    left_out: int,
    world: int | None,
    over: bool,
) -> None:
    told = suspects(RanksSeen(ranks, left_out, world, STOOD), NOW, over=over, since=STOOD)
    assert told is None or (len(told) <= 400 and "\n" not in told)
