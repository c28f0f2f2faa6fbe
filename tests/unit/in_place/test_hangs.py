"""When a command counts as hanging: by what it prints, and by what training says of itself in the store."""

from typing import NamedTuple

import pytest

from lastbeat.training.exec.in_place.hangs import Hang, HangWatch, SaidOfItself
from lastbeat.training.sdk.sections import SectionLimits

LIMITS = SectionLimits({"step": 60.0, "checkpointing": 600.0}, 300.0, 1800.0)
NONE = SectionLimits()


class Printed(NamedTuple):
    """The last step in the output so far, and its size."""

    step: int | None = None
    bytes_count: int = 0


Look = tuple[float, Printed, SaidOfItself | None]
ASLEEP: Look = (0.0, Printed(), None)
"""Until the next look everything is suspended."""


def printed(at: float, step: int | None = None, bytes_count: int = 0) -> Look:
    """The store shows that training does not report itself."""
    return at, Printed(step, bytes_count), SaidOfItself(at)


def said(at: float, step: int | None = None, late: str | None = None, busy: bool = False) -> Look:
    """Training reports itself, and prints nothing."""
    hangs = None if late is None else Hang(late, 420.0)
    return at, Printed(), SaidOfItself(at, True, hangs, 60.0, busy=busy, step=step)


def silent(at: float, late: str | None) -> Look:
    """Training that reports itself has printed something at 50."""
    return at, Printed(None, 9), SaidOfItself(at, True, None, 0.0, None if late is None else Hang(late, 600.0))


def away(at: float, step: int | None = None, seen_at: float | None = None, own_step: int | None = None) -> Look:
    """The store has been out of reach since ``seen_at``."""
    last = None if seen_at is None else SaidOfItself(seen_at, True, step=own_step)
    return at, Printed(step), last


def hang(limits: SectionLimits, stall_s: float | None, *looks: Look) -> Hang | None:
    """What the last of ``looks`` at a command that began at 0 leads to; those before it have to lead to nothing.
    Between two of them nothing is new, unless nobody looks: ASLEEP."""
    watch, shown, of_itself, before = HangWatch(0.0, limits, stall_s), Printed(), None, 0.0
    for number, look in enumerate(looks):
        if look is ASLEEP:
            continue
        asleep = number > 0 and looks[number - 1] is ASLEEP
        for second in () if asleep else range(int(before) + 1, int(look[0])):
            watch.note(*shown, of_itself, float(second))
        before, shown, of_itself = at, *_ = look
        watch.note(*shown, of_itself, at)
        found = watch.hang(of_itself, at)
        assert found is None or number == len(looks) - 1, f"at {at}: {found}"
    return found


ROWS = [
    pytest.param(LIMITS, None, [printed(50, 1), printed(111, 1)], "step for 1m 01s (limit 1m)", id="a step is late"),
    pytest.param(LIMITS, None, [printed(50, 1), printed(109, 2), printed(168, 2)], None, id="each step begins anew"),
    pytest.param(LIMITS, None, [printed(1799)], None, id="before the first step training loads"),
    pytest.param(LIMITS, None, [printed(1801)], "in no section for 30m 01s (limit 30m)", id="and not for ever"),
    pytest.param(SectionLimits({}, 300.0, 1800.0), None, [printed(10, 1), printed(311, 1)],
                 "in no section for 5m 01s (limit 5m)", id="without a limit for steps, that of no section"),
    pytest.param(LIMITS, None, [said(50, 1), said(500, 1)], None, id="what it says itself counts, and not our clock"),
    pytest.param(LIMITS, None, [said(50, 1), said(500, 1, "rank 3: step for 7m")], "rank 3: step for 7m",
                 id="as it says"),
    pytest.param(LIMITS, None, [away(5000)], None, id="nobody could see yet whether it reports itself"),
    pytest.param(NONE, 60.0, [printed(50, 1), printed(110, 1)], "no new step for 1m (limit 1m)",
                 id="no step for so long"),
    pytest.param(NONE, 60.0, [printed(50, None, 5), printed(109, None, 9), printed(160, None, 9)], None,
                 id="without steps, words count"),
    pytest.param(NONE, 60.0, [printed(50, None, 5), printed(110, None, 5)], "no new output for 1m (limit 1m)",
                 id="no word for so long"),
    pytest.param(NONE, 60.0, [said(50, 1), said(109, 2), said(168, 2)], None, id="steps that only the store shows"),
    pytest.param(NONE, 60.0, [said(50, 1), away(300, None, 50, 1)], None, id="not while the store is out of reach"),
    pytest.param(NONE, 60.0, [said(50, 1), away(300, None, 50, 1), said(301, 9)], None, id="nor right after that"),
    pytest.param(NONE, 60.0, [away(50, 1), away(110, 1)], "no new step for 1m (limit 1m)",
                 id="but what it prints shows that without a store"),
    pytest.param(NONE, 60.0, [said(50, 1), said(100, 1, None, True), said(150, 1)], None,
                 id="a checkpoint in time is no standstill"),
    pytest.param(LIMITS, 60.0, [printed(50, 1), ASLEEP, printed(4000, 1), printed(4050, 1)], None,
                 id="a job that was suspended has not hung"),
    pytest.param(LIMITS, None, [printed(50, 1), ASLEEP, printed(4000, 1), printed(4061, 1)],
                 "step for 1m 01s (limit 1m)", id="and may hang after that"),
    pytest.param(LIMITS, None, [said(50, 1), ASLEEP, said(4000, 1, "rank 3: step for 1h (limit 1m)")], None,
                 id="nor has a rank that was suspended, as it says itself"),
    pytest.param(LIMITS, None, [said(50, 1), ASLEEP, said(4000, 1, "rank 3: step for 1h (limit 1m)"),
                                said(4061, 1, "rank 3: step for 1h (limit 1m)")], "rank 3: step for 1h (limit 1m)",
                 id="unless it says so for its limit's length after that"),
    pytest.param(LIMITS, None, [printed(50, 1), (80.0, Printed(1), SaidOfItself(80.0, step=1)),
                                (111.0, Printed(1), SaidOfItself(111.0, step=1))], "step for 1m 01s (limit 1m)",
                 id="what the store shows later of a step that was printed is no news"),
    pytest.param(LIMITS, None, [silent(50, None), silent(640, "rank 3: step for 10m (limit 1m); it is silent")], None,
                 id="a rank that is silent may be cut off from the store alone"),
    pytest.param(LIMITS, None, [silent(50, None), silent(652, "rank 3: step for 10m (limit 1m); it is silent")],
                 "rank 3: step for 10m (limit 1m); it is silent", id="but not where nothing is printed for as long"),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "stall_s", "looks", "found"), ROWS)
def test_hangs(limits: SectionLimits, stall_s: float | None, looks: list[Look], found: str | None) -> None:
    seen = hang(limits, stall_s, *looks)
    assert (None if seen is None else seen.why) == found


@pytest.mark.parametrize(
    ("limits", "stall_s", "looks", "waited_s"),
    [
        pytest.param(LIMITS, None, [printed(50, 1), printed(111, 1)], 61.0, id="since the last step"),
        pytest.param(LIMITS, None, [printed(1801)], 1801.0, id="since the start"),
        pytest.param(NONE, 60.0, [printed(50, None, 5), printed(110, None, 5)], 60.0, id="since the last word"),
        pytest.param(LIMITS, None, [said(500, 1, "rank 3: step for 7m")], 420.0, id="as training says"),
        pytest.param(
            LIMITS, None, [silent(50, None), silent(652, "rank 3: it is silent")], 600.0, id="of a silent rank"
        ),
    ],
)
def test_for_how_long(limits: SectionLimits, stall_s: float | None, looks: list[Look], waited_s: float) -> None:
    seen = hang(limits, stall_s, *looks)
    assert seen is not None
    assert seen.waited_s == waited_s
