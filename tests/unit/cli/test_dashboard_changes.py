"""Who may change something through the dashboard: only its own page, in a browser that was let in by the token."""

import io
from typing import Any

import pytest

from lastbeat.views.served.app import BODY_BYTES
from lastbeat.views.served.door import Door
from support.dashboard_app import TOKEN, Got, Silences, app, ask

HOST = "box.example:8000"
DOOR = Door(local=False, token=TOKEN, name="lastbeat-1")
COOKIE = str(DOOR.cookie_for(f"token={TOKEN}")).partition(";")[0]


def sent(
    door: Door = DOOR, silences: Silences | None = None, **changed: str | None
) -> tuple[Got, list[tuple[bytes, str]]]:
    """The answer to what the page sends, but for what is ``changed``, where None leaves it out; and what was done."""
    content = b'{"lift": "1"}'
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/api/changes",
        "REMOTE_ADDR": "10.0.0.7",
        "HTTP_HOST": HOST,
        "HTTP_COOKIE": COOKIE,
        "HTTP_ORIGIN": f"http://{HOST}",
        "HTTP_SEC_FETCH_SITE": "same-origin",
        "HTTP_X_LASTBEAT": "page",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(content)),
        "wsgi.input": io.BytesIO(content),
    }
    environ |= changed
    silences = silences or Silences()
    said = {name: value for name, value in environ.items() if value is not None}
    return ask(app(door=door, silences=silences), environ=said), silences.asked


PLAIN = {"HTTP_SEC_FETCH_SITE": None}
"""Over plain HTTP browsers say no Sec-Fetch-Site, but to this machine."""


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        pytest.param({}, 200, id="the page's own script"),
        pytest.param(PLAIN, 200, id="over plain HTTP, where its origin tells"),
        pytest.param({"HTTP_ORIGIN": None}, 200, id="a proxy that takes the origin away leaves what the browser says"),
        pytest.param({"HTTP_HOST": "127.0.0.1:8000"}, 200, id="a proxy that names us by another name, likewise"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": f"https://{HOST}"}, 200, id="a proxy with TLS"),
        pytest.param({"CONTENT_TYPE": "application/json; charset=utf-8"}, 200, id="JSON that says its letters"),
        pytest.param({"HTTP_COOKIE": None}, 401, id="no cookie"),
        pytest.param({"HTTP_COOKIE": f"{COOKIE}x"}, 401, id="a wrong cookie"),
        pytest.param({"HTTP_COOKIE": f"lastbeat-1={TOKEN}"}, 401, id="the token is not its cookie"),
        pytest.param({"HTTP_COOKIE": None, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, 401, id="a program that may look"),
        pytest.param({"HTTP_SEC_FETCH_SITE": "cross-site"}, 403, id="a page of another site"),
        pytest.param({"HTTP_SEC_FETCH_SITE": "same-site"}, 403, id="one at another port of this machine"),
        pytest.param({"HTTP_SEC_FETCH_SITE": "none"}, 403, id="no page at all"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": None}, 403, id="nothing tells where it comes from"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": "null"}, 403, id="a page that hides its origin"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": "http://box.example:9999"}, 403, id="another port is another origin"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": f"http://{HOST}.evil.example"}, 403, id="one that begins alike"),
        pytest.param({**PLAIN, "HTTP_ORIGIN": f"file://{HOST}"}, 403, id="a file"),
        pytest.param({"HTTP_X_LASTBEAT": None}, 403, id="no header of its own, as a form sends it"),
        pytest.param({"CONTENT_TYPE": "text/plain"}, 415, id="what a form may send"),
        pytest.param({"CONTENT_LENGTH": None}, 411, id="no length"),
        pytest.param({"CONTENT_LENGTH": "-1"}, 411, id="a length that is none"),
        pytest.param({"CONTENT_LENGTH": str(BODY_BYTES + 1)}, 413, id="a body that is too long"),
    ],
)
def test_a_change_is_made_where_all_protections_hold(changed: dict[str, Any], status: int) -> None:
    got, done = sent(**changed)
    assert got.status == status
    assert done == ([(b'{"lift": "1"}', "10.0.0.7")] if status == 200 else [])
    assert "Set-Cookie" not in got.headers
    assert not any(name.startswith("Access-Control") for name in got.headers)
    if status != 200:
        assert set(got.json) == {"error", "advice"}
        assert got.json["error"]


VIEW = "a-token-for-looking-only"
BOTH = Door(local=False, token=TOKEN, view_token=VIEW, name="lastbeat-1")
PROXIED = Door(local=False, token=TOKEN, view_token=VIEW, name="lastbeat-1", user_header="X-User")


def cookie(given: str, door: Door = BOTH) -> str:
    return str(door.cookie_for(f"token={given}")).partition(";")[0]


@pytest.mark.parametrize(
    ("door", "changed", "status", "user"),
    [
        pytest.param(BOTH, {"HTTP_COOKIE": cookie(TOKEN)}, 200, "", id="the token to operate"),
        pytest.param(BOTH, {"HTTP_COOKIE": cookie(VIEW)}, 403, "", id="the token to view"),
        pytest.param(
            Door(local=False, view_token=VIEW, name="lastbeat-1"), {"HTTP_COOKIE": cookie(VIEW)}, 403, "",
            id="nobody may operate",
        ),
        pytest.param(
            PROXIED, {"HTTP_COOKIE": None, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}", "HTTP_X_USER": "ana"}, 200, "ana",
            id="a proxy that knows the user and may operate",
        ),
        pytest.param(
            PROXIED,
            {"HTTP_COOKIE": None, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}", "HTTP_X_USER": "ana",
             "HTTP_SEC_FETCH_SITE": "cross-site"}, 403, "", id="a page of another site, through the proxy",
        ),
        pytest.param(PROXIED, {"HTTP_COOKIE": None, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, 401, "",
                     id="a program, where a proxy names users"),
        pytest.param(BOTH, {"HTTP_COOKIE": None, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}", "HTTP_X_USER": "a"}, 401, "",
                     id="a header that no option has named"),
    ],
)  # fmt: skip
def test_who_views_changes_nothing(door: Door, changed: dict[str, Any], status: int, user: str) -> None:
    silences = Silences()
    got, done = sent(door, silences=silences, **changed)
    assert (got.status, bool(done)) == (status, status == 200)
    assert silences.users == ([user] if status == 200 else [])
    fleet, _ = sent(door, **{**changed, "REQUEST_METHOD": "GET", "PATH_INFO": "/data/fleet",
                             "HTTP_SEC_FETCH_SITE": "same-origin"})  # fmt: skip
    assert (fleet.headers.get("X-Lastbeat-May") == "operate") is (
        status == 200 or changed.get("HTTP_SEC_FETCH_SITE") == "cross-site"
    )


def test_without_a_token_nothing_can_be_changed_and_that_is_said() -> None:
    got, done = sent(Door(local=True), HTTP_HOST="localhost:8000", HTTP_ORIGIN="http://localhost:8000")
    assert (got.status, done) == (403, [])
    assert "only shows" in got.json["error"]
    assert "LASTBEAT_DASHBOARD_TOKEN" in got.json["advice"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        pytest.param("localhost:8000", 200, id="this machine's own name"),
        pytest.param("evil.example:8000", 403, id="a name that was made to point here"),
    ],
)
def test_on_loopback_a_change_has_to_name_this_machine(host: str, status: int) -> None:
    got, done = sent(Door(local=True, token=TOKEN, name="lastbeat-1"), HTTP_HOST=host, HTTP_ORIGIN=f"http://{host}")
    assert got.status == status
    assert bool(done) is (status == 200)


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "post"])
def test_nothing_but_post_is_answered_there(method: str) -> None:
    got, done = sent(REQUEST_METHOD=method)
    assert (got.status, got.headers["Allow"], done) == (405, "POST", [])


@pytest.mark.parametrize(
    ("door", "cookie", "may"),
    [
        pytest.param(DOOR, COOKIE, True, id="let in by the token"),
        pytest.param(Door(local=True), COOKIE, False, id="no token, so nobody is known"),
    ],
)
def test_the_page_is_told_whether_it_may_offer_silencing(door: Door, cookie: str | None, may: bool) -> None:
    got, _ = sent(door, REQUEST_METHOD="GET", PATH_INFO="/data/fleet", HTTP_COOKIE=cookie, HTTP_HOST="localhost:8000")
    assert got.status == 200
    assert (got.headers.get("X-Lastbeat-May") == "operate") is may


def test_who_looks_by_a_header_is_not_offered_what_needs_the_cookie() -> None:
    got, _ = sent(REQUEST_METHOD="GET", PATH_INFO="/data/fleet", HTTP_COOKIE=None, HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
    assert got.status == 200
    assert "X-Lastbeat-May" not in got.headers
