"""The page at the function's own address: what the token opens, and that nothing else does."""

import json
from pathlib import Path
from typing import Any

import pytest

from lastbeat import settings
from lastbeat_lambda import events
from lastbeat_lambda.fleet_page import FleetPage, left_s
from support.row_by_row import labelled
from support.web_events import content, document, web

pytest.importorskip("apig_wsgi", reason="apig-wsgi is not installed; the group dev has it")
TOKEN = "a-token-of-some-length"


class Address:
    """The function's address, over a fleet of one run."""

    def __init__(self, root: Path, token: str = TOKEN) -> None:
        (root / "mistral").mkdir()
        (root / "mistral" / "metadata.json").write_text(json.dumps({"run_id": "mistral", "phase": token}))
        self.page = FleetPage(
            settings.load(
                environ={"MONITORING_ROOT": str(root), "LASTBEAT_DASHBOARD_TOKEN": f"view:{token}"}, directory=root
            )
        )

    def ask(self, *request: str, **more: str) -> dict[str, Any]:
        return self.page.answer(web(*request, **more), None)

    @property
    def cookie(self) -> str:
        (given,) = self.ask("/", f"token={TOKEN}")["cookies"]
        return str(given).partition(";")[0]


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(tmp_path)


def test_the_token_is_exchanged_for_a_cookie_that_only_goes_over_tls(address: Address) -> None:
    answer = address.ask("/", f"token={TOKEN}")
    assert (answer["statusCode"], answer["headers"]["location"]) == (303, "./")
    (cookie,) = answer["cookies"]
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")
    assert TOKEN not in cookie
    form = address.ask("/", method="POST", body=f"token={TOKEN}", sec_fetch_site="same-origin")
    assert form["cookies"] == [cookie]


def test_the_page_and_its_data_are_those_of_the_dashboard(address: Address) -> None:
    assert [address.ask(path)["statusCode"] for path in ("/", "/data/fleet")] == [401, 401]
    page = address.ask("/", cookie=address.cookie)
    assert (page["statusCode"], page["isBase64Encoded"]) == (200, True)
    assert "App.start();" in content(page)
    assert page["headers"]["content-security-policy"].startswith("default-src 'none'")
    fleet = document(address.ask("/data/fleet", cookie=address.cookie))
    assert [row["run_id"] for row in fleet["runs"]] == ["mistral"]
    assert (fleet["live"], fleet["interval_s"]) == (True, 30.0)
    run = document(address.ask("/data/runs/mistral", authorization=f"Bearer {TOKEN}"))
    assert run["run"]["run_id"] == "mistral"
    assert address.ask("/data/runs/no-such-run", cookie=address.cookie)["statusCode"] == 404
    assert address.ask("/metrics", authorization=f"Bearer {TOKEN}")["statusCode"] == 404


def test_the_token_is_masked_wherever_it_turns_up(address: Address) -> None:
    assert TOKEN not in content(address.ask("/data/fleet", cookie=address.cookie))


def test_an_open_page_is_answered_from_one_look_an_interval(address: Address, tmp_path: Path) -> None:
    first = document(address.ask("/data/fleet", cookie=address.cookie))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metadata.json").write_text('{"run_id": "other"}')
    asked = f"since={first['seq']}&epoch={first['epoch']}"
    again = document(address.ask("/data/fleet", asked, cookie=address.cookie))
    assert (again["runs"], again["since"]) == ([], first["seq"])


def test_without_a_token_there_is_no_page(tmp_path: Path) -> None:
    page = FleetPage(settings.load(environ={"MONITORING_ROOT": str(tmp_path)}, directory=tmp_path))
    assert page.answer(web("/"), None)["statusCode"] == 404


LEFT: list[Any] = [
    ("a warm environment answers at once", 0.0, 2.5),
    ("the start of a cold one counts", 1.5, 1.0),
    ("a request that waited too long is still answered", 9.0, 0.2),
    ("a clock that runs behind gives no more time", -9.0, 2.5),
]  # fmt: skip


@pytest.mark.parametrize(("ago_s", "left"), labelled(LEFT))
def test_slack_waits_for_three_seconds_wherever_they_went(ago_s: float, left: float) -> None:
    assert left_s(1_800_000_000.0, 1_800_000_000.0 + ago_s) == pytest.approx(left)


OTHERS: list[Any] = [
    ("a web request", web("/"), True),
    ("one that asks for a run", {"run_id": "mistral"}, False),
    ("a context of another kind", {"requestContext": {"elb": {}}}, False),
    ("no object", ["requestContext"], False),
]  # fmt: skip


@pytest.mark.parametrize(("event", "is_one"), labelled(OTHERS))
def test_what_a_web_request_is(event: object, is_one: bool) -> None:
    assert events.is_web_request(event) is is_one
