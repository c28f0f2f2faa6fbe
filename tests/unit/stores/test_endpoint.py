"""Which host a client of an endpoint may reach."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from lastbeat.stores.endpoint import ask_endpoint, client_options
from support.row_by_row import labelled


@pytest.mark.parametrize(("endpoint", "reached"), labelled([
    ("S3 itself", "https://s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"),
    ("a name, without port and path", "http://MinIO.lab:9000/below", "minio.lab"),
    ("an address", "http://127.0.0.1:9000", "127.0.0.1"),
    ("an address in short", "http://127.1:9000", "127.1,127.0.0.1"),
    ("an address of IPv6, without its brackets", "http://[::1]:9000", "::1"),
    ("the same, written longer", "http://[0:0::1]", "::1"),
    ("a name beyond ASCII", "http://läufe.lab", "läufe.lab,xn--lufe-loa.lab"),
]))  # fmt: skip
def test_the_endpoints_own_host_is_reached_and_no_other(endpoint: str, reached: str) -> None:
    options = client_options(endpoint, {})
    assert options["proxy_excludes"] == reached
    assert options["proxy_url"] == "http://127.0.0.1:0"


IN_1994 = 784111777.0
DATE = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"


@pytest.mark.parametrize(("sent", "time_s", "header"), labelled([
    ("an answer", f"HTTP/1.1 200 OK\r\n{DATE}\r\n", IN_1994, None),
    ("another date", f"HTTP/1.0 403 Forbidden\r\nserver: x\r\n{DATE.lower()}\r\n", None, None),
    ("a refusal tells the time, too", f"HTTP/1.1 403 Forbidden\r\n{DATE}\r\n", IN_1994, None),
    ("elsewhere", f"HTTP/1.1 301 Moved\r\nX-Amz-Bucket-Region:eu-west-1\r\n{DATE}\r\n", IN_1994, "eu-west-1"),
    ("it ends in its head", f"HTTP/1.1 200 OK\r\n{DATE}", IN_1994, None),
    ("no date", "HTTP/1.1 200 OK\r\n\r\n", None, None),
    ("no day", "HTTP/1.1 200 OK\r\nDate: Sun, 99 Nov 1994 08:49:37 GMT\r\n\r\n", None, None),
    ("lines that say nothing", "HTTP/1.1 200 OK\r\nDate: \r\nno header\r\n\r\n", None, None),
    ("a head without an end", "HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 100_000, None, None),
]))  # fmt: skip
def test_what_an_endpoint_says_of_itself(sent: str, time_s: float | None, header: str | None) -> None:
    with _server(sent) as endpoint:
        answer = ask_endpoint(endpoint, "my bucket", timeout_s=10)
    assert answer is not None
    assert (answer.time_s is None) == (time_s is None)
    assert answer.time_s is None or time_s is None or 0 <= answer.time_s - time_s < 10
    assert answer.headers.get("x-amz-bucket-region") == header


@pytest.mark.parametrize("sent", ["", "SSH-2.0-OpenSSH_9.6\r\n\r\n", "\x00\x00\r\n\r\n"])
def test_what_speaks_no_http_gives_no_answer(sent: str) -> None:
    with _server(sent) as endpoint:
        assert ask_endpoint(endpoint, "bucket", timeout_s=10) is None


@contextmanager
def _server(sent: str) -> Iterator[str]:
    """An endpoint that answers one request with ``sent``."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                asked = connection.recv(4096).decode()
                assert re.match(r"HEAD /(my%20)?bucket HTTP/1.1\r\nHost: 127.0.0.1:\d+\r\n", asked), asked
                connection.sendall(sent.encode("latin-1"))

        answering = threading.Thread(target=answer)
        answering.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        answering.join()
