"""When the memory of the GPUs is free again."""

from collections.abc import Iterator

import pytest

from lastbeat.training.exec.in_place.gpu_memory import MARGIN_BYTES, Gpus, MemoryWatch

GIB = 1 << 30


def gpus(*used: int | None) -> Gpus:
    return [{"name": "GPU", **({} if each is None else {"memory_used_bytes": each})} for each in used]


ROWS = [
    pytest.param(gpus(0, 0), [gpus(0, 70 * GIB), gpus(0, 0)], 1, True, id="it is awaited"),
    pytest.param(gpus(0, 0), [gpus(0, 70 * GIB)] * 9, 4, False, id="not for ever"),
    pytest.param(gpus(3 * GIB), [gpus(3 * GIB + MARGIN_BYTES)], 0, True, id="what others had in use they may keep"),
    pytest.param(None, [], 0, True, id="nobody can ask a driver"),
    pytest.param(gpus(0), [None, None, gpus(0)], 2, True, id="a driver that is slow to answer is asked again"),
    pytest.param(gpus(0), [gpus(0, 9 * GIB)], 0, True, id="there are others than before"),
    pytest.param(gpus(None), [gpus(9 * GIB)], 0, True, id="one of which nothing was known"),
]


@pytest.mark.parametrize(("before", "after", "pauses", "free"), ROWS)
def test_free(before: Gpus | None, after: list[Gpus | None], pauses: int, free: bool) -> None:
    told: Iterator[Gpus | None] = iter([before, *after])
    watch, paused = MemoryWatch(lambda _: next(told)), list[float]()
    watch.begin(1.0)
    limit_s = 3600.0 if free else 0.0
    if free:
        assert watch.wait_free(limit_s, paused.append)
        assert len(paused) == pauses
    else:
        assert not watch.wait_free(limit_s, paused.append)


def test_without_a_first_look_nothing_is_awaited() -> None:
    assert MemoryWatch(lambda _: gpus(70 * GIB)).is_free(1.0)
