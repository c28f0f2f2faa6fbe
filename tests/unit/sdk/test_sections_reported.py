"""What ranks write of their sections, by which limits, and that a watchdog without settings makes the right of it."""

from pathlib import Path
from typing import Any

import pytest

import lastbeat
from lastbeat.model.policy import Policy
from lastbeat.stores.port import DeniedError
from lastbeat.training.sdk.learning import SpanTimes
from lastbeat.training.sdk.sections import SectionLimits
from lastbeat.watch.watchdog import Watch, WatchContext
from support.memory import MemoryStore
from support.reporting import document, ranked
from support.there import there
from support.waiting import until

LIMITS = SectionLimits({"checkpointing": 0.3})


def sections(store: MemoryStore, name: str) -> dict[str, float | None]:
    return {each.get("name"): each.get("limit_s") for each in document(store, name).get("sections", [])}


@pytest.mark.parametrize("number", [0, 1], ids=["rank 0", "another rank"])
def test_a_rank_says_what_it_is_in_and_marks_itself_while_that_takes_too_long(number: int) -> None:
    store = MemoryStore()
    runs = [ranked(store, each, sections=LIMITS) for each in range(2)]
    run, name = runs[number], f"ranks/{number}.json"
    with run.section("step"):
        until(lambda: sections(store, name) == {"step": None})
        with run.section("checkpointing"):
            until(lambda: f"r/ranks/{number}.late" in store.held)
            said = document(store, name if number else "metadata.json")["sections"]
            assert [each["open_s"] > each["limit_s"] for each in said if "limit_s" in each] == [True]
        until(lambda: f"r/ranks/{number}.late" not in store.held)
        until(lambda: sections(store, name) == {"step": None})
    assert [key for key in store.held if key.endswith(".late")] == []
    for each in reversed(runs):
        assert each.complete()
    assert "sections" not in document(store, name), "what is over is in no section"


def test_it_is_told_when_it_happens_not_at_the_next_beat() -> None:
    store = MemoryStore()
    runs = [ranked(store, each, every_s=3600.0, sections=LIMITS) for each in range(2)]
    until(lambda: document(store, "metadata.json").get("begun"))
    run = runs[1]
    with run.section("checkpointing"):
        run._reporter.beat_now()  # type: ignore[union-attr] # it learns of the section by any beat
        until(lambda: "r/ranks/1.late" in store.held)
        assert sections(store, "ranks/1.json") == {"checkpointing": 0.3}
    for each in reversed(runs):
        assert each.complete()


def test_without_heartbeats_of_ranks_only_rank_0_tells() -> None:
    store = MemoryStore()
    runs = [ranked(store, each, every_s=0.0, sections=LIMITS) for each in range(2)]
    with runs[1].section("checkpointing"), runs[0].section("checkpointing"):
        until(lambda: "r/ranks/0.late" in store.held)
    for each in reversed(runs):
        assert each.complete()
    assert [key for key in store.held if "/ranks/1" in key] == []


def test_where_nothing_may_be_deleted_the_mark_stays_and_training_ends_as_ever() -> None:
    store = MemoryStore()

    store.refuse("delete", DeniedError("no"))
    run = ranked(store, 0, 1, sections=LIMITS)
    with run.section("checkpointing"):
        until(lambda: "r/ranks/0.late" in store.held)
    until(lambda: sections(store, "metadata.json") == {None: None})
    assert run.complete()
    assert "r/_complete" in store.held


def test_a_watchdog_with_no_setting_of_its_own_says_what_hangs_and_that_it_goes_on() -> None:
    store = MemoryStore()
    runs = [ranked(store, each, sections=SectionLimits({"checkpointing": 1.2})) for each in range(2)]
    watch = Watch("r", WatchContext(store, [], Policy(), lambda: store.now))
    until(lambda: document(store, "metadata.json").get("begun"))
    assert watch.tick().status.value == "RUNNING"
    with runs[1].section("checkpointing"):
        until(lambda: "r/ranks/1.late" in store.held)
        outcome = watch.tick()
        assert outcome.status.value == "TIMED_OUT"
        assert outcome.reason.startswith("rank 1: checkpointing for ")
        assert "(limit 1s)" in outcome.reason
    until(lambda: "r/ranks/1.late" not in store.held)
    store.pass_time(60)
    until(lambda: store.held["r/metadata.json"].modified == store.now.replace(microsecond=0))
    until(lambda: store.held["r/ranks/1.json"].modified == store.now.replace(microsecond=0))
    assert watch.tick().status.value == "RUNNING"
    for each in reversed(runs):
        assert each.complete()


SECTIONS = "LASTBEAT_SECTION_TIMEOUTS"
STATED = [
    pytest.param({SECTIONS: "save:420, step:180"}, {}, {"save": 420.0, None: 1800.0}, id="the environment's"),
    pytest.param({SECTIONS: "save:420"}, {"sections": {"save": 60}}, {"save": 60.0, None: 1800.0}, id="a script's"),
    pytest.param({SECTIONS: "save:420"}, {"sections": {"save": 0}}, {}, id="a script may take one back"),
    pytest.param(
        {SECTIONS: "out_of_section:7200"}, {}, {None: 7200.0},
        id="a long one holds before the first step, too",
    ),
    pytest.param({SECTIONS: "save:420,out_of_section:0"}, {}, {"save": 420.0}, id="it may be off"),
    pytest.param({}, {"sections": {"save": "soon", 7: 1}}, {}, id="what is no limit is left out"),
    pytest.param({}, {"sections": ["save"]}, {}, id="what is no dictionary is left out"),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "given", "expected"), STATED)
def test_whose_limit_holds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    given: dict[str, Any],
    expected: dict[str | None, float],
) -> None:
    monkeypatch.delenv(SECTIONS, raising=False)
    monkeypatch.setenv("LASTBEAT_BEAT_SECONDS", "0.05")
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    with lastbeat.run("r", root=tmp_path / "runs", **given) as run:
        until((tmp_path / "runs" / "r" / "metadata.json").exists)
        seen = {span.name: span.limit_s for span in run.sections.spans()}
        with run.section("save"):
            seen |= {span.name: span.limit_s for span in run.sections.spans()}
    assert {name: limit_s for name, limit_s in seen.items() if limit_s} == expected


def test_the_first_step_shortens_what_may_pass_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SECTIONS, raising=False)
    monkeypatch.setenv("LASTBEAT_BEAT_SECONDS", "0.05")
    with lastbeat.run("r", root=tmp_path / "runs", sections={"checkpointing": 420}) as run:
        until((tmp_path / "runs" / "r" / "metadata.json").exists)
        run.step(1)
        assert [span.limit_s for span in run.sections.spans()] == [300.0]


def test_rank_0_says_for_how_long_others_may_have_waited_for_it() -> None:
    store = MemoryStore()
    run = ranked(store, 0, 1, sections=SectionLimits({"checkpointing": 600.0, "step": 600.0, "short": 600.0}))
    for name in ("checkpointing", "step", "of no limit"):
        section = run.section(name)
        with section:
            run.sections.open[section] -= 1.1
    with run.section("short"):
        pass
    left = there(until(lambda: document(store, "metadata.json").get("left_sections")))
    (told,) = left
    assert (told["name"], told["limit_s"]) == ("checkpointing", 600.0)
    assert told["took_s"] >= 1.1
    assert told["ago_s"] >= 0
    run.sections.times = SpanTimes()
    until(lambda: len(document(store, "metadata.json").get("left_sections") or ()) == 2)
    assert document(store, "metadata.json")["left_sections"][1]["limit_s"] == 1800.0, "it learns, and is patient"
    assert run.complete()
