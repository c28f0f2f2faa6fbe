"""What each setting may be, what people are told when it is something else, and where alerts link to."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.setting import Setting
from lastbeat.model.status import Event
from lastbeat.settings import Settings, SettingsError, load, opening, table
from lastbeat.settings.table import BeatPeriods, GroupLimits, OwnLog, SectionTimeouts, Stragglers
from lastbeat.stores.kind import DIRECTORY, Root
from lastbeat.stores.s3 import MONITORING_REGION
from lastbeat.watch.observe.log_observer import log_settings
from support.row_by_row import labelled

TOKEN = "0123456789abcdef"


def loaded(tmp_path: Path, **environ: str) -> Settings:
    return load({}, {"HOME": "/home/somebody", **environ}, tmp_path)


def fault(tmp_path: Path, **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, **environ)
    return str(caught.value)


def test_with_nothing_set_every_value_is_its_documented_default(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert settings.root == Root(DIRECTORY, str(Path.cwd() / "training-runs"))
    assert settings[MONITORING_REGION] == "us-east-1"
    assert settings.state_dir == Path("/home/somebody/.local/state/lastbeat")
    policy = settings.policy
    assert (policy.stale_s, policy.stall_s, policy.start_grace_s) == (600, None, 0)
    assert (policy.blind_s, policy.lease_s) == (600, 60)
    assert {event.value for event in policy.alert_on} == {
        "FAILED", "TIMED_OUT", "SUCCEEDED", "RECOVERED", "WARNING",
    }  # fmt: skip
    assert (policy.inactivity_s, policy.absences, policy.poll_s) == (None, (), None)
    assert settings[table.SIGNALS] == "default"
    assert settings.secrets == ()
    assert "training-runs" in settings.warnings[0], "who set nothing learns where runs are looked for"


@pytest.mark.parametrize(("environ", "root"), labelled([
    ("bucket and prefix", {"MONITORING_ROOT": "s3://b-1/a/b"}, Root("s3", "b-1", "a/b")),
    ("no prefix is the default one", {"MONITORING_ROOT": "s3://b-1"}, Root("s3", "b-1", "training-runs")),
    ("a path is a directory", {"MONITORING_ROOT": "/data/runs"}, Root(DIRECTORY, "/data/runs")),
    ("spaces, colons", {"MONITORING_ROOT": "a b/ü:x"}, Root(DIRECTORY, str(Path.cwd() / "a b/ü:x"))),
    ("Google's", {"MONITORING_ROOT": "gs://b_1.x/a/b/"}, Root("gs", "b_1.x", "a/b")),
    ("a container of Azure's", {"MONITORING_ROOT": "az://c-1/a/b"}, Root("az", "c-1", "a/b")),
    ("a bucket alone", {"MONITORING_BUCKET": "b-1"}, Root("s3", "b-1", "training-runs")),
    ("a slash is the top", {"MONITORING_BUCKET": "b-1", "MONITORING_PREFIX": "/"}, Root("s3", "b-1", "")),
    ("the root outranks", {"MONITORING_BUCKET": "b-1", "MONITORING_ROOT": "/d"}, Root(DIRECTORY, "/d")),
    ("blank is unset", {"MONITORING_BUCKET": " ", "MONITORING_ROOT": "", "MONITORING_PREFIX": "\t"},
     Root(DIRECTORY, str(Path.cwd() / "training-runs"))),
]))  # fmt: skip
def test_the_fleet_root(tmp_path: Path, environ: dict[str, str], root: Root) -> None:
    assert loaded(tmp_path, **environ).root == root


@pytest.mark.parametrize(("name", "text", "says"), labelled([
    ("a word", "STALE_MINUTES", "ten", "is not a number of minutes; use for example 10"),
    ("Python's underscore", "STALE_MINUTES", "1_0", "is not a number"),
    ("not a number, by its name", "STALE_MINUTES", "nan", "is not a number"),
    ("zero", "STALE_MINUTES", "0", "is not more than 0"),
    ("too large for a float", "STALE_MINUTES", "1e999", "is more than 1000000 minutes"),
    ("a grace below zero", "LASTBEAT_START_MINUTES", "-1", "is negative"),
    ("a lease shorter than one delivery", "LASTBEAT_SWEEP", "lease_seconds:2", "'2' is less than 20"),
    ("a part that is wrong", "LASTBEAT_SWEEP", "fanout:2,lease_seconds:x",
     "has 'lease_seconds:x', and 'x' is not a number of"),
    ("a part that does not exist", "LASTBEAT_SWEEP", "lease:20",
     "has 'lease:20', which is none of read_minutes:…, discover_minutes:…"),
    ("a value without its key", "LASTBEAT_GROUPS", "5",
     "has '5', which is none of runs:…, minutes:…, repeat_hours:…; use for"),
    ("a part that stands twice", "LASTBEAT_GROUPS", "runs:5, runs:6", "has two values for 'runs'"),
    ("parts that are none", "LASTBEAT_GROUPS", ",", "names nothing"),
    ("one value, wrong", "LASTBEAT_BEAT_SECONDS", "often", "is not a number of seconds; use for"),
    ("a value without a key, wrong among others", "LASTBEAT_BEAT_SECONDS", "often,ranks:1",
     "has 'often', which is not a number of seconds"),
    ("a score above all others", "LASTBEAT_STRAGGLERS", "individual:1", "and '1' is no threshold"),
    ("a section without a limit", "LASTBEAT_SECTION_TIMEOUTS", "step", "has 'step', where a name"),
    ("too many sections", "LASTBEAT_SECTION_TIMEOUTS", ",".join(f"s{n}:1" for n in range(65)),
     "at most 64 may have one"),
    ("nobody's home", "LASTBEAT_STATE_DIR", "~no-such-user/x", "home directory"),
    ("an s3 root without a bucket", "MONITORING_ROOT", "s3://", "names no bucket"),
    ("an s3 root with one slash", "MONITORING_ROOT", "s3:/b-1/p", "lacks its slashes"),
    ("a foreign scheme", "MONITORING_ROOT", "ftp://b-1/p",
     "is neither s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"),
    ("Google's with a capital", "MONITORING_ROOT", "gs://Bucket/p", "is not a bucket's name"),
    ("Azure's without a container", "MONITORING_ROOT", "az:///p", "names no container"),
    ("Azure's with two hyphens", "MONITORING_ROOT", "az://a--b/p", "is not a container's name"),
    ("an account in the address", "MONITORING_ROOT", "az://c@account/p", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("an emulator with a space", "STORAGE_EMULATOR_HOST", "local host:1", "is not a host"),
    ("no scheme for Azure", "AZURE_STORAGE_ENDPOINT", "127.0.0.1:10000", "is not a web address"),
    ("a prefix that climbs", "MONITORING_ROOT", "s3://b-1/a/../b", "'.' or '..' part"),
    ("a prefix with an empty part", "MONITORING_ROOT", "s3://b-1/a//b", "empty"),
    ("a prefix with a bell", "MONITORING_PREFIX", "a/\x07", "control characters"),
    ("capitals and underscores", "MONITORING_BUCKET", "My_Bucket", "is not a bucket's name"),
    ("a bucket that is too long", "MONITORING_BUCKET", "a" * 64, "3 to 63"),
    ("an address for a bucket", "MONITORING_BUCKET", "s3://b-1/p", "give the name alone ('b-1')"),
    ("a path for a bucket", "MONITORING_BUCKET", "b-1/p", "or the whole address as the root"),
    ("a region with a space", "MONITORING_REGION", "us east", "is not a region's name"),
    ("an endpoint without scheme", "AWS_ENDPOINT_URL", "localhost:9000", "is not a web address"),
    ("an unknown word", "ALERT_ON", "failed,boom", "has no word 'boom'; allowed are failed,timed_out"),
    ("none and something", "ALERT_ON", "none,failed", "'none' beside other words"),
    ("only a comma", "ALERT_ON", ",", "nothing"),
    ("what can be guessed", "LASTBEAT_DASHBOARD_TOKEN", TOKEN[1:], "16 to 200 characters"),
    ("what no address can hold", "LASTBEAT_DASHBOARD_TOKEN", f"{TOKEN}/x", "is no token"),
    ("a right that is none", "LASTBEAT_DASHBOARD_TOKEN", f"admin:{TOKEN}", "neither view nor operate"),
    ("two tokens for one right", "LASTBEAT_DASHBOARD_TOKEN", f"{TOKEN} {TOKEN}x", "two tokens for operate"),
    ("one token for both rights", "LASTBEAT_DASHBOARD_TOKEN", f"view:{TOKEN} operate:{TOKEN}", "both rights"),
    ("logs that are none", "LASTBEAT_LOGS", ",", "names no file"),
    ("too many logs", "LASTBEAT_LOGS", "a," * 65, "64 are the most"),
]))  # fmt: skip
def test_what_a_wrong_value_is_told(tmp_path: Path, name: str, text: str, says: str) -> None:
    told = fault(tmp_path, **{name: text})
    assert told.startswith(name)
    assert says in told
    assert "\n" not in told
    assert TOKEN[1:] not in told, "it is a secret"


@pytest.mark.parametrize(("setting", "text", "value"), labelled([
    ("a value alone", table.STRAGGLERS, "on", Stragglers("on")),
    ("to set a part of it is to want it", table.STRAGGLERS, "every:10", Stragglers("on", every=10)),
    ("it is off where that is written", table.STRAGGLERS, "off,every:10", Stragglers(every=10)),
    ("a switch may stand alone", table.STRAGGLERS, " stop , json, ranks:0,", Stragglers("stop", json=True, ranks=0)),
    ("a score that is named alone is the only one", table.STRAGGLERS, "relative:0.5", Stragglers("on", relative=0.5,
     individual=None)),
    ("the beats of old", table.BEAT_SECONDS, "5", BeatPeriods(5.0)),
    ("the rest is as it was", table.BEAT_SECONDS, "ranks:0,health:1", BeatPeriods(30, 0, 1)),
    ("a section may have a colon in its name", table.SECTION_TIMEOUTS, "a:b:7,step:1,out_of_section:0",
     SectionTimeouts({"a:b": 7, "step": 1}, 0)),
    ("a file may have one, too", table.OWN_LOG, "info,file:/var/log/a:b.log", OwnLog("info", Path("/var/log/a:b.log"))),
    ("a part without a default", table.GROUPS, "repeat_hours:0.5", GroupLimits(repeat_hours=0.5)),
]))  # fmt: skip
def test_a_setting_of_several_parts(tmp_path: Path, setting: Setting[object], text: str, value: object) -> None:
    assert loaded(tmp_path, **{setting.name: text})[setting] == value


@given(st.text(max_size=30))
def test_any_text_for_a_number_is_a_finite_number_or_a_fault(text: str) -> None:
    try:
        value = load({}, {"STALE_MINUTES": text}, Path("/nonexistent")).policy.stale_s
    except SettingsError:
        return
    assert math.isfinite(value)
    assert value > 0


@given(st.text(max_size=60))
def test_any_text_for_a_root_is_a_place_or_a_fault(text: str) -> None:
    try:
        root = load({}, {"MONITORING_ROOT": text}, Path("/nonexistent")).root
    except SettingsError:
        return
    assert root.path.is_absolute() if root.scheme == DIRECTORY else root.place


@pytest.mark.parametrize(("text", "events"), labelled([
    ("one", "failed", {Event.FAILED}),
    ("case, spaces and a last comma", " Failed , TIMED_OUT,", {Event.FAILED, Event.TIMED_OUT}),
    ("one that is off by default", "restarted", {Event.RESTARTED}),
    ("nobody wants to hear anything", "none", set()),
]))  # fmt: skip
def test_what_alerts_go_out_for(tmp_path: Path, text: str, events: set[Event]) -> None:
    assert loaded(tmp_path, ALERT_ON=text).policy.alert_on == events


@pytest.mark.parametrize(("environ", "region"), labelled([
    ("boto3's own stands in", {"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"),
    ("the newer name first", {"AWS_REGION": "eu-west-2", "AWS_DEFAULT_REGION": "eu-3"}, "eu-west-2"),
    ("ours outranks both", {"AWS_REGION": "eu-west-2", "MONITORING_REGION": "auto"}, "auto"),
]))  # fmt: skip
def test_the_region(tmp_path: Path, environ: dict[str, str], region: str) -> None:
    assert loaded(tmp_path, **environ)[MONITORING_REGION] == region


@pytest.mark.parametrize(("environ", "directory"), labelled([
    ("XDG's folder", {"XDG_STATE_HOME": "/var/x"}, Path("/var/x/lastbeat")),
    ("never a relative one", {"XDG_STATE_HOME": "x"}, Path("/home/somebody/.local/state/lastbeat")),
    ("ours outranks", {"LASTBEAT_STATE_DIR": "/s"}, Path("/s")),
]))  # fmt: skip
def test_the_state_directory(tmp_path: Path, environ: dict[str, str], directory: Path) -> None:
    assert loaded(tmp_path, **environ).state_dir == directory


@pytest.mark.parametrize(("text", "minutes"), [("", 0.0), ("0", 0.0), ("0.5", 0.5)])
def test_how_often_the_page_is_written(tmp_path: Path, text: str, minutes: float) -> None:
    assert loaded(tmp_path, LASTBEAT_PAGE_MINUTES=text)[table.PAGE_MINUTES] == minutes


def test_a_token_is_a_secret(tmp_path: Path) -> None:
    settings = loaded(tmp_path, LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    assert (settings[table.DASHBOARD_TOKEN], settings.secrets) == ((TOKEN, ""), (TOKEN, TOKEN))
    assert TOKEN not in repr(settings)


def watching(tmp_path: Path, **environ: str) -> Settings:
    return load({}, {"HOME": "/home/somebody", **environ}, tmp_path, watching=True)


@pytest.mark.parametrize(("signals", "limits"), labelled([
    ("none by default", "", (None, None)),
    ("a built-in catalogue's", "megatron_stall_detection", (900.0, None)),
    ("the last of several has its way", "base, megatron_production", (1200.0, 180.0)),
]))  # fmt: skip
def test_the_limits_of_a_catalogue_are_the_policy_s(
    tmp_path: Path, signals: str, limits: tuple[float | None, float | None]
) -> None:
    policy = watching(tmp_path, LASTBEAT_SIGNALS=signals).policy
    assert (policy.inactivity_s, policy.poll_s) == limits


def test_signals_and_absence_rules_of_a_user_s_own_file_are_what_is_watched_for(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "signals:\n  saved:\n    substring: 'saved'\n    kind: checkpoint\n"
        "absences:\n  checkpoint_overdue:\n    signal: saved\n    within_s: 600\n    every_s: 300\n"
    )
    found = watching(tmp_path, LASTBEAT_SIGNALS=str(tmp_path / "own.yaml"))
    assert log_settings(found).catalogue().signals[0].name == "saved"
    (rule,) = found.policy.absences
    assert (rule.name, rule.signal, rule.within_s, rule.every_s) == ("checkpoint_overdue", "saved", 600, 300)


def test_faults_of_a_file_of_signals_are_told_with_all_others(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("signals:\n  a:\n    regex: '(('\n  b:\n    pattern: x\n    colour: red\n")
    with pytest.raises(SettingsError) as caught:
        watching(tmp_path, LASTBEAT_SIGNALS=str(path), STALE_MINUTES="ten")
    faults = caught.value.faults
    assert faults[0].startswith("STALE_MINUTES='ten'")
    assert len(faults) >= 3
    assert all(fault.startswith(f"LASTBEAT_SIGNALS: {path}:") for fault in faults[1:])


def test_who_reports_a_training_is_not_bothered_with_signals(tmp_path: Path) -> None:
    assert loaded(tmp_path, LASTBEAT_SIGNALS="no-such-file.yaml")[table.SIGNALS] == "no-such-file.yaml"
    with pytest.raises(SettingsError, match=r"no-such-file\.yaml"):
        watching(tmp_path, LASTBEAT_SIGNALS="no-such-file.yaml")
    with pytest.raises(SettingsError) as caught:
        watching(tmp_path, LASTBEAT_SIGNALS="nope")
    (fault,) = caught.value.faults
    assert fault.startswith("LASTBEAT_SIGNALS: there is no built-in catalogue 'nope'")


def test_logs_of_this_machine_are_patterns(tmp_path: Path) -> None:
    assert loaded(tmp_path, LASTBEAT_LOGS=" a.log, /var/log/*.out ,")[table.LOGS] == ("a.log", "/var/log/*.out")


@pytest.mark.parametrize(("settings", "link"), labelled([
    ("a dashboard", {"LASTBEAT_DASHBOARD_URL": "https://runs.example.com"}, "https://runs.example.com/#/runs/run%3A1"),
    ("below a path", {"LASTBEAT_DASHBOARD_URL": "https://h/team/"}, "https://h/team/#/runs/run%3A1"),
    ("the page that passes write", {"LASTBEAT_DASHBOARD_URL": "https://h/x/_watchdog/index.html"},
     "https://h/x/_watchdog/index.html#/runs/run%3A1"),
    ("a directory without one has none", {}, None),
    ("it outranks the console of S3", {"MONITORING_ROOT": "s3://b-1/p", "LASTBEAT_DASHBOARD_URL": "https://h"},
     "https://h/#/runs/run%3A1"),
]))  # fmt: skip
def test_run_link(tmp_path: Path, settings: dict[str, str], link: str | None) -> None:
    assert opening.run_link(load({"MONITORING_ROOT": str(tmp_path), **settings}, {}, tmp_path), "run:1") == link
