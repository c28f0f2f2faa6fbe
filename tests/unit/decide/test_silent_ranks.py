"""Which ranks fell silent while others beat: who is named, and who is not."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.observation import RankFiles, RanksLookedAt, Seen
from lastbeat.model.record import Attempt
from lastbeat.watch.decide.silent_ranks import limit_of, seeming_silent, silent_ranks

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
LIMIT_S = 245.0
BEGAN = NOW - timedelta(hours=1)
ATTEMPT = Attempt(2, BEGAN, declared=2)
Rank = tuple[int, Heartbeat]


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def said(
    ages: dict[int, float],
    read: tuple[Rank, ...],
    *,
    world: int | None = 128,
    metadata_s: float | None = 10.0,
    attempt: Attempt = ATTEMPT,
) -> str | None:
    metadata = None if metadata_s is None else Heartbeat(ago(metadata_s), "v", world_size=world, rank_beat_s=60.0)
    looked = RanksLookedAt(RankFiles({rank: ago(age) for rank, age in ages.items()}), LIMIT_S, dict(read))
    return silent_ranks(Seen(metadata=metadata, ranks=looked), attempt, NOW)


def rank(
    number: int, age_s: float, status: str | None = "running", attempt: int | None = 2, beat_s: float = 60.0
) -> Rank:
    host = f"host-{14 + number}"
    beat = Heartbeat(ago(age_s), "v", step=50, host=host, status=status, beat_s=beat_s, attempt=attempt)
    return number, beat


FRESH = dict.fromkeys(range(128), 20.0)

ROWS = [
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 250.0),), {}, "rank 3 on host-17 silent for 4m 10s, 127 others alive",
                 id="one of 128"),
    pytest.param({0: 20.0, 1: 250.0}, (rank(1, 250.0),), {"world": 2},
                 "rank 1 on host-15 silent for 4m 10s, 1 other alive", id="one of two"),
    pytest.param({**FRESH, 3: 900.0, 4: 300.0}, (rank(4, 300.0), rank(3, 900.0)), {},
                 "rank 3 on host-17, rank 4 on host-18 silent for 5m at least, 126 others alive", id="two of a node"),
    pytest.param({**FRESH, **dict.fromkeys(range(1, 6), 300.0)}, tuple(rank(n, 300.0) for n in range(1, 6)), {},
                 "rank 1 on host-15, rank 2 on host-16, rank 3 on host-17 and 2 more silent for 5m at least, "
                 "123 others alive", id="many"),
    pytest.param({**FRESH, 0: 250.0}, (rank(0, 250.0),), {"metadata_s": 250.0},
                 "rank 0 on host-14 silent for 4m 10s, 127 others alive", id="rank 0, while the others beat"),
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 250.0, "completed"),), {}, None, id="one that is done"),
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 250.0, "failed"),), {}, None, id="one that has told its error"),
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 250.0, attempt=1),), {}, None, id="a file of the last attempt"),
    pytest.param({**FRESH, 3: 4000.0}, (rank(3, 4000.0, attempt=None),), {}, None,
                 id="a file from before this attempt"),
    pytest.param({**FRESH, 200: 250.0}, (rank(200, 250.0),), {}, None, id="a rank of a larger world"),
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 250.0, beat_s=600.0),), {}, None, id="one that beats seldom"),
    pytest.param({**FRESH, 3: 250.0}, (rank(3, 20.0),), {}, None, id="one that beat between listing and reading"),
    pytest.param({**FRESH, 3: 250.0}, (), {}, None, id="one of which nothing could be read"),
    pytest.param(dict.fromkeys(range(4), 250.0), tuple(rank(n, 250.0) for n in range(4)), {}, None,
                 id="all are silent: so is the run"),
    pytest.param({0: 300.0, 1: 300.0, 2: 300.0, 3: 5.0}, tuple(rank(n, 300.0, attempt=None) for n in range(3)),
                 {"metadata_s": 300.0}, None, id="a restart of which rank 0 has not told yet"),
]  # fmt: skip


@pytest.mark.parametrize(("ages", "read", "more", "expected"), ROWS)
def test_who_is_named(
    ages: dict[int, float], read: tuple[Rank, ...], more: dict[str, Any], expected: str | None
) -> None:
    assert said(ages, read, **more) == expected


def test_nothing_is_said_of_ranks_that_nobody_looked_at() -> None:
    assert silent_ranks(Seen(metadata=Heartbeat(NOW, "v", world_size=4)), ATTEMPT, NOW) is None


def test_names_of_hosts_are_one_line_and_bounded() -> None:
    hostile = 3, Heartbeat(ago(250), "v", host="host\n\x1b[31m" + "x" * 10_000, status="running", beat_s=60.0)
    line = said({0: 5.0, 3: 250.0}, (hostile,))
    assert line is not None
    assert "\n" not in line
    assert len(line) <= 300
    assert "1 other alive" in line


LIMITS = [
    pytest.param(Heartbeat(NOW, "v", rank_beat_s=60.0, stale_s=30.0), 245.0, id="four of the beats that it states"),
    pytest.param(Heartbeat(NOW, "v", stale_s=900.0), 900.0, id="else its own limit for silence"),
    pytest.param(Heartbeat(NOW, "v"), 600.0, id="else the watcher's"),
    pytest.param(None, 600.0, id="nothing is known of it"),
]


@pytest.mark.parametrize(("metadata", "expected"), LIMITS)
def test_when_a_rank_is_silent(metadata: Heartbeat | None, expected: float) -> None:
    assert limit_of(metadata, 600.0) == expected


@given(st.dictionaries(st.integers(0, 300), st.floats(0, 1000), max_size=40))
def test_only_old_files_seem_silent_and_only_where_another_is_young(ages: dict[int, float]) -> None:
    found = seeming_silent(RankFiles({rank: ago(age) for rank, age in ages.items()}), NOW, LIMIT_S)
    old = sorted(rank for rank, age in ages.items() if (NOW - ago(age)).total_seconds() > LIMIT_S)
    assert list(found) == (old if len(old) < len(ages) else [])
