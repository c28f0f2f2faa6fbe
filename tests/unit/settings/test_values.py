"""What each setting may be, and what people are told when it is something else."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.setting import Setting
from lastbeat.model.status import Event
from lastbeat.settings import Settings, SettingsError, load, table
from lastbeat.settings.catalogues import catalogue
from lastbeat.settings.table import BeatPeriods, GroupLimits, OwnLog, SectionTimeouts, Stragglers
from lastbeat.stores.kind import DIRECTORY, Root
from lastbeat.stores.s3 import MONITORING_REGION

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


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        pytest.param({"MONITORING_ROOT": "s3://b-1/a/b"}, Root("s3", "b-1", "a/b"), id="bucket and prefix"),
        pytest.param({"MONITORING_ROOT": "S3://b-1/a/b/"}, Root("s3", "b-1", "a/b"), id="slashes at the end"),
        pytest.param(
            {"MONITORING_ROOT": "s3://b-1"}, Root("s3", "b-1", "training-runs"), id="no prefix is the default one"
        ),
        pytest.param(
            {"MONITORING_ROOT": "s3://b-1/", "MONITORING_PREFIX": "x"},
            Root("s3", "b-1", "x"),
            id="or the one set",
        ),
        pytest.param({"MONITORING_ROOT": "/data/runs"}, Root(DIRECTORY, "/data/runs"), id="a path is a directory"),
        pytest.param({"MONITORING_ROOT": "a b/ü:x"}, Root(DIRECTORY, str(Path.cwd() / "a b/ü:x")), id="spaces, colons"),
        pytest.param({"MONITORING_ROOT": "gs://b_1.x/a/b/"}, Root("gs", "b_1.x", "a/b"), id="Google's"),
        pytest.param({"MONITORING_ROOT": "GS://b-1"}, Root("gs", "b-1", "training-runs"), id="Google's, no prefix"),
        pytest.param({"MONITORING_ROOT": "az://c-1/a/b"}, Root("az", "c-1", "a/b"), id="a container of Azure's"),
        pytest.param({"MONITORING_BUCKET": "b-1"}, Root("s3", "b-1", "training-runs"), id="a bucket alone"),
        pytest.param(
            {"MONITORING_BUCKET": "b-1", "MONITORING_PREFIX": "/"},
            Root("s3", "b-1", ""),
            id="a slash is the top",
        ),
        pytest.param(
            {"MONITORING_BUCKET": "b-1", "MONITORING_ROOT": "/d"}, Root(DIRECTORY, "/d"), id="the root outranks"
        ),
        pytest.param(
            {"MONITORING_BUCKET": " ", "MONITORING_ROOT": "", "MONITORING_PREFIX": "\t"},
            Root(DIRECTORY, str(Path.cwd() / "training-runs")),
            id="blank is unset",
        ),
    ],
)
def test_the_fleet_root(tmp_path: Path, environ: dict[str, str], root: Root) -> None:
    assert loaded(tmp_path, **environ).root == root


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("STALE_MINUTES", "ten", "is not a number of minutes; use for example 10", id="a word"),
        pytest.param("STALE_MINUTES", "10m", "is not a number", id="a unit"),
        pytest.param("STALE_MINUTES", "0,5", "is not a number", id="a decimal comma"),
        pytest.param("STALE_MINUTES", "1_0", "is not a number", id="Python's underscore"),
        pytest.param("STALE_MINUTES", "\u0661\u0660", "is not a number", id="another script's digits"),
        pytest.param("STALE_MINUTES", "nan", "is not a number", id="not a number, by its name"),
        pytest.param("STALE_MINUTES", "inf", "is not a number", id="infinity"),
        pytest.param("STALE_MINUTES", "0", "is not more than 0", id="zero"),
        pytest.param("STALE_MINUTES", "-5", "is not more than 0", id="less than zero"),
        pytest.param("STALE_MINUTES", "1e-900", "is not more than 0", id="too small for a float"),
        pytest.param("STALE_MINUTES", "1e999", "is more than 1000000 minutes", id="too large for a float"),
        pytest.param("LASTBEAT_STALL_MINUTES", "0", "is not more than 0", id="a stall limit of zero"),
        pytest.param("LASTBEAT_START_MINUTES", "-1", "is negative", id="a grace below zero"),
        pytest.param(
            "LASTBEAT_SWEEP", "lease_seconds:2", "'2' is less than 20", id="a lease shorter than one delivery"
        ),
        pytest.param(
            "LASTBEAT_SWEEP",
            "fanout:2,lease_seconds:x",
            "has 'lease_seconds:x', and 'x' is not a number of",
            id="a part that is wrong",
        ),
        pytest.param(
            "LASTBEAT_SWEEP",
            "lease:20",
            "has 'lease:20', which is none of read_minutes:…, discover_minutes:…",
            id="a part that does not exist",
        ),
        pytest.param(
            "LASTBEAT_GROUPS",
            "5",
            "has '5', which is none of runs:…, minutes:…, repeat_hours:…; use for",
            id="a value without its key",
        ),
        pytest.param("LASTBEAT_GROUPS", "runs:5, runs:6", "has two values for 'runs'", id="a part that stands twice"),
        pytest.param("LASTBEAT_GROUPS", ",", "names nothing", id="parts that are none"),
        pytest.param("LASTBEAT_BEAT_SECONDS", "often", "is not a number of seconds; use for", id="one value, wrong"),
        pytest.param("LASTBEAT_BEAT_SECONDS", "1,2", "has two values for 'seconds'", id="two values without a key"),
        pytest.param(
            "LASTBEAT_BEAT_SECONDS",
            "often,ranks:1",
            "has 'often', which is not a number of seconds",
            id="a value without a key, wrong among others",
        ),
        pytest.param("LASTBEAT_STRAGGLERS", "individual:1", "and '1' is no threshold", id="a score above all others"),
        pytest.param("LASTBEAT_SECTION_TIMEOUTS", "step", "has 'step', where a name", id="a section without a limit"),
        pytest.param(
            "LASTBEAT_SECTION_TIMEOUTS",
            ",".join(f"s{n}:1" for n in range(65)),
            "at most 64 may have one",
            id="too many sections",
        ),
        pytest.param("LASTBEAT_BLIND_MINUTES", "x", "is not a number of minutes", id="a blind time that is a word"),
        pytest.param("LASTBEAT_STATE_DIR", "~no-such-user/x", "home directory", id="nobody's home"),
        pytest.param("MONITORING_ROOT", "s3://", "names no bucket", id="an s3 root without a bucket"),
        pytest.param("MONITORING_ROOT", "s3:/b-1/p", "lacks its slashes", id="an s3 root with one slash"),
        pytest.param(
            "MONITORING_ROOT",
            "ftp://b-1/p",
            "is neither s3://bucket/prefix, gs://bucket/prefix, az://container/prefix nor a directory",
            id="a foreign scheme",
        ),
        pytest.param("MONITORING_ROOT", "gs:b-1", "lacks its slashes", id="Google's without slashes"),
        pytest.param("MONITORING_ROOT", "gs:///p", "names no bucket", id="Google's without a bucket"),
        pytest.param("MONITORING_ROOT", "gs://Bucket/p", "is not a bucket's name", id="Google's with a capital"),
        pytest.param("MONITORING_ROOT", "az:///p", "names no container", id="Azure's without a container"),
        pytest.param("MONITORING_ROOT", "az://a--b/p", "is not a container's name", id="Azure's with two hyphens"),
        pytest.param(
            "MONITORING_ROOT", "az://c@account/p", "AZURE_STORAGE_ACCOUNT_NAME", id="an account in the address"
        ),
        pytest.param("MONITORING_ROOT", "az://c-1/a/../b", "'.' or '..' part", id="Azure's prefix that climbs"),
        pytest.param("STORAGE_EMULATOR_HOST", "local host:1", "is not a host", id="an emulator with a space"),
        pytest.param("AZURE_STORAGE_ENDPOINT", "127.0.0.1:10000", "is not a web address", id="no scheme for Azure"),
        pytest.param("MONITORING_ROOT", "file:///tmp", "is neither", id="a file URL"),
        pytest.param("MONITORING_ROOT", "s3://b-1/a/../b", "'.' or '..' part", id="a prefix that climbs"),
        pytest.param("MONITORING_ROOT", "s3://b-1/a//b", "empty", id="a prefix with an empty part"),
        pytest.param("MONITORING_PREFIX", "a/\x07", "control characters", id="a prefix with a bell"),
        pytest.param("MONITORING_BUCKET", "My_Bucket", "is not a bucket's name", id="capitals and underscores"),
        pytest.param("MONITORING_BUCKET", "ab", "3 to 63", id="a bucket that is too short"),
        pytest.param("MONITORING_BUCKET", "a" * 64, "3 to 63", id="a bucket that is too long"),
        pytest.param("MONITORING_BUCKET", "s3://b-1/p", "give the name alone ('b-1')", id="an address for a bucket"),
        pytest.param("MONITORING_BUCKET", "b-1/p", "or the whole address as the root", id="a path for a bucket"),
        pytest.param("MONITORING_REGION", "us east", "is not a region's name", id="a region with a space"),
        pytest.param("AWS_REGION", "Mars!", "is not a region's name", id="a region in boto3's own variable"),
        pytest.param("AWS_ENDPOINT_URL", "localhost:9000", "is not a web address", id="an endpoint without scheme"),
        pytest.param(
            "ALERT_ON", "failed,boom", "has no word 'boom'; allowed are failed,timed_out", id="an unknown word"
        ),
        pytest.param("ALERT_ON", "none,failed", "'none' beside other words", id="none and something"),
        pytest.param("ALERT_ON", ",", "nothing", id="only a comma"),
        pytest.param("LASTBEAT_PAGE_MINUTES", "-1", "is negative", id="time does not run backwards"),
        pytest.param("LASTBEAT_PAGE_MINUTES", "often", "is not a number of minutes", id="a word is no number"),
        pytest.param("LASTBEAT_DASHBOARD_TOKEN", TOKEN[1:], "16 to 200 characters", id="what can be guessed"),
        pytest.param("LASTBEAT_DASHBOARD_TOKEN", f"{TOKEN} x", "is no token", id="what no address can hold"),
        pytest.param("LASTBEAT_DASHBOARD_TOKEN", TOKEN * 13, "is no token", id="what is too long for a token"),
        pytest.param("LASTBEAT_LOGS", ",", "names no file", id="logs that are none"),
        pytest.param("LASTBEAT_LOGS", "a," * 65, "64 are the most", id="too many logs"),
    ],
)
def test_what_a_wrong_value_is_told(tmp_path: Path, name: str, text: str, says: str) -> None:
    told = fault(tmp_path, **{name: text})
    assert told.startswith(name)
    assert says in told
    assert "\n" not in told
    assert TOKEN[1:] not in told, "it is a secret"


@pytest.mark.parametrize(
    ("setting", "text", "value"),
    [
        pytest.param(table.STRAGGLERS, "on", Stragglers("on"), id="a value alone"),
        pytest.param(table.STRAGGLERS, "every:10", Stragglers("on", every=10), id="to set a part of it is to want it"),
        pytest.param(table.STRAGGLERS, "off,every:10", Stragglers(every=10), id="it is off where that is written"),
        pytest.param(
            table.STRAGGLERS, " stop , json, ranks:0,", Stragglers("stop", json=True, ranks=0),
            id="a switch may stand alone",
        ),
        pytest.param(
            table.STRAGGLERS, "relative:0.5", Stragglers("on", relative=0.5, individual=None),
            id="a score that is named alone is the only one",
        ),
        pytest.param(table.BEAT_SECONDS, "5", BeatPeriods(5.0), id="the beats of old"),
        pytest.param(table.BEAT_SECONDS, "ranks:0,health:1", BeatPeriods(30, 0, 1), id="the rest is as it was"),
        pytest.param(
            table.SECTION_TIMEOUTS, "a:b:7,step:1,out_of_section:0", SectionTimeouts({"a:b": 7, "step": 1}, 0),
            id="a section may have a colon in its name",
        ),
        pytest.param(
            table.OWN_LOG, "info,file:/var/log/a:b.log", OwnLog("info", Path("/var/log/a:b.log")),
            id="a file may have one, too",
        ),
        pytest.param(table.GROUPS, "repeat_hours:0.5", GroupLimits(repeat_hours=0.5), id="a part without a default"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("text", "events"),
    [
        pytest.param("failed", {Event.FAILED}, id="one"),
        pytest.param(" Failed , TIMED_OUT,", {Event.FAILED, Event.TIMED_OUT}, id="case, spaces and a last comma"),
        pytest.param("restarted", {Event.RESTARTED}, id="one that is off by default"),
        pytest.param("none", set(), id="nobody wants to hear anything"),
    ],
)
def test_what_alerts_go_out_for(tmp_path: Path, text: str, events: set[Event]) -> None:
    assert loaded(tmp_path, ALERT_ON=text).policy.alert_on == events


@pytest.mark.parametrize(
    ("environ", "region"),
    [
        pytest.param({"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1", id="boto3's own stands in"),
        pytest.param({"AWS_REGION": "eu-west-2", "AWS_DEFAULT_REGION": "eu-3"}, "eu-west-2", id="the newer name first"),
        pytest.param({"AWS_REGION": "eu-west-2", "MONITORING_REGION": "auto"}, "auto", id="ours outranks both"),
    ],
)
def test_the_region(tmp_path: Path, environ: dict[str, str], region: str) -> None:
    assert loaded(tmp_path, **environ)[MONITORING_REGION] == region


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        pytest.param({"XDG_STATE_HOME": "/var/x"}, Path("/var/x/lastbeat"), id="XDG's folder"),
        pytest.param({"XDG_STATE_HOME": "x"}, Path("/home/somebody/.local/state/lastbeat"), id="never a relative one"),
        pytest.param({"LASTBEAT_STATE_DIR": "/s"}, Path("/s"), id="ours outranks"),
    ],
)
def test_the_state_directory(tmp_path: Path, environ: dict[str, str], directory: Path) -> None:
    assert loaded(tmp_path, **environ).state_dir == directory


@pytest.mark.parametrize(("text", "minutes"), [("", 0.0), ("0", 0.0), ("5", 5.0), ("0.5", 0.5)])
def test_how_often_the_page_is_written(tmp_path: Path, text: str, minutes: float) -> None:
    assert loaded(tmp_path, LASTBEAT_PAGE_MINUTES=text)[table.PAGE_MINUTES] == minutes


def test_a_token_is_a_secret(tmp_path: Path) -> None:
    settings = loaded(tmp_path, LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    assert (settings[table.DASHBOARD_TOKEN], settings.secrets) == (TOKEN, (TOKEN,))
    assert TOKEN not in repr(settings)


def watching(tmp_path: Path, **environ: str) -> Settings:
    return load({}, {"HOME": "/home/somebody", **environ}, tmp_path, watching=True)


def test_the_limits_of_the_default_catalogue_are_none_so_it_need_not_be_loaded_for_them() -> None:
    found = catalogue("default")
    assert (found.inactivity_s, found.absences, found.poll_s) == (None, (), None)


@pytest.mark.parametrize(
    ("signals", "limits"),
    [
        pytest.param("", (None, None), id="none by default"),
        pytest.param("megatron_stall_detection", (900.0, None), id="a built-in catalogue's"),
        pytest.param("base, megatron_production", (1200.0, 180.0), id="the last of several has its way"),
    ],
)
def test_the_limits_of_a_catalogue_are_the_policy_s(
    tmp_path: Path, signals: str, limits: tuple[float | None, float | None]
) -> None:
    policy = watching(tmp_path, LASTBEAT_SIGNALS=signals).policy
    assert (policy.inactivity_s, policy.poll_s) == limits


def test_absence_rules_of_a_user_s_own_file_are_the_policy_s(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "signals:\n  saved:\n    substring: 'saved'\n    kind: checkpoint\n"
        "absences:\n  checkpoint_overdue:\n    signal: saved\n    within_s: 600\n    every_s: 300\n"
    )
    (rule,) = watching(tmp_path, LASTBEAT_SIGNALS=str(tmp_path / "own.yaml")).policy.absences
    assert (rule.name, rule.signal, rule.within_s, rule.every_s) == ("checkpoint_overdue", "saved", 600, 300)


def test_a_catalogue_that_does_not_exist_is_told_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        watching(tmp_path, LASTBEAT_SIGNALS="nope")
    (fault,) = caught.value.faults
    assert fault.startswith("LASTBEAT_SIGNALS: there is no built-in catalogue 'nope'")


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
    with pytest.raises(SettingsError, match=r"there is no built-in catalogue"):
        watching(tmp_path, LASTBEAT_SIGNALS="megatron_producton")


def test_logs_of_this_machine_are_patterns(tmp_path: Path) -> None:
    assert loaded(tmp_path, LASTBEAT_LOGS=" a.log, /var/log/*.out ,")[table.LOGS] == (
        "a.log",
        "/var/log/*.out",
    )
