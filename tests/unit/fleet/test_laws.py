"""Whatever happens to a fleet, a sweep that looks at next to nothing says what looks at everything would say."""

import json
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastbeat.fleet.screen import BEATING_S
from lastbeat.model.fleet import PassReport
from lastbeat.model.limits import LIMITS
from lastbeat.model.status import Status
from lastbeat.watch.record.limits import FleetLimits
from support.laws import examples
from support.memory import MemoryStore
from support.paged import PagedStore
from support.world import World

RUNS = ("a", "a-1", "b", "logged")
LATE = ("a-0", "new")
"""They begin later, if at all."""
OVER = tuple(f"o{number:02}" for number in range(12))
"""They ended two days ago."""
LOG = "logs/training_log_latest.txt"
DAY_S = 86_400.0
Step = tuple[str, object]


LIMITED = st.none() | st.lists(
    st.fixed_dictionaries(
        {"runs": st.sampled_from(["*", "a*", "a-?", "b", "logged"])},
        optional={
            "stale_minutes": st.sampled_from([2, 30, 90]),
            "stall_minutes": st.sampled_from([0, 5, 60]),
            "stale": st.sampled_from(["learned", "fixed"]),
        },
    ),
    max_size=3,
    unique_by=lambda entry: entry["runs"],
)
"""What stands in the fleet's limits from now on; None: they are removed."""


def steps_of(runs: tuple[str, ...]) -> st.SearchStrategy[list[Step]]:
    return st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from(["both", "beat", "progress", "log", "error", "complete", "attempt", "delete"]),
                st.sampled_from(runs),
            ),
            st.tuples(st.just("time"), st.sampled_from([30.0, 60.0, 300.0, 590.0, 700.0, 4000.0, DAY_S + 4000.0])),
            st.tuples(st.sampled_from(["restart", "forget", "pass"]), st.just("")),
            st.tuples(st.just("limits"), LIMITED),
            st.tuples(
                st.just("drop"),
                st.tuples(st.sampled_from(runs), st.sampled_from(["metadata.json", "progress.json", "_error", LOG])),
            ),
        ),
        max_size=40,
    )


class History(World):
    """A fleet to which one thing happens after the other."""

    def __init__(self, names: tuple[str, ...], store: MemoryStore | None = None) -> None:
        super().__init__(store=store)
        self._limits_are_new = False
        """No listing has come by them since they changed."""
        self._attempt, self._printed = dict.fromkeys(names, 1), dict.fromkeys(names, 1)
        for name in RUNS[:-1]:
            self.run(name).both(1)
        self.run(RUNS[-1]).log("step 1 loss 2.5\n")

    def take(self, what: str, which: object) -> None:
        if what == "time":
            self.after(float(which))  # type: ignore[arg-type]
        elif what == "restart":
            self.sweeper = self.fresh_sweep()
        elif what == "forget":
            self.store.held.pop("_watchdog/fleet.json.z", None)
            self.sweeper = self.fresh_sweep()
        elif what == "limits":
            self._limits_are_new = True
            if which is None:
                self.store.held.pop(LIMITS, None)
            else:
                self.store.put_text(LIMITS, json.dumps({"schema": 1, "limits": which}))
        elif what == "drop":
            assert isinstance(which, tuple)
            self.run(which[0]).delete(which[1])
        elif what == "attempt":
            self._attempt[str(which)] += 1
            self.after(2)
            self.run(str(which)).beat(attempt=self._attempt[str(which)], start_time=self.now.isoformat())
        elif what in {"both", "progress", "log"}:
            self._printed[str(which)] += 1
            self._write(str(which), what, self._printed[str(which)])
        elif what == "beat":
            self.run(str(which)).beat(beat_seconds=20, longest_gap_s=25)
        elif what in {"error", "complete", "delete"}:
            getattr(self.run(str(which)), what)()

    def _write(self, run_id: str, what: str, step: int) -> None:
        run = self.run(run_id)
        if what == "both":
            run.both(2)
        elif what == "progress":
            run.progress(3)
        else:
            run.log("".join(f"step {each} loss 2.5\n" for each in range(step)))

    def one_pass(self) -> PassReport:
        report = self.sweep()
        assert report.complete
        assert report.blind is None
        return report

    def check(
        self, report: PassReport, asked_now: Callable[[Status], bool] = lambda _status: True, *, listed: bool = False
    ) -> None:
        """What it says of those who were asked is what looks say, and no run of which a look would say that it runs is
        taken for one that is over. ``listed``: passes have listed everything since the last step."""
        self._limits_are_new = self._limits_are_new and report.plan != "list" and not listed
        if self._limits_are_new:
            return
        memory = self.sweeper._context.index_store.load()
        assert memory is not None
        for line in report.lines:
            held = [key for key in self.store.held if key.startswith(f"{line.run_id}/")]
            known = memory.runs.get(line.run_id)
            if known is not None and known.beating and self.now.timestamp() - known.looked_at < BEATING_S:
                # It is over and went on writing: that it begins again is seen at the next look.
                continue
            if held and asked_now(line.status):
                assert line.status is self._look(line.run_id), line.run_id
        if asked_now(Status.SUCCEEDED):
            there = {key.split("/")[0] for key in self.store.held if key.split("/")[0] in self._attempt}
            assert there <= {*memory.runs, *memory.finished}, "every run is known"
            for run_id in there.intersection(memory.finished):
                assert self._look(run_id) is not Status.RUNNING, run_id

    def _look(self, run_id: str) -> object:
        options = {"channels": [], "dry_run": True, "in_fleet": True, "limits": FleetLimits(self.store)}
        return self.fresh_watch(run_id, **options).tick().status


def asked_between(status: Status) -> bool:
    """Whom a pass asks that lists nothing."""
    return status is Status.RUNNING


@pytest.mark.parametrize("url", ["memory://runs", "s3://bucket/runs"], ids=["listing", "asking in between"])
@settings(max_examples=examples(15, 1500))
@example(steps=[("time", 590.0), ("log", "logged"), ("drop", ("logged", LOG)), ("time", 30.0)])
@example(steps=[("attempt", "a"), ("time", 700.0), ("log", "a")])
@example(steps=[("time", 700.0), ("limits", [{"runs": "*", "stall_minutes": 5}]), ("beat", "a"), ("limits", None)])
@example(steps=[("complete", "a"), ("pass", ""), ("time", DAY_S + 4000.0), ("pass", ""), ("attempt", "a")])
@example(steps=[("time", 700.0), ("limits", [{"runs": "*", "stale_minutes": 90}]), ("log", "a")])
@given(steps=steps_of((*RUNS, *LATE)))
def test_a_sweep_says_of_each_run_what_a_look_at_it_says(url: str, steps: list[Step]) -> None:
    history = History((*RUNS, *LATE))
    history.store.url = url
    history.one_pass()
    for what, which in steps:
        history.take(what, which)
        report = history.one_pass()
        history.check(report, asked_between if report.plan == "probe" else lambda _status: True)
    # New or begun again, two passes find it.
    plans = {history.one_pass().plan, (report := history.one_pass()).plan}
    assert "list" in plans
    history.check(report)


@pytest.mark.parametrize("by_folder", [False, True], ids=["keys in order", "folder by folder"])
@settings(max_examples=examples(10, 1000))
@example(steps=[("attempt", "o00"), ("both", "new"), ("both", "a-0")], most=3)
@given(steps=steps_of((*RUNS, *LATE, *OVER)), most=st.integers(2, 6))
def test_where_a_listing_is_long_a_round_of_it_finds_what_is_new(by_folder: bool, steps: list[Step], most: int) -> None:
    history = History((*RUNS, *LATE, *OVER), PagedStore(most, by_folder=by_folder))
    for name in OVER:
        history.run(name).both(1, age_s=2 * DAY_S)
        history.run(name).complete(age_s=2 * DAY_S)
    history.one_pass()
    history.after(60)
    assert history.one_pass().plan == "probe"
    for what, which in steps:
        history.take(what, which)
        report = history.one_pass()
        history.check(report, asked_between if report.plan == "probe" else lambda _status: True)
    passes = round(history.fleet.discover_s / history.fleet.interval_s)
    for _ in range(passes + 1):
        history.after(60)
        report = history.one_pass()
    history.check(report, listed=True)
