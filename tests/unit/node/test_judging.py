"""What is worth a warning about a node while training runs, by looks half a minute apart; laws of when a fact is said,
and when it is taken back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.health import HEALTH_CONDITIONS
from lastbeat.training.node.gpus import XIDS
from lastbeat.training.node.judging import Activity, Latch, NodeJudge, NodeLook, Raised
from lastbeat.training.node.node import Disk, Memory, Network, NodeReading

EACH_S = 30.0
G = 1 << 30
WELL = NodeReading(memory=Memory(40 * G, 64 * G), disks=(Disk("/scratch", 500 * G, 1000 * G),))
GPU = {"utilization": 0.9, "throttle": [], "ecc_uncorrected": 0, "rows_pending": False, "nvlink_errors": 0}


def gpus(*changes: dict[str, Any], count: int = 2) -> list[dict[str, Any]]:
    found = [{**GPU, "index": index} for index in range(count)]
    for gpu, change in zip(found, changes, strict=False):
        gpu.update(change)
    return found


def look(number: int = 0, **more: Any) -> NodeLook:
    usual: dict[str, Any] = {"node": WELL, "gpus": gpus(), "activity": Activity(number, computes=True)}
    return NodeLook(1000.0 + EACH_S * number, **{**usual, **more})


def judged(change: Callable[[int], dict[str, Any]], minutes: float) -> list[list[Raised]]:
    """What is raised after each look; ``change`` says what is unusual about the look of a number."""
    judge = NodeJudge()
    return [judge.judge(look(number, **change(number))) for number in range(int(minutes * 60 / EACH_S) + 1)]


def raised(change: Callable[[int], dict[str, Any]], minutes: float) -> dict[str, str]:
    """Condition → what is said of it at the end."""
    return {each.name: each.text for each in judged(change, minutes)[-1]}


def stands(number: int) -> Activity:
    """Training that makes no step."""
    del number
    return Activity(7, computes=True)


IDLE = {"utilization": 0.02}
BAD: list[Any] = [
    pytest.param(lambda _: {"gpus": gpus({"lost": True})}, 0, {"gpu_lost": "GPU 0 is lost to the driver"},
                 id="a lost GPU, at once"),
    pytest.param(lambda n: {"gpus": gpus(count=8 if n == 0 else 7)}, 1, {"gpu_lost": "the driver shows 7 of 8 GPUs"},
                 id="a GPU that the driver shows no more"),
    pytest.param(lambda n: {"gpus": None, "driver_silent_s": EACH_S * n}, 6,
                 {"gpu_lost": "NVIDIA's driver has not answered for 6m"}, id="a driver that hangs"),
    pytest.param(lambda n: {"xids": [("GPU 1", 119)] if n == 0 else []}, 5,
                 {"gpu_lost": "GPU 1: Xid 119 (the GPU's system processor does not answer)"}, id="an Xid"),
    pytest.param(lambda n: {"gpus": gpus({"ecc_uncorrected": 3 if n == 0 else 5})}, 30,
                 {"gpu_ecc": "GPU 0: 2 memory errors that could not be corrected, in this attempt"},
                 id="memory errors stay for the attempt"),
    pytest.param(lambda _: {"gpus": gpus({"throttle": ["hw_thermal"], "temperature_c": 91})}, 2,
                 {"gpu_throttled": "GPU 0: too hot, slowed down by its hardware (91 °C)"}, id="heat for two minutes"),
    pytest.param(lambda n: {"gpus": gpus(IDLE, IDLE), "activity": stands(n)}, 10.5,
                 {"gpu_idle": "all 2 GPUs under 5% for 10m 30s, and no step in that time"},
                 id="idle GPUs and no step"),
    pytest.param(
        lambda _: {"node": replace(WELL, memory=Memory(G, 64 * G), swap_used_bytes=G, swap_total_bytes=2 * G)}, 1,
        {"ram_low": "1.0 GB of 64.0 GB of memory left, 1.0 GB of 2.0 GB of swap in use"}, id="memory that runs out",
    ),
    pytest.param(lambda _: {"node": replace(WELL, disks=(Disk("/scratch", 10 * G, 1000 * G),))}, 1,
                 {"disk_low": "/scratch: 10.0 GB of 1000.0 GB free"}, id="a disk that is nearly full"),
    pytest.param(lambda _: {"node": replace(WELL, disks=(Disk("/s", 500 * G, 1000 * G, 10, 1000),))}, 1,
                 {"disk_low": "/s: 10 of 1,000 inodes free"}, id="a disk without inodes"),
    pytest.param(lambda n: {"node": replace(WELL, disks=(Disk("/scratch", (300 - 2 * n) * G, 1000 * G),))}, 58,
                 {"disk_low": "/scratch: 68.0 GB of 1000.0 GB free, full in about 17m"},
                 id="a disk that will be full soon"),
    pytest.param(lambda n: {"node": replace(WELL, network=Network({"eth0": 50 * n, "eth1": 3}))}, 10,
                 {"network_errors": "eth0: 500 errors in 5m"}, id="an interface that counts errors"),
    pytest.param(lambda n: {"node": replace(WELL, network=Network(sent=10_000 * n, retransmitted=800 * n))}, 10,
                 {"network_errors": "8% of all TCP segments sent again in 5m"},
                 id="segments that are sent again and again"),
    pytest.param(lambda n: {"gpus": gpus({"nvlink_errors": 40 * n})}, 10,
                 {"network_errors": "NVLink of GPU 0: 400 errors in 5m"}, id="errors of NVLink"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "minutes", "expected"), BAD)
def test_what_is_said(change: Callable[[int], dict[str, Any]], minutes: float, expected: dict[str, str]) -> None:
    assert raised(change, minutes) == expected


QUIET: list[Any] = [
    pytest.param(lambda _: {}, id="a node that is well"),
    pytest.param(lambda _: {"node": NodeReading(), "gpus": []}, id="a node without GPUs"),
    pytest.param(lambda n: {"gpus": gpus(IDLE, IDLE), "activity": Activity(n, computes=True)}, id="idle, with steps"),
    pytest.param(lambda _: {"gpus": gpus(IDLE, IDLE), "activity": Activity(7)}, id="idle, while a checkpoint is saved"),
    pytest.param(lambda n: {"gpus": gpus(*([IDLE, {}] if n % 2 else [{}, IDLE])), "activity": stands(n)},
                 id="idle by turns: some GPU always works"),
    pytest.param(lambda n: {"gpus": gpus({}, IDLE), "activity": stands(n)}, id="a GPU that training does not use"),
    pytest.param(lambda n: {"gpus": gpus(count=8 if n < 3 else 1),
                  "shown_by": {} if n < 3 else {"CUDA_VISIBLE_DEVICES": "3"}},
                 id="training chooses its GPU after it has begun"),
    pytest.param(lambda n: {"gpus": None, "driver_silent_s": 3600.0} if n == 20 else {},
                 id="a driver that had no time to answer, because training was suspended"),
    pytest.param(lambda n: {"gpus": None if n % 5 == 4 else gpus(IDLE, IDLE), "activity": stands(n)},
                 id="idle, and every few looks nobody knows"),
    pytest.param(lambda n: {"gpus": gpus({"throttle": ["hw_thermal"] if n % 3 == 0 else []})}, id="hot for a moment"),
    pytest.param(lambda _: {"gpus": gpus({"ecc_uncorrected": 9})}, id="memory errors of an earlier job"),
    pytest.param(lambda _: {"xids": [("GPU 0", 13), ("GPU 0", 31)]}, id="Xids that a program causes"),
    pytest.param(lambda _: {"node": replace(WELL, memory=Memory(20 * G, 2000 * G))},
                 id="a share of a large machine is much"),
    pytest.param(lambda _: {"node": replace(WELL, disks=(Disk("/s", 0, 0),))}, id="a file system without a size"),
    pytest.param(lambda n: {"node": replace(WELL, disks=(Disk("/s", (500 - 40 * (n % 4)) * G, 1000 * G),))},
                 id="a disk to which checkpoints are written, and old ones deleted"),
    pytest.param(
        lambda _: {"node": replace(WELL, disks=(Disk("/", 3 * G, 3 * G), Disk("/image", 0, 3 * G, read_only=True)))},
        id="a file system that can only be read",
    ),
    pytest.param(lambda n: {"node": replace(WELL, network=Network({"eth0": 9**9 - n}))}, id="a counter set to zero"),
    pytest.param(lambda n: {"node": replace(WELL, network=Network(sent=100 * n, retransmitted=30 * n))},
                 id="few segments at all"),
]  # fmt: skip


@pytest.mark.parametrize("change", QUIET)
def test_what_is_nobodys_trouble(change: Callable[[int], dict[str, Any]]) -> None:
    assert [names for names in judged(change, 90) if names] == []


def test_it_is_over_when_it_has_been_well_for_a_while() -> None:
    hot = gpus({"throttle": ["hw_thermal"]})
    said = judged(lambda number: {"gpus": hot if number < 10 else gpus()}, 20)
    spoken = [bool(each) for each in said]
    assert spoken == [4 <= number < 30 for number in range(len(spoken))]


def test_gpus_that_a_look_finds_idle_now_and_then_are_well_once_there_are_steps() -> None:
    def change(number: int) -> dict[str, Any]:
        idle = number < 24 or number % 2
        return {"gpus": gpus(*([IDLE, IDLE] if idle else [])), "activity": Activity(max(0, number - 24) // 2, True)}

    assert [bool(each) for each in judged(change, 30)] == [20 <= number < 28 for number in range(61)]


def test_what_cannot_be_seen_any_more_stands() -> None:
    said = judged(lambda number: {"gpus": gpus({"lost": True})} if number == 0 else {"gpus": None}, 120)
    assert [[each.name for each in held] for held in said] == [["gpu_lost"]] * len(said)


def _hidden(number: int, seen: Sequence[int]) -> dict[str, Any]:
    if number in seen:
        return {"gpus": gpus(IDLE, IDLE), "activity": stands(number), "node": replace(WELL, memory=Memory(G, 64 * G))}
    return {"gpus": None, "node": NodeReading(), "activity": stands(number)}


@given(st.sets(st.integers(0, 200), max_size=60))
@settings(max_examples=60, deadline=None)
def test_missing_data_alone_raises_nothing(seen: set[int]) -> None:
    """Of looks that show trouble, only those without a gap between them add up."""
    said = judged(lambda number: _hidden(number, sorted(seen)), 100)
    for number, held in enumerate(said):
        together = 0
        while number - together in seen:
            together += 1
        new = {each.name for each in held} - {each.name for each in (said[number - 1] if number else [])}
        assert together * EACH_S > 600 or "gpu_idle" not in new
        assert together > 1 or "ram_low" not in new


looks = st.lists(
    st.fixed_dictionaries({
        "gpus": st.none() | st.builds(
            gpus,
            st.fixed_dictionaries({
                "utilization": st.sampled_from([0.0, 0.9]), "ecc_uncorrected": st.integers(0, 3),
                "throttle": st.sampled_from([[], ["hw_thermal"]]), "nvlink_errors": st.integers(0, 10**6),
            }) | st.just({"lost": True}),
        ),
        "node": st.builds(
            lambda memory, disk, errors: NodeReading(memory=memory, disks=disk, network=Network(errors)),
            st.sampled_from([Memory(), Memory(G, 64 * G), Memory(4 * G, 64 * G), Memory(60 * G, 64 * G)]),
            st.sampled_from([(), (Disk("/s", G, 1000 * G),), (Disk("/s", 900 * G, 1000 * G),)]),
            st.dictionaries(st.sampled_from(["eth0", "mlx5_0/1"]), st.integers(0, 10**9)),
        ),
        "xids": st.lists(st.tuples(st.just("GPU 0"), st.sampled_from([*XIDS, 13])), max_size=2),
        "driver_silent_s": st.sampled_from([0.0, 400.0]),
        "activity": st.builds(Activity, st.integers(0, 2), st.booleans()),
    }),
    max_size=120,
)  # fmt: skip


@given(looks)
@settings(max_examples=60, deadline=None)
def test_whatever_is_seen_each_condition_flaps_a_few_times_an_hour_at_most(sequence: list[dict[str, Any]]) -> None:
    judge, before = NodeJudge(), set[str]()
    risen: dict[str, int] = {}
    for number, change in enumerate(sequence):
        held = judge.judge(look(number, **change))
        for each in held:
            assert each.name in HEALTH_CONDITIONS
            assert 0 < len(each.text) <= 300
        for name in {each.name for each in held} - before:
            risen[name] = risen.get(name, 0) + 1
        before = {each.name for each in held}
    assert all(count <= 1 + len(sequence) * EACH_S / 300 for count in risen.values()), risen


RAISE_S, CLEAR_S = 120.0, 600.0
sights = st.lists(
    st.tuples(st.floats(1, 400), st.sampled_from([True, False, None])), min_size=1, max_size=60
)  # seconds since the look before, and what it showed


def told(sequence: list[tuple[float, bool | None]]) -> list[tuple[float, bool | None, bool]]:
    """Time, what was seen and what was said, look by look."""
    latch, now, found = Latch(RAISE_S, CLEAR_S), 0.0, []
    for span_s, holds in sequence:
        now += span_s
        found.append((now, holds, latch.update(holds, now)))
    return found


@given(sights)
def test_what_nobody_has_seen_for_long_enough_is_never_said(sequence: list[tuple[float, bool | None]]) -> None:
    found = told(sequence)
    for place, (now, _, said) in enumerate(found):
        if said and not (place and found[place - 1][2]):
            since = [(at, holds) for at, holds, _ in found[: place + 1] if now - at <= RAISE_S]
            assert all(holds is True for _, holds in since)


@given(sights)
def test_what_holds_long_enough_is_said_and_what_is_over_long_enough_is_not(
    sequence: list[tuple[float, bool | None]],
) -> None:
    assert told([*sequence, (1.0, True), (RAISE_S + 1, True)])[-1][2]
    assert not told([*sequence, (1.0, False), (CLEAR_S + 1, False)])[-1][2]
