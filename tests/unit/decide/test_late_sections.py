"""Sections that last too long: by what ranks say themselves, and by the store's clock where they are silent."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from lastbeat.model.heartbeat import Heartbeat, LeftSection, OpenSection
from lastbeat.model.observation import RankFiles, RanksLookedAt, Seen
from lastbeat.model.record import Attempt
from lastbeat.watch.decide.late_sections import late_sections, told_of, when_late

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ATTEMPT = Attempt(2, NOW - timedelta(hours=1), declared=2)
SAVING = OpenSection("checkpointing", 840.0, 420.0)
SAVES = OpenSection("checkpointing", 301.0, 600.0)
SAVED = LeftSection(290.0, 15.0, 600.0)
WAITS = OpenSection(None, 301.0, 300.0)
FINE = OpenSection("step", 3.0, 180.0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def seen(
    metadata: tuple[OpenSection, ...] = (),
    *ranks: tuple[int, Heartbeat],
    age_s: float = 10.0,
    world: int | None = None,
    left: tuple[LeftSection, ...] = (),
) -> Seen:
    beat = Heartbeat(ago(age_s), "v", sections=metadata, left_sections=left, world_size=world, beat_s=30.0)
    return Seen(metadata=beat, ranks=RanksLookedAt(RankFiles(), 245.0, dict(ranks)) if ranks else None)


def with_step(found: Seen, step: int, *, age_s: float) -> Seen:
    return replace(found, progress=Heartbeat(ago(age_s), "v", step=step))


def rank(number: int, *sections: OpenSection, age_s: float = 10.0, **more: Any) -> tuple[int, Heartbeat]:
    known: dict[str, Any] = {"status": "running", "beat_s": 60.0, "attempt": 2, **more}
    return number, Heartbeat(ago(age_s), "v", sections=sections, **known)


ROWS = [
    pytest.param(seen((SAVING,)), "checkpointing for 14m (limit 7m)", id="a run of one process"),
    pytest.param(seen((OpenSection("checkpointing", 840.0, 650.0, 130.0),)),
                 "checkpointing for 14m (usual 2m 10s, limit 10m 50s)", id="a limit that was learned"),
    pytest.param(seen((OpenSection(None, 360.0, 300.0),)), "in no section for 6m (limit 5m)", id="out of all sections"),
    pytest.param(seen((OpenSection("step", 900.0, 600.0), SAVING)), "checkpointing for 14m (limit 7m)",
                 id="of sections within each other the innermost"),
    pytest.param(seen((SAVING, FINE)), "checkpointing for 14m (limit 7m)", id="any open one counts"),
    pytest.param(seen((SAVING,), world=8), "rank 0: checkpointing for 14m (limit 7m)", id="rank 0"),
    pytest.param(seen((), rank(3, SAVING), rank(4, OpenSection("step", 900.0, 420.0)), world=8),
                 "rank 4: step for 15m (limit 7m); 1 other rank, too", id="two ranks"),
    pytest.param(seen((), rank(3, SAVING, step=7), rank(4, OpenSection("step", 900.0, 420.0), step=8),
                      rank(5, OpenSection("step", 901.0, 420.0), step=8), world=8),
                 "rank 3: checkpointing for 14m (limit 7m), behind the others at step 7; 2 other ranks, too",
                 id="the one that the others wait for, where steps tell"),
    pytest.param(seen((), rank(3, SAVING, step=7), rank(4, OpenSection("step", 900.0, 420.0), step=7),
                      rank(5, OpenSection("step", 960.0, 420.0), step=8), world=8),
                 "rank 5: step for 16m (limit 7m); 2 other ranks, too", id="steps that do not tell that"),
    pytest.param(with_step(seen((SAVING,), rank(3, SAVING, step=8), rank(4, SAVING, step=8), world=8), 7, age_s=20.0),
                 "rank 0: checkpointing for 14m (limit 7m), behind the others at step 7; 2 other ranks, too",
                 id="rank 0, which says its step elsewhere"),
    pytest.param(with_step(seen((SAVING,), rank(3, SAVING, step=8), rank(4, SAVING, step=8), world=8), 7, age_s=900.0),
                 "rank 0: checkpointing for 14m (limit 7m); 2 other ranks, too",
                 id="and may have made another one before the wait began"),
    pytest.param(seen((), rank(3, SAVING, status="completed"), world=8), None, id="a rank that is done"),
    pytest.param(seen((), rank(3, SAVING, attempt=1), world=8), None, id="a rank of another attempt"),
    pytest.param(seen((), rank(3, SAVING, age_s=4000.0), world=8), None, id="a file from before the attempt"),
    pytest.param(seen((), rank(9, SAVING), world=8), None, id="a rank of a larger world"),
    pytest.param(seen((FINE,), age_s=100.0), None, id="a beat that is due soon: it may have left it since"),
    pytest.param(seen((FINE,), age_s=210.0), "step for 3m 33s (limit 3m)", id="a stale run, by the store's clock"),
    pytest.param(seen((OpenSection("step", 3.0, 240.0),), age_s=210.0), None,
                 id="a stale run, of which the limit is not over"),
    pytest.param(seen((FINE,), age_s=190.0), None, id="a silent run that is not stale: its store may be out of reach"),
    pytest.param(seen((SAVES,), rank(1, WAITS), world=8), None, id="rank 1 waits in no section while rank 0 saves"),
    pytest.param(seen((SAVES,), rank(1, OpenSection("step", 301.0, 180.0)), world=8), None,
                 id="it waits for that in a step"),
    pytest.param(seen((OpenSection("checkpointing", 301.0, awaited_s=1800.0),), rank(1, WAITS), world=8), None,
                 id="rank 0 saves for the first time, and no limit has been learned yet"),
    pytest.param(seen((OpenSection("checkpointing", 2000.0, awaited_s=1800.0),), rank(1, WAITS), world=8),
                 "rank 1: in no section for 5m 01s (limit 5m)", id="it has waited for that for long enough"),
    pytest.param(seen((OpenSection("checkpointing", 301.0),), rank(1, WAITS), world=8),
                 "rank 1: in no section for 5m 01s (limit 5m)", id="rank 0 may be in there for ever"),
    pytest.param(seen((OpenSection("saving", 60.0, 600.0),), rank(1, OpenSection("step", 900.0, 180.0)), world=8),
                 "rank 1: step for 15m (limit 3m)", id="it hung long before rank 0 began to save"),
    pytest.param(seen((FINE,), rank(1, WAITS, age_s=40.0), left=(SAVED,), world=8), None,
                 id="it said so while rank 0 saved, which has saved since"),
    pytest.param(seen((FINE,), rank(1, OpenSection(None, 330.0, 300.0)), left=(LeftSection(290.0, 25.0, 600.0),),
                      world=8), None, id="its step after that has not taken too long yet"),
    pytest.param(seen((FINE,), rank(1, OpenSection(None, 620.0, 300.0)), left=(LeftSection(290.0, 325.0, 600.0),),
                      world=8), "rank 1: in no section for 10m 20s (limit 5m)", id="it hangs since"),
    pytest.param(seen((FINE,), rank(1, WAITS, age_s=40.0), left=(LeftSection(290.0, 15.0, 200.0),), world=8),
                 "rank 1: in no section for 5m 01s (limit 5m)", id="rank 0 itself took too long for it"),
    pytest.param(
        seen(
            (SAVES,),
            rank(1, OpenSection(None, 900.0, 350.0), age_s=0.0),
            left=(LeftSection(250.0, 310.0, 600.0), LeftSection(200.0, 330.0, 600.0)),
            world=8,
        ),
        None, id="rank 0 evaluated, with a section within another, and then saved"),
    pytest.param(seen((SAVES,), rank(1, OpenSection("loading", 301.0, 300.0)), world=8),
                 "rank 1: loading for 5m 01s (limit 5m)", id="in a section of another name it does not wait"),
    pytest.param(seen((SAVING,), rank(1, WAITS), world=8),
                 "rank 0: checkpointing for 14m (limit 7m); 1 other rank, too", id="rank 0 takes too long itself"),
    pytest.param(seen((OpenSection("saving", 301.0),), rank(1, WAITS), world=8),
                 "rank 1: in no section for 5m 01s (limit 5m)", id="rank 0 in a section without a limit"),
    pytest.param(seen((FINE,), rank(1, WAITS), world=8), "rank 1: in no section for 5m 01s (limit 5m)",
                 id="rank 0 steps, and does not let rank 1 wait"),
    pytest.param(seen((SAVES,), rank(1, WAITS), age_s=130.0, world=8), "rank 1: in no section for 5m 01s (limit 5m)",
                 id="rank 0 is silent: nobody knows what it does"),
    pytest.param(seen((SAVES,), rank(1, FINE, age_s=250.0), world=8), "rank 1: step for 4m 13s (limit 3m)",
                 id="rank 1 is silent, whatever rank 0 does"),
    pytest.param(seen((), rank(3, FINE, age_s=250.0), world=8), "rank 3: step for 4m 13s (limit 3m)",
                 id="a silent rank"),
    pytest.param(seen((), rank(3, FINE, age_s=900.0, beat_s=None), world=8), None,
                 id="of one that does not say how often it beats nobody knows"),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "expected"), ROWS)
def test_who_is_late(shown: Seen, expected: str | None) -> None:
    late = late_sections(shown, ATTEMPT, 125.0, 200.0, NOW)
    assert (told_of(late) if late else None) == expected


def test_nothing_is_concluded_from_a_silence_of_which_nobody_knows_how_long_it_may_be() -> None:
    assert late_sections(seen((FINE,), age_s=5000.0), ATTEMPT, None, 200.0, NOW) == ()


def test_when_a_silent_rank_becomes_late() -> None:
    silent = seen((), rank(3, OpenSection("checkpointing", 10.0, 1200.0), age_s=300.0), world=8)
    assert when_late(silent, ATTEMPT, 125.0, 200.0, NOW) == NOW + timedelta(seconds=890)
    soon = seen((), rank(3, FINE, age_s=300.0), world=8)
    assert when_late(soon, ATTEMPT, 125.0, 600.0, NOW) == NOW + timedelta(seconds=300), "not before it is stale"
    assert when_late(seen((FINE,)), ATTEMPT, 125.0, 200.0, NOW) is None, "who beats says so itself"
    assert when_late(seen((SAVING,), age_s=300.0), ATTEMPT, 125.0, 200.0, NOW) is None, "it is late already"


def test_a_hostile_name_is_one_line_and_bounded() -> None:
    name = "a\n\x1b[31m" + "x" * 10_000
    line = told_of(late_sections(seen((OpenSection(name, 840.0, 420.0),)), ATTEMPT, 125.0, 200.0, NOW))
    assert "\n" not in line
    assert len(line) <= 200
    assert line.endswith("for 14m (limit 7m)")
