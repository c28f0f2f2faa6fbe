"""How often the page is written, and what opens the dashboard: what may be set, and what is said of the rest."""

from pathlib import Path

import pytest

from lastbeat.settings import Settings, SettingsError, load, table

TOKEN = "0123456789abcdef"


def loaded(tmp_path: Path, **environ: str) -> Settings:
    return load({}, {"HOME": "/home/somebody", **environ}, tmp_path)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        pytest.param("", 0.0, id="unset is off"),
        pytest.param("0", 0.0, id="nought is off"),
        pytest.param("5", 5.0, id="minutes"),
        pytest.param("0.5", 0.5, id="a part of one"),
    ],
)
def test_the_page(tmp_path: Path, text: str, minutes: float) -> None:
    assert loaded(tmp_path, LASTBEAT_PAGE_MINUTES=text)[table.PAGE_MINUTES] == minutes


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        pytest.param({"LASTBEAT_PAGE_MINUTES": "-1"}, "is negative", id="time does not run backwards"),
        pytest.param({"LASTBEAT_PAGE_MINUTES": "often"}, "is not a number of minutes", id="a word is no number"),
        pytest.param({"LASTBEAT_DASHBOARD_TOKEN": TOKEN[1:]}, "16 to 200 characters", id="what can be guessed"),
        pytest.param({"LASTBEAT_DASHBOARD_TOKEN": TOKEN + " x"}, "is no token", id="what no address can hold"),
        pytest.param({"LASTBEAT_DASHBOARD_TOKEN": TOKEN * 13}, "is no token", id="what is too long"),
    ],
)
def test_what_is_wrong_is_said_without_showing_a_secret(tmp_path: Path, environ: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, **environ)
    assert says in str(caught.value)
    assert TOKEN[1:] not in str(caught.value)


def test_a_token_is_a_secret(tmp_path: Path) -> None:
    settings = loaded(tmp_path, LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    assert settings[table.DASHBOARD_TOKEN] == TOKEN
    assert settings.secrets == (TOKEN,)
    assert TOKEN not in repr(settings)
