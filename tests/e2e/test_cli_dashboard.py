"""``lastbeat dashboard`` as a process: what it serves and says, abuse of its sockets, a store that hangs, its end."""

import gzip
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.cli import LASTBEAT, RunFolder, call, environment, popen, start
from support.dashboard import run_dashboard
from support.proxy import FaultProxy, Stall
from support.s3 import S3Server
from support.terminal import terminal
from support.waiting import LIMIT_S, text_in, until

TOKEN = "a-token-of-some-length"


class Served:
    """A dashboard that runs, and what it said."""

    def __init__(self, process: "subprocess.Popen[str]", errors: Path) -> None:
        self.process = process
        self.errors = errors
        assert process.stdout is not None
        self.line = process.stdout.readline().strip()
        assert self.line, errors.read_text(encoding="utf-8")
        address: str = json.loads(self.line)["url"] if self.line.startswith("{") else self.line
        self.host, _, self.query = address.removeprefix("http://").partition("/")
        self.port = int(self.host.rpartition(":")[2])

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def fleet(self, query: str = "") -> dict[str, Any]:
        status, _, body = self.get(f"/data/fleet{query}")
        assert status == 200
        found: dict[str, Any] = json.loads(body)
        return found

    def until(self, seen: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The fleet, as soon as it is as ``seen`` wants it."""
        end = time.monotonic() + LIMIT_S
        while not seen(document := self.fleet()):
            assert time.monotonic() < end, document
            time.sleep(0.1)
        return document

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit status, and what stood on stderr."""
        self.process.send_signal(number)
        return self.process.wait(timeout=LIMIT_S), self.errors.read_text(encoding="utf-8")


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **settings: str) -> Served:
        errors = tmp_path / f"errors-{len(started)}.txt"
        with errors.open("w", encoding="utf-8") as stderr:
            process = popen(
                [*LASTBEAT, "dashboard", "--interval", "1", *arguments],
                cwd=tmp_path,
                env=environment(tmp_path, **settings),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        started.append(process)
        return Served(process, errors)

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run = RunFolder(tmp_path / "training-runs", "run-1")
    run.metadata()
    run.progress()
    RunFolder(tmp_path / "training-runs", "run-2").put("_error", "RuntimeError: CUDA out of memory")
    return tmp_path / "training-runs"


def test_it_prints_its_address_and_serves_the_page_and_its_data(serve: Serve, root: Path) -> None:
    served = serve()
    assert served.line == f"http://127.0.0.1:{served.port}/"
    status, headers, body = served.get("/", Accept_Encoding="gzip")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert gzip.decompress(body).startswith(b"<!doctype html>")
    assert "Server" not in headers
    document = served.until(lambda fleet: len(fleet["runs"]) == 2 and fleet["unread"] == 0)
    assert [(row["run_id"], row["status"]) for row in document["runs"]] == [("run-2", "FAILED"), ("run-1", "RUNNING")]
    status, _, body = served.get("/data/runs/run-2")
    seen = json.loads(body)["run"]
    assert (status, seen["status"], seen["cause"]) == (200, "FAILED", "oom")
    # No pass has recorded it: the table explains it, too.
    document = served.until(lambda fleet: bool(fleet["runs"][0]["cause"]))
    row = document["runs"][0]
    assert (row["run_id"], row["cause"], row["action"]) == ("run-2", seen["cause"], seen["action"])


def test_looking_leaves_the_runs_as_they_are(serve: Serve, root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    served = serve()
    served.until(lambda fleet: len(fleet["runs"]) == 2 and fleet["unread"] == 0)
    served.get("/data/runs/run-1")
    looked_at = served.fleet()["at"]
    served.until(lambda fleet: fleet["at"] != looked_at)
    assert served.end()[0] == 0
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_ctrl_c_ends_it_quietly_with_connections_open(serve: Serve, root: Path) -> None:
    served = serve()
    connections = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
    try:
        for connection in connections[:10]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        served.fleet()
        # All of them are still open.
        assert served.end(signal.SIGINT) == (0, "")
    finally:
        for connection in connections:
            connection.close()


def test_for_others_it_makes_a_token_and_tells_it_once(serve: Serve, root: Path) -> None:
    served = serve("--host", "0.0.0.0", "-v")
    assert served.query.startswith("?token=")
    token = served.query.removeprefix("?token=")
    assert len(token) >= 32
    assert served.get("/data/fleet")[0] == 401
    status, headers, _ = served.get(f"/{served.query}")
    assert status == 303
    cookie = headers["Set-Cookie"].split(";")[0]
    assert served.get("/data/fleet", Cookie=cookie, Host="box.example:1")[0] == 200
    assert served.get("/data/fleet", Authorization=f"Bearer {token}")[0] == 200
    errors = served.end()[1]
    assert "not encrypted" in errors
    assert "GET /" in errors
    assert token not in errors


def test_a_token_of_ones_own_is_shown_on_a_terminal_and_in_no_log(root: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"LASTBEAT_DASHBOARD_TOKEN": TOKEN}
    with terminal([*LASTBEAT, "dashboard"], "--host", "0.0.0.0", "-v", cwd=tmp_path, columns=200, **settings) as seen:
        seen.wait_for(lambda shown: f"/?token={TOKEN}" in shown)
        port = int(seen.shown.partition(f"/?token={TOKEN}")[0].rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", f"/?token={TOKEN}")
        assert connection.getresponse().status == 303
        connection.close()
        seen.wait_for(lambda shown: "GET /: 303" in shown)
        assert seen.shown.count(TOKEN) == 1


def test_a_token_of_ones_own_is_shown_in_no_pipe(serve: Serve, root: Path) -> None:
    served = serve("--host", "0.0.0.0", "-v", LASTBEAT_DASHBOARD_TOKEN=TOKEN)
    assert served.query == ""
    assert served.get(f"/?token={TOKEN}")[0] == 303
    assert served.get("/?token=wrong-token-of-some-length")[0] == 401
    errors = served.end()[1]
    assert TOKEN not in errors
    assert "?token=" in errors


def test_the_browser_that_it_opens_gets_a_key_and_not_the_token(serve: Serve, root: Path, tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    browser = tmp_path / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.new && mv {told}.new {told}\n', encoding="utf-8")
    browser.chmod(0o700)
    served = serve("--open", LASTBEAT_DASHBOARD_TOKEN=TOKEN, BROWSER=f"{browser} %s")
    query = text_in(told).strip().partition("?")[2]
    assert query.startswith("token=")
    assert TOKEN not in query
    status, headers, _ = served.get(f"/?{query}")
    assert status == 303
    assert served.get("/data/fleet", Cookie=headers["Set-Cookie"].split(";")[0])[0] == 200
    assert served.get(f"/?{query}")[0] == 401


def test_a_port_that_is_in_use_is_said_and_what_to_do(serve: Serve, root: Path, tmp_path: Path) -> None:
    served = serve()
    done = call([*LASTBEAT, "dashboard"], "--port", str(served.port), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"port {served.port} of 127.0.0.1 is in use" in done.stderr
    assert "--port 0" in done.stderr


@pytest.fixture(scope="module")
def open_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    home = tmp_path_factory.mktemp("home")
    secret = home / "secret.json"
    secret.write_text('{"secret": 1}', encoding="utf-8")
    run = RunFolder(home / "runs", "run-1")
    run.metadata()
    run.progress()
    with run_dashboard(home / "runs", home) as address:
        yield int(address.rstrip("/").rpartition(":")[2])


def send(open_port: int, request: bytes) -> bytes:
    """What comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", open_port), timeout=LIMIT_S) as connection:
        try:
            connection.sendall(request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        except ConnectionError:
            return answer
        return answer


def get(open_port: int, target: bytes, *, host: bytes = b"localhost", extra: bytes = b"") -> bytes:
    return send(
        open_port, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n" + extra + b"\r\n"
    )


def alive(open_port: int) -> bool:
    return get(open_port, b"/data/runs/run-1").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("target", "statuses"),
    [
        pytest.param(b"/data/runs/%2e%2e/secret.json", (400,), id="dots that are written otherwise"),
        pytest.param(b"/data/runs/%ff%fe", (400,), id="bytes that are no text"),
        pytest.param(b"/" + b"a" * 100_000, (400, 414, 431), id="an address without end"),
        pytest.param(b"http://evil.example/data/fleet", (200, 400), id="another machine's name in the address"),
    ],
)
def test_an_address_that_is_meant_badly(open_port: int, target: bytes, statuses: tuple[int, ...]) -> None:
    answer = get(open_port, target)
    assert int(answer.split(b" ", 2)[1]) in statuses, answer[:200]
    head = answer.partition(b"\r\n\r\n")[0]
    assert b"Set-Cookie" not in head
    assert b'"secret"' not in answer
    assert b"root:" not in answer
    assert alive(open_port)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"POST /data/fleet HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", id="a form"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFF\r\n", id="one in pieces"
        ),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", id="headers without end"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, id="a browser that wants TLS"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="no host"),
    ],
)
def test_a_request_that_is_none(open_port: int, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", open_port), timeout=2) as connection:
        answer = b""
        try:
            connection.sendall(request_)
            answer = connection.recv(65536)
        except (TimeoutError, ConnectionError):
            pass
    assert not answer.startswith(b"HTTP/1.1 2"), answer[:200]
    assert b"Traceback" not in answer
    assert alive(open_port)


@contextmanager
def dribbling(connections: list[socket.socket], slow: list[socket.socket], every_s: float) -> Iterator[None]:
    """While the block lasts each of ``slow`` sends a byte now and then; ``connections`` are closed behind it."""
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(every_s):
            for connection in slow:
                with suppress(OSError):
                    connection.send(b"X")

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for connection in connections:
            connection.close()


def test_who_sends_or_takes_slowly_holds_up_nobody(open_port: int) -> None:
    slow = [socket.create_connection(("127.0.0.1", open_port), timeout=LIMIT_S) for _ in range(60)]
    for connection in slow[:30]:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    for connection in slow[30:]:
        # Asks for the page again and again, and reads none of it.
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    with dribbling(slow, slow[:30], 0.05):
        assert all(alive(open_port) for _ in range(5))


def test_who_holds_more_connections_than_there_are_keeps_nobody_out(open_port: int) -> None:
    held = [socket.create_connection(("127.0.0.1", open_port), timeout=LIMIT_S) for _ in range(600)]
    for connection in held:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    with dribbling(held, held, 1):
        assert all(alive(open_port) for _ in range(5))


def document(address: str) -> Any:
    try:
        with urlopen(address, timeout=LIMIT_S) as answer:
            return json.loads(answer.read())
    except HTTPError as refused:
        return json.loads(refused.read())


def test_a_store_that_hangs_holds_up_neither_the_page_nor_the_end(
    s3_server: S3Server, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    fault_proxy.inject(Stall())
    settings: dict[str, Any] = s3_server.environment() | {"AWS_ENDPOINT_URL": fault_proxy.url}
    process = start(LASTBEAT, "dashboard", "--root", "s3://some-bucket/training-runs", cwd=tmp_path, **settings)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urlopen(address, timeout=LIMIT_S) as page:
            assert page.status == 200
        fleet = document(f"{address}data/fleet")
        assert (fleet["at"], fleet["runs"]) == (None, [])
        known = fault_proxy.count()
        asked = until(fault_proxy.count, lambda count: count > known)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=LIMIT_S) == 0
        assert fault_proxy.count() == asked, "a request that is waited for is tried again"
    finally:
        process.kill()
        process.communicate()
