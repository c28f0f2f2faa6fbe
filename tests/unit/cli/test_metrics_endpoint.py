"""What the sweep's own server answers, request by request, without a socket; and how often it makes what it answers."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lastbeat_cli.metrics import table
from lastbeat_cli.metrics.endpoint import Endpoint, Scrapes
from lastbeat_cli.metrics.samples import Sample

TOKEN = "a-token-of-some-length"


class Known:
    """What there is to tell, and how often that was asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self.fault: Exception | None = None

    def __call__(self) -> tuple[Sample, ...]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return (Sample(table.UP, (), 1.0),)


def ask(
    endpoint: Endpoint, path: str = "/metrics", method: str = "GET", query: str = "", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    got: list[tuple[str, list[tuple[str, str]]]] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query, "HTTP_HOST": "127.0.0.1:9108"}
    environ |= {f"HTTP_{name.upper()}": text for name, text in headers.items()}
    content = b"".join(endpoint(environ, lambda status, sent: got.append((status, sent))))
    [(status, sent)] = got
    return int(status.split()[0]), dict(sent), content


def endpoint(known: Known | None = None, host: str = "127.0.0.1", token: str | None = None) -> Endpoint:
    return Endpoint(host, 0, token, Scrapes(known or Known(), "/runs"))


ANSWERS: list[tuple[str, str, str, int]] = [
    ("the metrics", "/metrics", "GET", 200),
    ("their headers", "/metrics", "HEAD", 200),
    ("a slash too many", "/metrics/", "GET", 404),
    ("nothing is taken", "/metrics", "POST", 405),
]


@pytest.mark.parametrize(("path", "method", "status"), [pytest.param(p, m, s, id=says) for says, p, m, s in ANSWERS])
def test_what_there_is(path: str, method: str, status: int) -> None:
    got, headers, content = ask(endpoint(), path, method)
    assert got == status
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    if method == "HEAD":
        assert content == b""
    elif status == 200:
        assert b'lastbeat_up{fleet="/runs"} 1.0\n' in content
    else:
        assert set(json.loads(content)) == {"error", "advice"}


DOORS = [
    pytest.param("0.0.0.0", TOKEN, {"host": "node-7:9108"}, 401, id="from elsewhere, without the token"),
    pytest.param("0.0.0.0", TOKEN, {"host": "node-7", "authorization": f"Bearer {TOKEN}"}, 200, id="with it"),
    pytest.param("127.0.0.1", None, {}, 200, id="on this machine"),
    pytest.param("127.0.0.1", TOKEN, {}, 401, id="on this machine, where a token is set"),
    pytest.param("127.0.0.1", None, {"host": "evil.example"}, 403, id="a name that was made to point here"),
]


@pytest.mark.parametrize(("listens", "token", "headers", "status"), DOORS)
def test_who_may_scrape(listens: str, token: str | None, headers: dict[str, str], status: int) -> None:
    got, _, content = ask(endpoint(host=listens, token=token), **headers)
    assert got == status
    assert TOKEN not in content.decode()
    assert (b"lastbeat_up" in content) is (status == 200)


def test_a_defect_of_ours_tells_no_details_and_the_next_scrape_works() -> None:
    known = Known()
    served = endpoint(known)
    known.fault = ValueError("secrets of the inside")
    status, _, content = ask(served)
    assert (status, b"secrets" in content) == (500, False)
    known.fault = None
    assert ask(served)[0] == 200


def test_however_many_scrape_it_is_made_once_a_second() -> None:
    known, now = Known(), [100.0]
    scrapes = Scrapes(known, "/runs", lambda: now[0])
    ready = threading.Barrier(8)

    def scrape(_: int) -> bytes:
        ready.wait()
        return scrapes.answer("").body.plain

    with ThreadPoolExecutor(8) as many:
        assert len(set(many.map(scrape, range(8)))) == 1
    assert known.asked == 1
    now[0] += 0.9
    scrapes.answer("")
    assert known.asked == 1
    assert scrapes.answer("application/openmetrics-text").body.kind.startswith("application/openmetrics-text")
    assert known.asked == 2, "the other form is made for itself"
    now[0] += 0.2
    scrapes.answer("")
    assert known.asked == 3
