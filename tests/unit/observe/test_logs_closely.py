"""The closer reading at an event, and what may leave of what logs say."""

from lastbeat.watch.observe.listing import run_files
from lastbeat.watch.observe.logs import LogReadLimits
from support.memory import MemoryStore
from support.run_logs import CRASH, RUN, LogScene


def test_secrets_do_not_leave() -> None:
    run = LogScene(mask={"hunter22": "***"})
    run.put("logs/rank0.log", f"RuntimeError: hunter22 was refused, token hf_{'a' * 34}\n" + "\x1b[31mOops\n")
    told = repr(run.look()) + repr(run.logs.explain(run_files(run.store, RUN), "ValueError: hunter22"))
    assert "RuntimeError" in told
    assert "hunter22" not in told
    assert "hf_aaa" not in told
    assert "\\x1b" not in told


def test_nor_does_one_in_the_name_of_a_peer() -> None:
    run = LogScene(mask={"hunter22": "***"})
    run.put(
        "logs/rank0.log",
        "n1:1:2 [0] misc/socket.cc:50 NCCL WARN Connection closed by remote peer hunter22<4711>\nAborted\n",
    )
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.peer is not None
    assert "hunter22" not in repr(found)


def test_the_error_file_is_read_like_a_log() -> None:
    run = LogScene()
    found = run.logs.explain({}, CRASH)
    assert found.cause is not None
    assert (found.cause.error_type, found.cause.evidence.file) == ("oom", "_error")


def test_the_closer_reading_goes_further_back_than_the_looks() -> None:
    run = LogScene()
    text = CRASH + "still shutting down, one line after the other\n" * 10_000
    run.put("logs/rank0.log", text)
    assert run.look().explanation.cause is None
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.cause is not None
    assert (found.cause.error_type, found.cause.evidence.line) == ("oom", 4)


def test_the_closer_reading_is_bounded_and_leaves_nobody_out() -> None:
    run = LogScene(LogReadLimits(file_bytes=1000, look_bytes=10_000, deep_file_bytes=50_000, deep_bytes=200_000))
    for rank in range(20):
        run.put(f"logs/rank{rank}.log", "quiet\n" * 100_000 + (CRASH if rank == 13 else ""))
    read = 0
    plain = run.store.read

    class Measured(MemoryStore):
        def read(self, key: str, limit_bytes: int, *, from_end: bool = False, start: int = 0):  # type: ignore[no-untyped-def]
            nonlocal read
            blob = plain(key, limit_bytes, from_end=from_end, start=start)
            read += len(blob.body) if blob is not None else 0
            return blob

    run.logs._store = Measured()
    found = run.logs.explain(run_files(run.store, RUN), None)
    assert found.cause is not None
    assert found.cause.evidence.rank == 13
    assert read < 250_000
