"""A line of a log that warns is told once, whoever looks: a loop, `--once`, a Lambda function without a cache."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.laws import examples
from support.world import World

SLOW = "STRAGGLER DETECTION WARNING: GPU 3 is slow\n"
OTHER = "STRAGGLER DETECTION WARNING: GPU 5 is slow\n"
STEPS = "step {} loss 2.0\n"
LONG = 300_000
"""More bytes than a first look reads of a file."""


class Followed:
    """A healthy run with one log. ``w`` is a look of the loop, ``c`` one of a reader that knows no more than the
    record."""

    def __init__(self, before: str = "") -> None:
        self.world = World()
        self.log, self.step = before, 0
        self.print("")
        self.loop = self.world.fresh_watch(state=None)
        self.standing = list[bool]()

    def print(self, text: str) -> None:
        self.step += 1
        self.log += text + STEPS.format(self.step)
        self.world.beat()
        self.world.put("logs/train.log", self.log)

    def looks(self, who: str, every_s: float = 300) -> "Followed":
        for one in who:
            self.world.after(every_s)
            self.print("")
            watch = self.loop if one == "w" else self.world.fresh_watch(state=None)
            record = watch.tick().record
            assert record is not None
            self.standing.append("warning_in_log" in record.conditions)
        return self

    @property
    def told(self) -> int:
        return sum("warning_in_log" in alert.conditions for alert in self.world.channel.sent)


@pytest.mark.parametrize(
    ("who", "before"),
    [
        pytest.param("wc" * 12, "x" * 99 + "\n", id="a loop and --once in turn, over a long log"),
        pytest.param("c" + "w" * 23, "", id="a loop that begins after somebody has looked"),
        pytest.param("w" * 12 + "c" * 12, "", id="a loop, and Lambda when it is no more"),
    ],
)
def test_a_line_is_told_once_and_stands_for_half_an_hour(who: str, before: str) -> None:
    run = Followed(before * (LONG // 100) if before else "")
    run.looks(who[:1])
    run.print(SLOW)
    run.looks(who)
    assert run.told == 1
    assert run.standing == [False] + [True] * 7 + [False] * 17


@settings(max_examples=examples(12), deadline=None)
@given(st.text("wc", min_size=6, max_size=30), st.sampled_from([60, 300, 1500]))
def test_whoever_looks_one_line_raises_one_alert(who: str, every_s: int) -> None:
    run = Followed(SLOW)
    run.looks(who, every_s)
    assert (run.told, run.standing[0]) == (1, True)


@pytest.mark.parametrize("who", ["wc", "cw"])
@pytest.mark.parametrize("then", [pytest.param(OTHER, id="another line"), pytest.param(SLOW, id="the same words")])
def test_a_later_line_is_told_again(who: str, then: str) -> None:
    run = Followed(SLOW)
    run.looks((who * 8)[:9])
    run.print(then)
    run.looks(who)
    assert run.told == 2


def test_a_line_that_a_cold_reader_no_longer_sees_stands_as_long() -> None:
    run = Followed()
    run.looks("w")
    run.print(SLOW)
    run.looks("w")
    run.print(("x" * 99 + "\n") * (LONG // 100))
    run.looks("cwcwcwcwcw")
    assert (run.told, run.standing) == (1, [False, *[True] * 7, *[False] * 4])


def test_lines_beyond_number_are_not_kept() -> None:
    run = Followed()
    for number in range(70):
        run.print(f"STRAGGLER DETECTION WARNING: GPU {number} is slow\n")
        run.looks("w", 20)
    record = run.loop.tick().record
    assert run.told == 1
    assert record is not None
    assert len(record.warned) == 64
