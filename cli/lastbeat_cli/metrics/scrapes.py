"""The answer to a scrape, rendered at most once a second for all clients."""

import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Final

from lastbeat_cli import metrics
from lastbeat_cli.dashboard.answer import Body, Response, body, refusal
from lastbeat_cli.metrics.samples import Sample

MISSING: Final = "prometheus-client is not installed; install it with: pip install 'lastbeat[metrics]'"
_STAYS_S: Final = 1.0
"""How long, in seconds, a rendered answer is given to further clients."""


def is_installed() -> bool:
    """Whether prometheus-client is installed; does not import it."""
    return find_spec("prometheus_client") is not None


def wants_strict(accept: str) -> bool:
    """Whether the Accept header asks for OpenMetrics. The library's own function fails on malformed headers."""
    return "application/openmetrics-text" in accept.lower()


class Scrapes:
    """Renders what ``samples`` returns; ``samples`` must not do I/O. Thread-safe."""

    def __init__(
        self, samples: Callable[[], Sequence[Sample]], fleet: str, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._samples = samples
        self._fleet = fleet
        self._steady = steady
        self._lock = threading.Lock()
        self._made: dict[bool, tuple[float, Body]] = {}
        """Whether it is OpenMetrics → when it was rendered, and the body."""

    def answer(self, accept: str) -> Response:
        """The metrics in the format that the Accept header ``accept`` asks for."""
        if not is_installed():
            return refusal("501 Not Implemented", "There are no metrics here.", f"{MISSING}.", data=True)
        strict = wants_strict(accept)
        # One at a time: a hundred scrapes at once must not take the processor from a pass.
        with self._lock:
            made = self._made.get(strict)
            if made is None or self._steady() - made[0] >= _STAYS_S:
                text, kind = metrics.exposition.render(self._samples(), self._fleet, strict=strict)
                made = self._made[strict] = self._steady(), body(text, kind)
        return Response("200 OK", made[1])
