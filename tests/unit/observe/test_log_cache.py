"""How far logs were read outlasts the process."""

import pytest

from lastbeat.model.codec import DamagedError, codec
from lastbeat.stores.port import DeniedError
from lastbeat.watch.observe.log_observer import CACHE_LIMIT_BYTES, LogCache
from lastbeat.watch.observe.logs import LogReadLimits, RunLogsState
from support.memory import MemoryStore
from support.run_logs import CRASH, MAIN, RUN, LogScene, kept, steps


def _cache(run: LogScene, state: MemoryStore, signals: str = "") -> LogCache:
    return LogCache(state, run.store.url, RUN, signals)


def test_a_later_process_goes_on_where_an_earlier_one_was() -> None:
    run, state = LogScene(), MemoryStore()
    run.put(MAIN, steps(0, 10) + CRASH)
    before = run.look()
    _cache(run, state).save(run.logs)
    run.logs = run.fresh()
    _cache(run, state).load(run.logs)
    assert run.look() == before
    assert run.reads == 0
    writes = len(state.calls)
    _cache(run, state).save(run.logs)
    assert len(state.calls) == writes


@pytest.mark.parametrize(
    ("body", "signals"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"nonsense", "", id="damaged"),
        pytest.param(None, "mine.yaml", id="of other signals"),
        pytest.param(b"\x78\x01\x03\x00\x00\x00\x00\x01", "", id="packed nothing"),
    ],
)
def test_a_memory_that_is_of_no_use_is_begun_anew(body: bytes | None, signals: str) -> None:
    run, state = LogScene(), MemoryStore()
    run.put(MAIN, steps(0, 10))
    before = run.look()
    cache = _cache(run, state)
    cache.save(run.logs)
    if body is not None:
        state.write(cache.key, body)
    run.logs = run.fresh()
    _cache(run, state, signals).load(run.logs)
    assert run.look() == before
    assert run.reads == 1


def test_a_state_that_somebody_tampered_with_is_refused_whole() -> None:
    run = LogScene()
    run.put(MAIN, steps(0, 10))
    run.look()
    document = kept(run.logs)
    document["files"][0]["cursor"]["reach"] = 10**9
    with pytest.raises(DamagedError, match=r"^files\[0\]\.cursor: a reach of 1000000000 .* cannot be"):
        codec(RunLogsState).read(document)


def test_the_memory_is_bounded_and_still_knows_how_far_everything_was_read() -> None:
    # On a busy machine, one look takes more than its usual seconds for so much text.
    run, state = LogScene(LogReadLimits(look_s=600.0)), MemoryStore()
    for rank in range(64):
        noise = "".join(f"RuntimeError: {rank} {number} {hash((rank, number))}\n" for number in range(300))
        run.put(f"logs/rank{rank}.log", noise)
    run.look()
    cache = _cache(run, state)
    cache.save(run.logs)
    assert len(state.held[cache.key].body) <= CACHE_LIMIT_BYTES
    run.logs = run.fresh()
    cache.load(run.logs)
    run.look()
    assert run.reads == 0


def test_a_state_directory_that_cannot_be_used_harms_nothing() -> None:
    run, state = LogScene(), MemoryStore()
    state.refuse("any", DeniedError("no"))
    run.put(MAIN, steps(0, 10))
    cache = _cache(run, state)
    cache.load(run.logs)
    assert run.look().step == 9
    cache.save(run.logs)
