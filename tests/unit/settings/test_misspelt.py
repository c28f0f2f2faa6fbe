"""What people are told of a name that is nearly the name of a setting."""

import os
from pathlib import Path

import pytest

from lastbeat.settings import every_setting, load
from support.cli import LASTBEAT, call
from support.row_by_row import labelled

SETTING = "is no setting of lastbeat"


def told(tmp_path: Path, *names: str, in_file: tuple[str, ...] = (), training: bool = False) -> tuple[str, ...]:
    if in_file:
        (tmp_path / ".env").write_text("".join(f"{name}=1\n" for name in in_file), encoding="utf-8")
    environ = {"MONITORING_ROOT": "/d", **dict.fromkeys(names, "1")}
    return load({}, environ, tmp_path, channels=not training).name_hints


@pytest.mark.parametrize(("name", "meant"), labelled([
    ("a letter too few", "SLACK_WEBHOK_URL", "SLACK_WEBHOOK_URL"),
    ("two letters that changed places", "SALCK_WEBHOOK_URL", "SLACK_WEBHOOK_URL"),
    ("the last word is missing", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL"),
    ("an underscore is missing", "SLACKWEBHOOK_URL", "SLACK_WEBHOOK_URL"),
    ("small letters", "slack_webhook_url", "SLACK_WEBHOOK_URL"),
    ("a word too many", "MONITORING_BUCKET_NAME", "MONITORING_BUCKET"),
    ("without its beginning, and near another one", "STALL_MINUTES", "LASTBEAT_STALL_MINUTES"),
    ("with a beginning that it has not", "LASTBEAT_STALE_MINUTES", "STALE_MINUTES"),
    ("with the wrong beginning", "LASTBEAT_BUCKET", "MONITORING_BUCKET"),
    ("the wrong unit", "LASTBEAT_STALL_SECONDS", "LASTBEAT_STALL_MINUTES"),
    ("our name in two words", "LAST_BEAT_STALL_MINUTES", "LASTBEAT_STALL_MINUTES"),
]))  # fmt: skip
def test_a_misspelt_name_is_told_with_the_right_one(tmp_path: Path, name: str, meant: str) -> None:
    assert told(tmp_path, name) == (f"{name} {SETTING}; did you mean {meant}?",)
    assert told(tmp_path, in_file=(name,)) == (f"{name} (in .env) {SETTING}; did you mean {meant}?",)


def test_a_root_under_another_name_is_told_where_there_is_none(tmp_path: Path) -> None:
    assert load({}, {"MONITORING_ROOT_URL": "s3://b-1/p"}, tmp_path).name_hints == (
        f"MONITORING_ROOT_URL {SETTING}; did you mean MONITORING_ROOT?",
    )


def test_whatever_begins_as_ours_do_is_told(tmp_path: Path) -> None:
    assert told(tmp_path, "LASTBEAT_QQQ") == (f"LASTBEAT_QQQ {SETTING}",)


FOREIGN = """
SLACK_TOKEN SLACK_APP_TOKEN SLACK_SIGNING_SECRET SLACK_CLIENT_ID SLACK_API_URL SLACK_WEBHOOK_URL_STAGING
MONITORING_HOST MONITORING_PORT MONITORING_ENABLED MONITORING_URL MONITORING_INTERVAL MONITOR MONITORING
SNS_TOPIC_NAME SNS_ENDPOINT STALE STATE_DIR ALERT_ONLY ALERT_EMAIL ALERTMANAGER_URL
AWS_PROFIL AWS_REGIONS AWS_ENDPOINT_URL_S3 AWS_ROLE_ARN AWS_CONTAINER_CREDENTIALS_FULL_URI
AZURE_STORAGE_ACCOUNT AZURE_CLIENT_ID AZURE_TENANT_ID AZURE_STORAGE_KEY GOOGLE_CLOUD_PROJECT STORAGE_HOST
LOG_LEVEL LOG_FILE LOGS QUEUE_URL WEBHOOK_URL DASHBOARD_URL SIGNALS GUARDIAN INTERVAL_SECONDS PAGE_MINUTES
LAST_COMMIT LASTPIPE BEAT SLURM_JOB_ID SLURM_RESTART_COUNT LASTBEAT_RESTART_COUNT PATH HOME S LASTBEAT _LASTBEAT_LINE
"""


def test_other_programs_names_are_their_own_affair(tmp_path: Path) -> None:
    assert told(tmp_path, *FOREIGN.split()) == ()
    assert load({}, dict(os.environ), tmp_path).name_hints == ()


def test_nothing_is_said_of_any_setting_or_of_what_is_left_blank(tmp_path: Path) -> None:
    names = {name for setting in every_setting() for name in (setting.name, *setting.stands_in)}
    assert load({}, dict.fromkeys(names, " "), tmp_path).name_hints == ()
    assert load({}, {"SLACK_WEBHOOK": " ", "MONITORING_ROOT": "/d"}, tmp_path).name_hints == ()


def test_who_has_the_right_name_has_the_other_for_something_else(tmp_path: Path) -> None:
    environ = {"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T/B/X", "SLACK_WEBHOOK": "1"}
    assert load({}, environ, tmp_path).name_hints == ()
    assert load({"MONITORING_BUCKET": "b-1"}, {"MONITORING_BUKET": "b-2"}, tmp_path).name_hints == ()


@pytest.mark.parametrize(("names", "tells"), labelled([
    ("a beginning left out", ("DASHBOARD_URL", "STALE_MINUTES"), "did you mean LASTBEAT_DASHBOARD_URL?"),
    ("a provider's key", ("AWS_SECRET_ACESS_KEY",), "did you mean AWS_SECRET_ACCESS_KEY?"),
    ("a provider's file", ("GOOGLE_APPLICATION_CREDENTIAL",), "did you mean GOOGLE_APPLICATION_CREDENTIALS?"),
    ("a word in the middle", ("MONITORING_S3_BUCKET",), "did you mean MONITORING_BUCKET?"),
    ("the file of another program, by its other keys", ("DASHBOARD_URL",), ""),
    ("names that anybody has", ("STALE_MINUTES", "LOG_LEVEL", "GROUPS"), ""),
    ("right ones", ("AWS_ACCESS_KEY_ID", "AZURE_CLIENT_ID", "AWS_PROFILE", "AWS_ROLE_ARN"), ""),
]))  # fmt: skip
def test_in_a_file_of_settings_less_is_enough(tmp_path: Path, names: tuple[str, ...], tells: str) -> None:
    said = told(tmp_path, in_file=names)
    assert len(said) == bool(tells)
    assert tells in "".join(said)


def test_training_says_only_what_is_near_one_of_its_own(tmp_path: Path) -> None:
    names = ("MONITORING_BUKET", "LASTBEAT_WEBHOOK_URL", "SLACK_WEBHOOK_URL", "LASTBEAT_QQQ")
    assert told(tmp_path, *names, training=True) == (f"MONITORING_BUKET {SETTING}; did you mean MONITORING_BUCKET?",)


def test_a_command_says_it_once_and_goes_on(tmp_path: Path) -> None:
    done = call(LASTBEAT, "test-alert", cwd=tmp_path, MONITORING_ROOT=str(tmp_path), SLACK_WEBHOK_URL="x")
    assert done.stderr.count(f"SLACK_WEBHOK_URL {SETTING}; did you mean SLACK_WEBHOOK_URL?") == 1
    assert done.stdout or done.returncode == 0, done.stderr


def test_the_doctor_says_it_among_its_checks(tmp_path: Path) -> None:
    done = call(LASTBEAT, "doctor", cwd=tmp_path, MONITORING_ROOT=str(tmp_path), SLACK_WEBHOK_URL="x")
    said = f"warn  settings: SLACK_WEBHOK_URL {SETTING}; did you mean SLACK_WEBHOOK_URL?"
    assert said in done.stdout.splitlines()
    assert SETTING not in done.stderr
