"""The dashboard's sockets, used as nobody should: it stays up, gives nothing away, and serves the others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support.cli import RunFolder
from support.dashboard import run_dashboard
from support.waiting import LIMIT_S


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    home = tmp_path_factory.mktemp("home")
    secret = home / "secret.json"
    secret.write_text('{"secret": 1}', encoding="utf-8")
    run = RunFolder(home / "runs", "run-1")
    run.metadata()
    run.progress()
    with run_dashboard(home / "runs", home) as address:
        yield int(address.rstrip("/").rpartition(":")[2])


def send(port: int, request: bytes) -> bytes:
    """What comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        try:
            connection.sendall(request)
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        except ConnectionError:
            return answer
        return answer


def get(port: int, target: bytes, *, host: bytes = b"localhost", extra: bytes = b"") -> bytes:
    return send(port, b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n" + extra + b"\r\n")


def alive(port: int) -> bool:
    return get(port, b"/data/runs/run-1").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("target", "statuses"),
    [
        pytest.param(b"/data/runs/%2e%2e/secret.json", (400,), id="dots that are written otherwise"),
        pytest.param(b"/data/runs/run-1%00.json", (400,), id="a NUL"),
        pytest.param(b"/data/runs/%ff%fe", (400,), id="bytes that are no text"),
        pytest.param(b"/" + b"a" * 100_000, (400, 414, 431), id="an address without end"),
        pytest.param(b"http://evil.example/data/fleet", (200, 400), id="another machine's name in the address"),
    ],
)
def test_an_address_that_is_meant_badly(port: int, target: bytes, statuses: tuple[int, ...]) -> None:
    answer = get(port, target)
    assert int(answer.split(b" ", 2)[1]) in statuses, answer[:200]
    head = answer.partition(b"\r\n\r\n")[0]
    assert b"Set-Cookie" not in head
    assert b'"secret"' not in answer
    assert b"root:" not in answer
    assert alive(port)


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
def test_a_request_that_is_none(port: int, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        answer = b""
        try:
            connection.sendall(request_)
            answer = connection.recv(65536)
        except (TimeoutError, ConnectionError):
            pass
    assert not answer.startswith(b"HTTP/1.1 2"), answer[:200]
    assert b"Traceback" not in answer
    assert alive(port)


def test_who_sends_or_takes_slowly_holds_up_nobody(port: int) -> None:
    slow = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) for _ in range(60)]
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.05):
            for connection in slow[:30]:
                connection.send(b"X")

    for connection in slow[:30]:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    for connection in slow[30:]:
        # Asks for the page again and again, and reads none of it.
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    dribbling = threading.Thread(target=dribble)
    dribbling.start()
    try:
        assert all(alive(port) for _ in range(5))
    finally:
        stop.set()
        dribbling.join()
        for connection in slow:
            connection.close()


def test_who_holds_more_connections_than_there_are_keeps_nobody_out(port: int) -> None:
    held = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) for _ in range(600)]
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(1):
            for connection in held:
                with suppress(OSError):
                    connection.send(b"X")

    for connection in held:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    dribbling = threading.Thread(target=dribble)
    dribbling.start()
    try:
        assert all(alive(port) for _ in range(5))
    finally:
        stop.set()
        dribbling.join()
        for connection in held:
            connection.close()
