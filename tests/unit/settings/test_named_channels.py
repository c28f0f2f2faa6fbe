"""Channels with names of their own, beside the one of their kind."""

from pathlib import Path

import pytest

from lastbeat.settings import SettingsError, load, secrets_in
from lastbeat.settings.channels import configured_channels
from support.row_by_row import labelled

HOOK = "https://hooks.slack.com/services/T0/B0/abcdefgh"
OWN = "https://hooks.slack.com/services/T0/B1/ijklmnop"
ONCALL = "LASTBEAT_CHANNEL_ONCALL_SLACK_WEBHOOK_URL"


def names(environ: dict[str, str], folder: Path) -> list[str]:
    settings = load({}, environ, folder)
    return [channel.identity.rpartition(":")[0] for channel in configured_channels(settings)]


@pytest.mark.parametrize(("environ", "found"), labelled([
    ("one without a name", {"SLACK_WEBHOOK_URL": HOOK}, ["slack"]),
    ("two of a kind", {"SLACK_WEBHOOK_URL": HOOK, ONCALL: OWN}, ["slack", "slack:oncall"]),
    ("a name of two words, and a setting without LASTBEAT_",
     {"LASTBEAT_CHANNEL_GPU_TEAM_WEBHOOK_URL": "https://h.example.com/x"}, ["webhook:gpu-team"]),
    ("and with it", {"LASTBEAT_CHANNEL_X_LASTBEAT_WEBHOOK_URL": "https://h.example.com/x"}, ["webhook:x"]),
    ("a blank one is none", {ONCALL: "  "}, []),
]))  # fmt: skip
def test_names(tmp_path: Path, environ: dict[str, str], found: list[str]) -> None:
    assert names(environ, tmp_path) == found


def test_they_stand_in_a_file_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{ONCALL}={OWN}\n")
    assert names({}, tmp_path) == ["slack:oncall"]
    assert load({}, {}, tmp_path).name_hints == ()


def test_what_one_does_not_have_of_its_own_it_takes_from_the_others(tmp_path: Path) -> None:
    environ = {"LASTBEAT_WEBHOOK_SECRET": "s3cr3t-s3cr3t", "LASTBEAT_CHANNEL_X_WEBHOOK_URL": "https://h.example.com/x"}
    (channel,) = configured_channels(load({}, environ, tmp_path))
    assert channel.channel.secret == "s3cr3t-s3cr3t"  # type: ignore[attr-defined]


def test_their_secrets_are_secrets(tmp_path: Path) -> None:
    settings = load({}, {ONCALL: OWN}, tmp_path)
    assert OWN in settings.secrets
    assert OWN not in settings.redactor(f"it says {OWN}")
    assert OWN in secrets_in({ONCALL: OWN})
    (channel,) = configured_channels(settings)
    assert OWN not in f"{channel.describe} {channel.identity} {settings!r}"


@pytest.mark.parametrize(("name", "text", "what"), labelled([
    ("no setting", "LASTBEAT_CHANNEL_ONCALL_SLACK", OWN, "goes on with one of"),
    ("no name, which looks like one", "LASTBEAT_CHANNEL_SLACK_WEBHOOK_URL", OWN, "means something else"),
    ("a word of routes", "LASTBEAT_CHANNEL_ALL_SLACK_WEBHOOK_URL", OWN, "means something else"),
    ("a kind of channel", "LASTBEAT_CHANNEL_SNS_SLACK_WEBHOOK_URL", OWN, "means something else"),
    ("a value that is none", ONCALL, "http://example.com", ONCALL),
]))  # fmt: skip
def test_what_is_wrong_is_told_without_the_secret(tmp_path: Path, name: str, text: str, what: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({}, {name: text}, tmp_path)
    assert what in str(caught.value)
    assert text not in str(caught.value)


def test_training_is_watched_whatever_is_wrong_with_them(tmp_path: Path) -> None:
    load({}, {ONCALL: "x"}, tmp_path, channels=False)
