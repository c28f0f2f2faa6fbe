"""Whatever happens to a fleet, a sweep that looks at next to nothing says what looks at everything would say."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastbeat.fleet.screen import BEATING_S
from lastbeat.model.status import Status
from lastbeat.watchdog import Watch, WatchContext
from support.fleet import FleetScene

RUNS = ("a", "a-1", "b", "logged")
LOG = "logs/training_log_latest.txt"
STEPS = st.one_of(
    st.tuples(
        st.sampled_from(["both", "beat", "progress", "log", "error", "complete", "attempt", "delete"]),
        st.sampled_from(RUNS),
    ),
    st.tuples(st.just("time"), st.sampled_from([30.0, 60.0, 300.0, 590.0, 700.0, 4000.0])),
    st.tuples(st.sampled_from(["restart", "forget", "pass"]), st.just("")),
    st.tuples(
        st.just("drop"),
        st.tuples(st.sampled_from(RUNS), st.sampled_from(["metadata.json", "progress.json", "_error", LOG])),
    ),
)


@pytest.mark.parametrize("url", ["memory://runs", "s3://bucket/runs"], ids=["listing", "probing where cheaper"])
@settings(max_examples=60 if settings().derandomize else 1500)
@example(steps=[("time", 590.0), ("log", "logged"), ("drop", ("logged", LOG)), ("time", 30.0)])
@example(steps=[("attempt", "a"), ("time", 700.0), ("log", "a")])
@given(steps=st.lists(STEPS, max_size=40))
def test_a_sweep_says_of_each_run_what_a_look_at_it_says(url: str, steps: list[tuple[str, object]]) -> None:
    scene = FleetScene()
    scene.store.url = url
    for name in RUNS[:-1]:
        scene.run(name).both(1)
    scene.run(RUNS[-1]).log("step 1 loss 2.5\n")
    attempt, printed = dict.fromkeys(RUNS, 1), dict.fromkeys(RUNS, 1)
    scene.sweep()
    for what, which in steps:
        if what == "time":
            scene.after(float(which))  # type: ignore[arg-type]
        elif what == "restart":
            scene.kept = None
        elif what == "forget":
            scene.store.held.pop("_watchdog/fleet.json.z", None)
            scene.kept = None
        elif what == "drop":
            assert isinstance(which, tuple)
            scene.run(which[0]).delete(which[1])
        elif what == "attempt":
            attempt[str(which)] += 1
            scene.after(2)
            scene.run(str(which)).beat(attempt=attempt[str(which)], start_time=scene.now.isoformat())
        elif what in {"both", "progress", "log"}:
            printed[str(which)] += 1
            _write(scene, str(which), what, printed[str(which)])
        elif what in {"beat", "error", "complete", "delete"}:
            getattr(scene.run(str(which)), what)()
        report = scene.sweep()
        assert report.complete
        assert report.blind is None
        memory = scene.kept._archive.load() if scene.kept else None
        assert memory is not None
        there = {key.split("/")[0] for key in scene.store.held} & set(RUNS)
        assert there <= {*memory.runs, *memory.finished} or report.plan == "probe", "every run is known"
        for line in report.lines:
            held = [key for key in scene.store.held if key.startswith(f"{line.run_id}/")]
            known = memory.runs.get(line.run_id)
            if known is not None and known.beating and scene.now.timestamp() - known.looked_at < BEATING_S:
                # It is over and went on writing: that it begins again is seen at the next look.
                continue
            # Where asking costs money, those that are over are asked now and then.
            if held and not (report.plan == "probe" and line.status in {Status.SUCCEEDED, Status.FAILED}):
                assert line.status is _look(scene, line.run_id), line.run_id


def _write(scene: FleetScene, run_id: str, what: str, step: int) -> None:
    run = scene.run(run_id)
    if what == "both":
        run.both(2)
    elif what == "progress":
        run.progress(3)
    else:
        run.log("".join(f"step {each} loss 2.5\n" for each in range(step)))


def _look(scene: FleetScene, run_id: str) -> object:
    policy = replace(scene.policy, start_grace_s=scene.policy.stale_s)
    watch = Watch(run_id, WatchContext(scene.store, [], policy, lambda: scene.now, state=scene.state, dry_run=True))
    return watch.tick().status
