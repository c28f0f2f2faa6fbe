"""The dashboard's answers, request by request, without a socket: who gets what, and what else goes with it."""

import gzip
import io
import re

import pytest

from lastbeat.views.served.app import App
from lastbeat.views.served.door import Door
from support.dashboard_app import TOKEN, Fleet, Got, app, ask

ANSWERS = [
    pytest.param("/", 200, id="the page"),
    pytest.param("/data/fleet", 200, id="the fleet"),
    pytest.param("/data/runs/run-1", 200, id="a run"),
    pytest.param("/data/runs/run-2", 404, id="a run that is not there"),
    pytest.param("/data/runs/unreachable", 503, id="a run that cannot be seen"),
    pytest.param("/data/runs/busy", 503, id="a run whose turn it is not"),
    pytest.param("/data/runs/broken", 500, id="a defect of our own"),
    pytest.param("/data/runs/../_watchdog", 400, id="a way out of the folder"),
    pytest.param("/data/runs/run-1/metadata.json", 400, id="a file of a run"),
    pytest.param("/data/runs/run-1/curves", 200, id="the curves of a run"),
    pytest.param("/data/runs/run-2/curves", 404, id="the curves of a run that is not there"),
    pytest.param("/data/compare", 200, id="runs beside each other"),
    pytest.param("/data/runs/run\x00-1", 400, id="a NUL"),
    pytest.param("/data/runs/l\xc3\xa4uft", 400, id="an id in other letters"),
    pytest.param("/data/causes", 200, id="what failures cost"),
    pytest.param("/data/fleet/", 404, id="a slash too many"),
    pytest.param("/metrics", 200, id="the metrics"),
    pytest.param("/favicon.ico", 404, id="what browsers ask for by themselves"),
]


@pytest.mark.parametrize(("path", "status"), ANSWERS)
def test_what_there_is(path: str, status: int) -> None:
    got = ask(app(), path)
    assert got.status == status
    if path.startswith("/data/") and status != 200:
        assert set(got.json) == {"error", "advice"}
        assert got.json["error"]
        assert "secrets" not in got.json["error"]
        assert "\n" not in got.json["error"] + got.json["advice"]


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        pytest.param("", ("step", None, None), id="nothing said: all of it by step"),
        pytest.param("by=at&from=10&to=20.5", ("at", [10, 20.5], None), id="a part of the time"),
        pytest.param("from=20&to=10", ("step", None, None), id="an end before its beginning"),
        pytest.param("from=nan&to=1e300&by=x", ("step", None, None), id="no numbers"),
        pytest.param("only=val%2Facc", ("step", None, "val/acc"), id="one curve"),
    ],
)
def test_what_is_asked_of_curves(query: str, asked: tuple[object, ...]) -> None:
    for path, more in (("/data/runs/run-1/curves", ""), ("/data/compare", "&runs=a,..,b,a")):
        told = ask(app(), path, query + more).json
        assert tuple(told["asked"].values()) == asked
        assert told["of"] == ("run-1" if not more else ["a", "b"])


@pytest.mark.parametrize("path", ["/", "/data/fleet", "/metrics", "/nothing"])
def test_every_answer_has_the_headers_that_keep_it_where_it_belongs(path: str) -> None:
    got = ask(app(), path)
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert got.headers["X-Frame-Options"] == "DENY"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert got.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert got.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert got.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert got.headers["Cache-Control"] == ("no-cache" if path == "/" else "no-store")
    assert not any(name.startswith("Access-Control") for name in got.headers)
    assert int(got.headers["Content-Length"]) == len(got.content)


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "get"])
def test_nothing_but_looking_is_answered(method: str) -> None:
    for path in ("/", "/data/fleet", "/data/runs/run-1", "/metrics"):
        got = ask(app(), path, method=method)
        assert (got.status, got.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/data/fleet", "/data/runs/run-1", "/nothing"])
def test_head_is_get_without_the_body(path: str) -> None:
    whole, head = ask(app(), path), ask(app(), path, method="HEAD")
    assert (head.status, head.headers, head.content) == (whole.status, whole.headers, b"")


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        pytest.param("gzip, deflate, br", True, id="browsers"),
        pytest.param("*", True, id="whoever takes anything"),
        pytest.param("GZIP;q=0.5", True, id="who would rather have it plain"),
        pytest.param("identity", False, id="who wants it plain"),
        pytest.param("gzip;q=0", False, id="who refuses it"),
    ],
)
def test_who_can_unpack_gets_it_packed(accepts: str, packed: bool) -> None:
    for path in ("/", "/data/fleet"):
        got = ask(app(), path, accept_encoding=accepts)
        assert (got.headers.get("Content-Encoding") == "gzip") is packed
        assert (gzip.decompress(got.content) if packed else got.content) == ask(app(), path).content
        assert "Accept-Encoding" in got.headers["Vary"]


def test_who_has_the_page_is_told_so() -> None:
    tag = ask(app()).headers["ETag"]
    got = ask(app(), if_none_match=f'"other", {tag}')
    assert (got.status, got.content) == (304, b"")
    assert got.headers["ETag"] == tag
    assert ask(app(), if_none_match='"other"').status == 200


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        pytest.param("", (None, None, ()), id="everything"),
        pytest.param("since=7&epoch=e", (7, "e", ()), id="what changed"),
        pytest.param("since=-7&epoch=e", (None, "e", ()), id="no number"),
        pytest.param(f"since={'9' * 400}", (None, None, ()), id="a number that is too long"),
        pytest.param("since=%D9%A7", (None, None, ()), id="digits of another script"),
        pytest.param("look=a,b,..,_x,%00,c", (None, None, ("a", "b", "c")), id="what is seen, but for what no run is"),
        pytest.param("keys=lr,,eval%2Facc", (None, None, (), ("lr", "eval/acc")), id="values of keys"),
        pytest.param("look=" + ",".join(["r"] * 999), (None, None, ("r",) * 200), id="more than anybody sees"),
    ],
)
def test_what_is_asked_of_the_fleet(query: str, asked: object) -> None:
    fleet = Fleet()
    assert ask(app(fleet=fleet), "/data/fleet", query).status == 200
    assert fleet.asked == [asked]


def test_a_secret_in_a_fault_is_masked_also_where_a_colour_stands_in_the_middle_of_it() -> None:
    got = ask(app(), "/data/runs/colourful")
    assert (got.status, b"refused: ***" in got.content, b"aaaa" in got.content) == (503, True, False)


def test_a_question_of_too_many_parts_is_refused() -> None:
    assert ask(app(), "/data/fleet", "&".join(f"a{n}=1" for n in range(99))).status == 400


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        pytest.param("127.0.0.1:8000", True, id="the address"),
        pytest.param("localhost:8000", True, id="the name"),
        pytest.param("[::1]:8000", True, id="the new address"),
        pytest.param("localhost:9999", True, id="the near end of a tunnel"),
        pytest.param("evil.example:8000", False, id="a name that was made to point here"),
        pytest.param("127.0.0.1.evil.example", False, id="one that begins alike"),
        pytest.param("", False, id="none"),
        pytest.param("10.0.0.1:8000", False, id="another machine"),
    ],
)
def test_on_loopback_only_this_machines_own_names_are_answered(host: str, welcome: bool) -> None:
    for path in ("/", "/data/fleet", "/metrics"):
        assert ask(app(), path, host=host).status == (200 if welcome else 403)


@pytest.mark.parametrize(
    ("site", "status"),
    [("same-origin", 200), ("none", 200), ("", 200), ("same-site", 403), ("cross-site", 403), ("Cross-Site", 403)],
)
def test_pages_of_other_origins_get_no_data(site: str, status: int) -> None:
    for path in ("/data/fleet", "/metrics"):
        assert ask(app(), path, sec_fetch_site=site).status == status
    assert ask(app(), "/", sec_fetch_site=site).status == 200


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        pytest.param("", {"authorization": f"Bearer {TOKEN}"}, 200, id="a program sends a header"),
        pytest.param("", {"authorization": f"bearer  {TOKEN}"}, 200, id="in small letters"),
        pytest.param("", {"authorization": f"Basic {TOKEN}"}, 401, id="another kind of header"),
        pytest.param("", {"authorization": f"Bearer {TOKEN}x"}, 401, id="a token that is nearly right"),
        pytest.param("", {"authorization": "Bearer tök€n"}, 401, id="a token in other letters"),
        pytest.param("", {"cookie": f"lastbeat-1={TOKEN}"}, 401, id="the token is not its cookie"),
        pytest.param("token=wrong", {}, 401, id="a wrong one in the address"),
        pytest.param("&".join(["a=1"] * 50), {}, 401, id="an address of many parts"),
    ],
)
def test_with_a_token(query: str, headers: dict[str, str], status: int) -> None:
    got = ask(app(TOKEN, local=False), "/", query, host="box.example:8000", **headers)
    assert got.status == status
    if status == 401:
        assert got.headers["WWW-Authenticate"].startswith("Bearer")
        assert "Set-Cookie" not in got.headers
    assert TOKEN not in got.content.decode()


def test_the_token_becomes_a_cookie_that_opens_this_dashboard_alone() -> None:
    here, there = (app(TOKEN, local=False, name=name) for name in ("lastbeat-1", "lastbeat-2"))
    got = ask(here, "/", f"token={TOKEN}")
    cookie, *rules = got.headers["Set-Cookie"].split("; ")
    assert set(rules) == {"Path=/", "HttpOnly", "SameSite=Lax"}
    assert TOKEN not in cookie
    assert ask(here, "/data/fleet", cookie=f"other=1; {cookie}").status == 200
    assert ask(there, "/data/fleet", cookie=cookie.replace("lastbeat-1", "lastbeat-2")).status == 401


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="from anywhere, for over plain HTTP browsers do not say"),
        pytest.param({"sec_fetch_site": "cross-site"}, id="from another site"),
        pytest.param({"authorization": f"Bearer {TOKEN}"}, id="with a header besides"),
        pytest.param({"cookie": "its own"}, id="with the cookie already"),
    ],
)
def test_a_token_in_the_address_leads_on_to_one_without_it(headers: dict[str, str]) -> None:
    # By a redirect: browsers keep the fragment, which says the run that was asked for, and send the new cookie.
    here = app(TOKEN, local=False)
    if "cookie" in headers:
        headers = {"cookie": ask(here, "/", f"token={TOKEN}").headers["Set-Cookie"].split(";")[0]}
    got = ask(here, "/", f"token={TOKEN}", **headers)
    assert (got.status, got.headers["Location"]) == (303, "./")
    assert "Set-Cookie" in got.headers
    assert TOKEN not in got.content.decode()


HERE = {"origin": "http://127.0.0.1:8000"}
FORM = "application/x-www-form-urlencoded"


def send(here: App, content: str, path: str = "/", kind: str = FORM, **headers: str) -> Got:
    body = content.encode()
    sent = {"CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
    return ask(here, path, method="POST", environ=sent, **{**HERE, **headers})


@pytest.mark.parametrize("path", ["/", "/nothing", "//evil.example/"])
def test_a_stranger_is_given_a_field_for_the_token(path: str) -> None:
    got = ask(app(TOKEN, local=False), path)
    assert got.status == 401
    text = got.content.decode()
    assert '<form method="post">' in text, "no action: the browser then keeps the fragment of the address"
    assert 'type="password" name="token"' in text
    assert "<script" not in text
    assert re.fullmatch(
        r"default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; style-src 'sha256-[\w+/=]+'",
        got.headers["Content-Security-Policy"],
    )
    assert got.headers["Referrer-Policy"] == "strict-origin", "with no-referrer browsers hide the origin of the form"


def test_the_field_opens_the_dashboard_and_leads_back() -> None:
    here = app(TOKEN, local=False)
    got = send(here, f"token={TOKEN}")
    assert (got.status, got.headers["Location"]) == (303, "./")
    assert ask(here, "/data/fleet", cookie=got.headers["Set-Cookie"].split(";")[0]).status == 200
    assert TOKEN not in str(got.headers) + got.content.decode()


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        pytest.param(f"token=%20{TOKEN}%0A", {}, 303, id="with the space around it that people copy"),
        pytest.param(f"token={TOKEN}", {"sec_fetch_site": "same-origin", "origin": "null"}, 303, id="over TLS"),
        pytest.param("token=wrong", {}, 401, id="a wrong token"),
        pytest.param("token=", {}, 401, id="an empty one"),
        pytest.param("&".join(["a=1"] * 50), {}, 401, id="many fields"),
        pytest.param("token=%ff%fe", {}, 401, id="bytes that are no text"),
        pytest.param(f"token={TOKEN}", {"origin": "http://evil.example"}, 403, id="a form of another site"),
        pytest.param("token=" + "x" * 5000, {}, 413, id="a body that is too long"),
    ],
)
def test_what_is_sent_by_the_field(content: str, headers: dict[str, str], status: int) -> None:
    got = send(app(TOKEN, local=False), content, **headers)
    assert got.status == status
    assert ("Set-Cookie" in got.headers) is (status == 303)
    assert TOKEN not in got.content.decode()
    if status == 401:
        assert '<form method="post">' in got.content.decode(), "another try"


def test_a_wrong_token_is_said_to_be_wrong() -> None:
    wrong, first = send(app(TOKEN, local=False), "token=wrong"), ask(app(TOKEN, local=False))
    assert b"That token does not open this dashboard." in wrong.content
    assert b"That token" not in first.content
    assert b"That token" in ask(app(TOKEN, local=False), query="token=of-yesterday").content


def test_on_loopback_the_field_takes_only_this_machines_names() -> None:
    assert send(app(TOKEN), f"token={TOKEN}", host="evil.example:8000", origin="http://evil.example:8000").status == 403


def test_data_has_no_field() -> None:
    for path in ("/data/fleet", "/metrics"):
        got = send(app(TOKEN, local=False), f"token={TOKEN}", path)
        assert (got.status, got.headers["Allow"]) == (405, "GET, HEAD")


def test_a_key_opens_once_as_the_token_does_always() -> None:
    door = Door(local=False, token=TOKEN, name="lastbeat-1")
    here, key = app(door=door), door.key()
    assert ask(here, "/data/fleet", f"token={key}").status == 401
    got = ask(here, "/", f"token={key}")
    assert ask(here, "/data/fleet", cookie=got.headers["Set-Cookie"].split(";")[0]).status == 200
    assert ask(here, "/", f"token={key}").status == 401
    assert ask(here, "/", f"token={TOKEN}").status == 303


@pytest.mark.parametrize("path", ["/data/fleet", "/metrics"])
@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        pytest.param("", {}, 401, id="who brings nothing"),
        pytest.param("", {"authorization": f"Bearer {TOKEN}"}, 200, id="a program, as Prometheus, sends a header"),
        pytest.param(f"token={TOKEN}", {}, 401, id="an address is no place for a token"),
    ],
)
def test_data_is_refused_as_data(path: str, query: str, headers: dict[str, str], status: int) -> None:
    got = ask(app(TOKEN, local=False), path, query, host="box.example:8000", **headers)
    assert got.status == status
    assert "Set-Cookie" not in got.headers
    assert status == 200 or set(got.json) == {"error", "advice"}


def test_the_metrics_are_told_in_the_form_that_was_asked_for() -> None:
    assert ask(app(), "/metrics", accept="text/plain").content == b"lastbeat_up 1\n# text/plain\n"
