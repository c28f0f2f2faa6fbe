"""A run that ends well with a loss that is no number is a success that people look at."""

from collections.abc import Callable

import pytest

from support.world import World

Act = Callable[[World], object]
complete = World.complete
GOOD = "Training completed (_complete found)"
BUT = f"{GOOD}, but the loss is NaN since step 120"


def progress(step: int, loss: object, points: list[tuple[object, object]] | None = None) -> Act:
    recent = [[1754327841.0, at, value, None] for at, value in points or []]
    return lambda s: (s.beat(), s.progress(step, loss=loss, recent=recent))


def printed(*lines: str) -> Act:
    return lambda s: (s.beat(), s.log("".join(f"{line}\n" for line in lines)))


def gone(world: World) -> None:
    world.delete("progress.json")


@pytest.mark.parametrize(
    ("acts", "reason"),
    [
        pytest.param([progress(119, 2.0), progress(120, "NaN"), progress(500, "NaN"), complete], BUT,
                     id="it went NaN while somebody looked"),
        pytest.param([progress(119, 2.0), lambda s: (progress(500, "NaN", [(119, 2.0), (120, "NaN"), (400, "NaN")])(s),
                                                     complete(s))], BUT,
                     id="it went NaN and ended between two looks"),
        pytest.param([progress(120, "NaN"), lambda s: (complete(s), gone(s))], BUT,
                     id="that its progress.json is tidied up does not mend it"),
        pytest.param([progress(120, "NaN"), complete, gone], BUT, id="nor later"),
        pytest.param([progress(120, "NaN"), progress(500, 2.0), complete], GOOD, id="a loss that recovered is none"),
        pytest.param([progress(500, "Infinity"), complete], f"{GOOD}, but the loss is infinite since step 500",
                     id="infinity is no better"),
        pytest.param([progress(500, 2.0), complete], GOOD, id="a number is a plain success"),
        pytest.param([progress(500, "NaN", [(1, None), ("x", "NaN")]), complete],
                     f"{GOOD}, but the loss is NaN since step 500", id="points that are none are no evidence"),
        pytest.param([printed("step 119 loss 2.0", "step 120 loss nan", "step 500 loss nan"), complete], BUT,
                     id="a log says since when, too"),
        pytest.param([printed("step 3 loss nan", "step 4 loss 2.0", "step 120 loss nan", "step 121 loss inf"),
                      complete], f"{GOOD}, but the loss is infinite since step 120",
                     id="and counts from when it was last a number"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_nan_at_the_end(acts: list[Act], reason: str, restarted: bool) -> None:
    world = World()
    for act in acts:
        world.after(60)
        act(world)
        outcome = world.look(restarted=restarted)
    assert (outcome.status.value, outcome.reason) == ("SUCCEEDED", reason)
    assert set(outcome.conditions) == ({"loss_nan"} if "but" in reason else set())
    last = world.channel.sent[-1]
    assert last.event.value == "SUCCEEDED"
    assert last.severity == ("warning" if "but" in reason else "info")


def test_what_is_found_after_a_success_is_shown_and_raises_no_alert() -> None:
    world = World()
    progress(500, 2.0)(world)
    complete(world)
    world.look()
    world.after(60)
    world.progress(500, loss="NaN")
    assert set(world.look().conditions) == {"loss_nan"}
    assert world.channel.events == ["SUCCEEDED"]


def test_a_new_attempt_begins_without_the_old_ones_nan() -> None:
    world = World()
    world.beat(attempt=1)
    world.progress(120, loss="NaN")
    world.look()
    world.delete("progress.json")
    world.after(60)
    world.beat(attempt=2)
    complete(world)
    assert world.look().conditions == {}
