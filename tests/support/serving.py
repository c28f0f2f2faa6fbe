"""A server of a test's own, which runs in a thread of this process for as long as it is needed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

from support.waiting import LIMIT_S


@contextmanager
def serving(server: HTTPServer, closing: threading.Event | None = None) -> Iterator[None]:
    """``server`` answers meanwhile. In the end ``closing`` is set first, for answers that wait for it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        if closing is not None:
            closing.set()
        server.shutdown()
        server.server_close()
        thread.join(LIMIT_S)
