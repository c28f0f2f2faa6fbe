"""Whatever is done to its file, and whenever anybody looks, a log says what it says."""

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.stores.port import UnreachableError
from lastbeat.watch.observe.listing import run_files
from support.run_logs import CRASH, MAIN, RUN, LogScene

_LINES = (
    "step {}/1000 loss 2.5\n",
    "loading shard {}\n",
    " 45%|████      | {}/1000 [00:10<00:12, 8.1it/s]\r",
    "[rank{}]: RuntimeError: CUDA error: an illegal memory access was encountered\n",
    CRASH,
    "[rank{}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, remote process exited\n",
    "slurmstepd: error: *** STEP {}.0 ON node1 CANCELLED AT 2026-01-01T11:00:00 DUE TO TIME LIMIT ***\n",
    "no end {}",
)
_deeds = st.one_of(
    st.tuples(st.just("write"), st.integers(0, len(_LINES) - 1)),
    st.tuples(st.sampled_from(["grow", "grow", "window", "look", "restart", "fail"]), st.just(0)),
)


@given(st.lists(_deeds, max_size=40))
def test_looks_find_what_one_whole_reading_finds(deeds: list[tuple[str, int]]) -> None:
    run, text, shipped, seen = LogScene(), "", 0, 0
    for number, (what, kind) in enumerate(deeds):
        if what == "write":
            text += _LINES[kind].format(number)
        elif what in {"grow", "window"}:
            # Whole lines: what has not been seen, and something before it.
            cut = text.rfind("\n", 0, max(0, seen - 400)) + 1
            run.put(MAIN, text[cut if what == "window" else 0 :])
            shipped = len(text)
        else:
            if what == "fail":
                run.store.refuse("read", UnreachableError("no answer"))
            if not run.look(restarted=what == "restart").unread and f"{RUN}/{MAIN}" in run.store.held:
                seen = shipped
            run.store.heal()
    run.put(MAIN, text)
    run.look()
    report = run.look()
    whole = LogScene()
    whole.put(MAIN, text)
    whole.look()
    expected = whole.look()
    assert (report.step, report.loss, report.explanation) == (expected.step, expected.loss, expected.explanation)
    files = run_files(run.store, RUN)
    assert run.logs.explain(files, None) == whole.logs.explain(files, None)
