"""A requests session for one call, which ends at a deadline and never logs its address; and why there was no answer."""

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import requests
import urllib3
from requests.adapters import HTTPAdapter

from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.model.secrets import Redactor
from lastbeat.model.text import fit, one_line

NO_ANSWER: Final = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError)
"""What a call raises that gets no complete answer."""
# These log the path of a URL, a webhook's secret; one of them even as a warning.
_TALKERS = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry")


@contextmanager
def one_call(seconds: float, masked: Redactor) -> Iterator[tuple[requests.Session, "Deadline"]]:
    """A session that never retries, and a deadline that ends the call after ``seconds``."""
    with requests.Session() as session, Deadline(seconds) as deadline, _unlogged(masked):
        session.mount("https://", _Adapter(deadline))
        session.mount("http://", _Adapter(deadline))
        yield session, deadline


class Deadline:
    """Ends a call that takes too long, whatever it waits for, by shutting down its sockets.

    Time-outs of sockets alone do not bound a call: a server that sends a byte now and then meets each of them.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def watch(self, connected: socket.socket) -> None:
        # A duplicate, because TLS detaches the original. Shutting down either ends the connection.
        with self._lock:
            self._sockets.append(connected.dup())
            if self.over:
                self._shut()

    def _expire(self) -> None:
        with self._lock:
            self.over = True
            self._shut()

    def _shut(self) -> None:
        for each in self._sockets:
            with suppress(OSError):  # It is closed already.
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()


class _Adapter(HTTPAdapter):
    """requests' adapter without retries, which registers every socket with the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._pools = _pools(deadline)
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # SOCKS proxies connect in another way.
            manager.pool_classes_by_scheme = self._pools
        return manager


def _pools(deadline: Deadline) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    class Plain(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            deadline.watch(connected)
            return connected

    class Secure(urllib3.connection.HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            deadline.watch(connected)
            return connected

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


@contextmanager
def _unlogged(masked: Redactor) -> Iterator[None]:
    """Keep the URL out of urllib3's log in the meantime."""

    def mask(record: logging.LogRecord) -> bool:
        record.msg, record.args, record.exc_info = masked(record.getMessage()), (), None
        return True

    loggers = [logging.getLogger(name) for name in _TALKERS]
    for each in loggers:
        each.addFilter(mask)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(mask)


def in_words(error: BaseException, limits: HttpTimeouts, *, overdue: bool = False) -> str:
    """Why there was no answer. Never the error's own text: it holds the URL, and a URL may be a secret."""
    if overdue:
        return f"no complete answer within {limits.total_s:g} s"
    chain = list(_chain(error))
    for inner in chain:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"the server's certificate was refused: {fit(one_line(inner.verify_message), 100)}"
    names: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
        (requests.exceptions.ProxyError, "the proxy could not be used"),
        ((ssl.SSLError, requests.exceptions.SSLError), "no secure connection could be made (TLS)"),
        ((socket.gaierror, UnicodeError), "the host's name could not be resolved"),
        (ConnectionRefusedError, "the connection was refused"),
        (requests.exceptions.ConnectTimeout, f"no connection within {limits.connect_s:g} s"),
        (requests.exceptions.ReadTimeout, f"no answer within {limits.read_s:g} s"),
        (requests.exceptions.ConnectionError, "the connection broke before an answer came"),
        (TimeoutError, f"no connection within {limits.connect_s:g} s"),
    )
    for kinds, words in names:
        if any(isinstance(inner, kinds) for inner in chain):
            return words
    return f"the request failed ({type(error).__name__})"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error`` and its causes, which requests and urllib3 also put into ``args`` and ``reason``."""
    queue: list[object] = [error]
    seen: set[int] = set()
    while queue:
        inner = queue.pop(0)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            seen.add(id(inner))
            queue += [inner.__cause__, inner.__context__, getattr(inner, "reason", None), *inner.args]
            yield inner
