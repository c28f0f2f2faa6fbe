"""Variables of earlier versions: each is still read, and says once what it is today."""

from pathlib import Path

import pytest

from lastbeat.model.setting import Setting
from lastbeat.settings import Settings, SettingsError, load, table
from lastbeat.settings.old_names import OLD_NAMES
from support.row_by_row import labelled

SCORES = "relative:0.6,individual:0.8"
ROWS = [
    pytest.param("LASTBEAT_RANK_BEAT_SECONDS", "0", table.BEAT_SECONDS, "ranks:0", id="the beats of ranks"),
    pytest.param("LASTBEAT_HEALTH_SECONDS", "5", table.BEAT_SECONDS, "health:5", id="the samples of nodes"),
    pytest.param(
        "LASTBEAT_OUT_OF_SECTION_TIMEOUT", "0", table.SECTION_TIMEOUTS, "out_of_section:0", id="outside of sections"
    ),
    pytest.param("LASTBEAT_STRAGGLER_SECONDS", "60", table.STRAGGLERS, "off,seconds:60", id="reports of stragglers"),
    pytest.param(
        "LASTBEAT_STRAGGLER_SCORES", "individual:0.8", table.STRAGGLERS, "off,individual:0.8", id="one of the scores"
    ),
    pytest.param(
        "LASTBEAT_STRAGGLER_SCORES", "relative:0.5,individual:0.8", table.STRAGGLERS,
        "off,relative:0.5,individual:0.8", id="both scores",
    ),
    pytest.param("LASTBEAT_STRAGGLER_RANKS", "0", table.STRAGGLERS, "off,ranks:0", id="the ranks of a report"),
    pytest.param("LASTBEAT_STRAGGLER_EVERY", "10", table.STRAGGLERS, "off,every:10", id="each tenth step"),
    pytest.param("LASTBEAT_STRAGGLER_JSON", "on", table.STRAGGLERS, "off,json:on", id="reports in JSON"),
    pytest.param("LASTBEAT_GROUP_RUNS", "3", table.GROUPS, "runs:3", id="the runs of a group"),
    pytest.param("LASTBEAT_GROUP_MINUTES", "0.5", table.GROUPS, "minutes:0.5", id="the time of a group"),
    pytest.param("LASTBEAT_REPEAT_HOURS", "4", table.GROUPS, "repeat_hours:4", id="the alert of a group, repeated"),
    pytest.param("LASTBEAT_READ_MINUTES", "7", table.SWEEP, "read_minutes:7", id="heartbeats that only advance"),
    pytest.param("LASTBEAT_DISCOVER_MINUTES", "7", table.SWEEP, "discover_minutes:7", id="new runs"),
    pytest.param("LASTBEAT_NEWS_HOURS", "7", table.SWEEP, "news_hours:7", id="old ends"),
    pytest.param("LASTBEAT_FANOUT", "7", table.SWEEP, "fanout:7", id="a fleet that is split"),
    pytest.param("LASTBEAT_LEASE_SECONDS", "20", table.SWEEP, "lease_seconds:20", id="the lease of a delivery"),
    pytest.param("LASTBEAT_LOG_LEVEL", "info", table.OWN_LOG, "info", id="the level of the log"),
    pytest.param("LASTBEAT_LOG_FILE", "/l/own.log", table.OWN_LOG, "file:/l/own.log", id="the file of the log"),
]  # fmt: skip


def loaded(folder: Path, **environ: str) -> Settings:
    return load({}, {"MONITORING_ROOT": "/d", **environ}, folder)


@pytest.mark.parametrize(("name", "text", "setting", "now"), ROWS)
def test_an_old_name_counts_as_what_it_is_today(
    tmp_path: Path, name: str, text: str, setting: Setting[object], now: str
) -> None:
    old, new = loaded(tmp_path, **{name: text}), loaded(tmp_path, **{setting.name: now})
    assert [old[each] for each in table.CORE] == [new[each] for each in table.CORE]
    assert (old.policy, old.fleet) == (new.policy, new.fleet)
    assert old[setting] != loaded(tmp_path)[setting]
    assert old.name_hints == (f"{name}={text} is now {setting.name}={now}",)
    assert new.name_hints == ()


def test_no_old_name_is_left_out() -> None:
    assert {row.values[0] for row in ROWS} == {old.name for old in OLD_NAMES}


@pytest.mark.parametrize(("environ", "same", "hints"), labelled([
    ("the setting and its old parts are one", {"LASTBEAT_STRAGGLERS": "on", "LASTBEAT_STRAGGLER_EVERY": "10",
     "LASTBEAT_STRAGGLER_RANKS": "2"}, {"LASTBEAT_STRAGGLERS": "on,ranks:2,every:10"},
     ["LASTBEAT_STRAGGLER_RANKS=2 LASTBEAT_STRAGGLER_EVERY=10 are now LASTBEAT_STRAGGLERS=on,ranks:2,every:10"]),
    ("a setting that was always called so", {"LASTBEAT_BEAT_SECONDS": "5", "LASTBEAT_RANK_BEAT_SECONDS": "5"},
     {"LASTBEAT_BEAT_SECONDS": "5,ranks:5"}, ["LASTBEAT_RANK_BEAT_SECONDS=5 is now LASTBEAT_BEAT_SECONDS=5,ranks:5"]),
    ("the new name outranks the old one", {"LASTBEAT_GROUPS": "runs:3", "LASTBEAT_GROUP_RUNS": "7",
     "LASTBEAT_REPEAT_HOURS": "4"}, {"LASTBEAT_GROUPS": "runs:3,repeat_hours:4"},
     ["LASTBEAT_GROUP_RUNS=7 has no effect beside LASTBEAT_GROUPS=runs:3; remove it",
     "LASTBEAT_REPEAT_HOURS=4 is now LASTBEAT_GROUPS=runs:3,repeat_hours:4"]),
    ("one part of it outranks", {"LASTBEAT_STRAGGLERS": "relative:0.5", "LASTBEAT_STRAGGLER_SCORES": SCORES},
     {"LASTBEAT_STRAGGLERS": "relative:0.5,individual:0.8"},
     [f"LASTBEAT_STRAGGLER_SCORES={SCORES} is now LASTBEAT_STRAGGLERS=relative:0.5,individual:0.8"]),
    ("blank is unset", {"LASTBEAT_GROUP_RUNS": " "}, {}, []),
]))  # fmt: skip
def test_old_and_new_names_side_by_side(
    tmp_path: Path, environ: dict[str, str], same: dict[str, str], hints: list[str]
) -> None:
    old, new = loaded(tmp_path, **environ), loaded(tmp_path, **same)
    assert [old[each] for each in table.CORE] == [new[each] for each in table.CORE]
    assert list(old.name_hints) == hints


def test_the_new_name_in_the_file_outranks_the_old_one_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LASTBEAT_GROUPS=runs:3\nLASTBEAT_FANOUT=9\n")
    settings = loaded(tmp_path, LASTBEAT_GROUP_RUNS="7")
    assert (settings.fleet.group_runs, settings.fleet.fanout_runs) == (3, 9)


def test_faults_of_old_and_new_names_are_reported_together_each_by_its_name(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LASTBEAT_LEASE_SECONDS=2\n")
    environ = {"LASTBEAT_BEAT_SECONDS": "1,2", "LASTBEAT_GROUP_RUNS": "1", "STALE_MINUTES": "ten"}
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, **environ)
    assert sorted(caught.value.faults) == [
        "LASTBEAT_BEAT_SECONDS='1,2' has two values for 'seconds'; use for example 30",
        "LASTBEAT_GROUP_RUNS='1' is not a whole number from 2 on; use for example 5",
        "LASTBEAT_LEASE_SECONDS='2' is less than 20 seconds; use for example 60 (in .env)",
        "STALE_MINUTES='ten' is not a number of minutes; use for example 10",
    ]


def test_training_goes_on_without_an_old_name_that_is_wrong(tmp_path: Path) -> None:
    environ = {"MONITORING_ROOT": "/d", "LASTBEAT_RANK_BEAT_SECONDS": "often", "LASTBEAT_HEALTH_SECONDS": "5"}
    settings = load({}, environ, tmp_path, training=True)
    assert list(settings.ignored) == ["LASTBEAT_RANK_BEAT_SECONDS='often'"]
    beats = settings[table.BEAT_SECONDS]
    assert (beats.ranks, beats.health) == (60, 5)


def test_an_old_name_that_is_misspelt_leads_to_the_new_one(tmp_path: Path) -> None:
    assert loaded(tmp_path, LASTBEAT_STRAGLER_EVERY="10").name_hints == (
        "LASTBEAT_STRAGLER_EVERY is no setting of lastbeat; did you mean LASTBEAT_STRAGGLERS=every:10?",
    )
