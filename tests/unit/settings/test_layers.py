"""Arguments, then the environment, then ``.env``; all faults at once; no secret in any of them."""

import os
from pathlib import Path

import pytest

from lastbeat.settings import SettingsError, every_setting, load
from lastbeat.stores.kind import DIRECTORY, Root
from lastbeat.stores.s3 import MONITORING_REGION
from support.row_by_row import labelled

HOOK = "https://hooks.slack.com/services/T000/B000/made-up-for-a-test"


def test_an_argument_outranks_the_environment_and_that_outranks_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("STALE_MINUTES=3\nLASTBEAT_BLIND_MINUTES=3\nLASTBEAT_STALL_MINUTES=3\n")
    settings = load(
        {"STALE_MINUTES": "1"},
        {"STALE_MINUTES": "2", "LASTBEAT_BLIND_MINUTES": "2", "LASTBEAT_STALL_MINUTES": " "},
        tmp_path,
    )
    assert (settings.policy.stale_s, settings.policy.blind_s, settings.policy.stall_s) == (60, 120, 180)


@pytest.mark.parametrize(("arguments", "environ", "dotenv", "root"), labelled([
    ("a bucket on the command line outranks a root of the environment", {"MONITORING_BUCKET": "one"},
     {"MONITORING_ROOT": "/d"}, "", Root("s3", "one", "training-runs")),
    ("a bucket of the environment outranks a root of the file", {}, {"MONITORING_BUCKET": "two"},
     "MONITORING_ROOT=/d", Root("s3", "two", "training-runs")),
    ("a root on the command line outranks a bucket of the environment", {"MONITORING_ROOT": "/e"},
     {"MONITORING_BUCKET": "two"}, "", Root(DIRECTORY, "/e")),
    ("bucket and prefix may come from different places", {"MONITORING_BUCKET": "one"}, {"MONITORING_PREFIX": "p/q"},
     "", Root("s3", "one", "p/q")),
    ("root and bucket may both be given when they agree", {"MONITORING_BUCKET": "one",
     "MONITORING_ROOT": "s3://one/p"}, {}, "", Root("s3", "one", "p")),
]))  # fmt: skip
def test_whoever_speaks_last_says_where_runs_are(
    tmp_path: Path, arguments: dict[str, str], environ: dict[str, str], dotenv: str, root: Root
) -> None:
    (tmp_path / ".env").write_text(dotenv)
    assert load(arguments, environ, tmp_path).root == root


@pytest.mark.parametrize(("environ", "dotenv", "ignored"), labelled([
    ("a typing error", {"LASTBEAT_LEARN": "banana"}, "", ["LASTBEAT_LEARN='banana'"]),
    ("several, one of them in the file", {"LASTBEAT_BEAT_SECONDS": "often"}, "STALE_MINUTES=ten",
     ["LASTBEAT_BEAT_SECONDS='often'", "STALE_MINUTES='ten'"]),
    ("a secret by its name", {"LASTBEAT_DASHBOARD_TOKEN": "short"}, "", ["LASTBEAT_DASHBOARD_TOKEN (a secret)"]),
    ("a password in a value that should hold none", {"LASTBEAT_OWN_LOG": "https://ann:hunter2@x/"}, "",
     ["LASTBEAT_OWN_LOG='https://***@x/'"]),
    ("training alerts nobody itself", {"SLACK_WEBHOOK_URL": "nonsense"}, "", []),
    ("nor on a channel with a name", {"LASTBEAT_CHANNEL_X_SLACK_WEBHOOK_URL": "nonsense"}, "", []),
]))  # fmt: skip
def test_training_goes_on_without_a_setting_that_does_not_say_where_runs_lie(
    tmp_path: Path, environ: dict[str, str], dotenv: str, ignored: list[str]
) -> None:
    (tmp_path / ".env").write_text(dotenv)
    settings = load({}, {"MONITORING_ROOT": "/d", **environ}, tmp_path, training=True)
    assert sorted(settings.ignored) == sorted(ignored)
    assert settings.root == Root(DIRECTORY, "/d")
    default = load({}, {"MONITORING_ROOT": "/d"}, Path("/nonexistent"))
    assert settings.policy == default.policy
    told = "\n".join(settings.ignored_told())
    assert all(name.partition("=")[0].partition(" ")[0] in told for name in ignored)
    assert "hunter2" not in told
    with pytest.raises(SettingsError):
        load({}, {"MONITORING_ROOT": "/d", **environ}, tmp_path)


@pytest.mark.parametrize(("arguments", "environ"), labelled([
    ("the root", {}, {"MONITORING_ROOT": "s3://x"}),
    ("the bucket", {}, {"MONITORING_BUCKET": "X"}),
    ("the prefix", {}, {"MONITORING_BUCKET": "b-1", "MONITORING_PREFIX": "a//b"}),
    ("the store's address", {}, {"MONITORING_ROOT": "s3://b-1/p", "AWS_ENDPOINT_URL": "nowhere"}),
    ("an argument, which its user sees at once", {"LASTBEAT_SECTION_TIMEOUTS": "step"}, {}),
]))  # fmt: skip
def test_training_does_not_guess_where_runs_lie(
    tmp_path: Path, arguments: dict[str, str], environ: dict[str, str]
) -> None:
    with pytest.raises(SettingsError):
        load(arguments, environ, tmp_path, training=True)


def test_training_does_without_a_file_of_settings_only_where_the_root_is_known(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"MONITORING_ROOT=/\xff\xfe")
    assert list(load({}, {"MONITORING_ROOT": "/d"}, tmp_path, training=True).ignored) == [".env"]
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load({}, {}, tmp_path, training=True)


def test_every_setting_that_is_on_or_off_takes_the_same_words() -> None:
    switches = [setting for setting in every_setting() if setting.default in {"on", "off"}]
    assert len(switches) > 4
    for setting in switches:
        for words in (("on", "ON", "true", "True", "1", "yes"), ("off", "false", "FALSE", "0", "no")):
            assert {setting.read(word) for word in words} == {setting.read(words[0])}, setting.name


def test_root_and_bucket_that_disagree_on_one_command_line_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--root and --bucket name two different places"):
        load({"MONITORING_BUCKET": "one", "MONITORING_ROOT": "s3://two/p"}, {}, tmp_path)


def test_all_faults_are_reported_at_once_and_each_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("LASTBEAT_SWEEP=lease_seconds:soon\n")
    with pytest.raises(SettingsError) as caught:
        load({"STALE_MINUTES": "ten"}, {"ALERT_ON": "loud", "MONITORING_BUCKET": "B"}, tmp_path)
    told = caught.value.faults
    assert len(told) == 4
    assert "--stale-minutes='ten' is not a number of minutes; use for example 10" in told
    assert any(
        fault.startswith("LASTBEAT_SWEEP='lease_seconds:soon'") and fault.endswith("(in .env)") for fault in told
    )
    assert all(fault in str(caught.value) for fault in told)


def test_an_argument_that_is_given_and_empty_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"MONITORING_BUCKET": "", "SLACK_WEBHOOK_URL": " "}, {"MONITORING_BUCKET": "b-1"}, tmp_path)
    assert [fault.split()[0] for fault in caught.value.faults] == ["--bucket", "--slack-webhook"]


def test_a_secret_is_never_shown_in_a_fault_or_a_repr(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"SLACK_WEBHOOK_URL": "ftp://hooks.slack.com/hush-hush"}, {}, tmp_path)
    assert "hush-hush" not in str(caught.value)
    assert "--slack-webhook" in str(caught.value)
    with pytest.raises(SettingsError) as caught:
        load({}, {"MONITORING_ROOT": "s3://key:hush-hush@bucket/p", "AWS_ENDPOINT_URL": "x://u:hush-hush@h"}, tmp_path)
    assert "hush-hush" not in str(caught.value)
    settings = load({}, {"SLACK_WEBHOOK_URL": HOOK, "AWS_SECRET_ACCESS_KEY": "hush-hush-hush-hush"}, tmp_path)
    assert set(settings.secrets) == {HOOK, "hush-hush-hush-hush"}
    assert "hush-hush" not in repr(settings)
    assert "made-up" not in repr(settings)


def test_what_the_file_says_to_boto3_is_passed_on_and_the_process_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("AWS_PROFILE=from-file\nAWS_REGION=eu-west-1\nSTALE_MINUTES=7\n")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("STALE_MINUTES", "")
    before = dict(os.environ)
    settings = load({}, directory=tmp_path)
    assert settings.environ["AWS_PROFILE"] == "from-file"
    assert settings[MONITORING_REGION] == settings.environ["AWS_REGION"] == "eu-north-1"
    assert settings.policy.stale_s == 420
    assert dict(os.environ) == before


def test_a_folder_called_dotenv_is_no_settings_file(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    assert load({}, {}, tmp_path).policy.stale_s == 600


def test_without_any_home_there_is_no_default_state_directory(tmp_path: Path) -> None:
    settings = load({}, {"HOME": "relative"}, tmp_path)
    assert settings.state_dir is None
