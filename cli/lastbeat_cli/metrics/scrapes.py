"""What a scrape gets: made at most once a second, however many scrape."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from lastbeat_cli.dashboard.answer import Body, Response, body, refusal
from lastbeat_cli.metrics.exposition import MISSING, is_installed, render, wants_strict
from lastbeat_cli.metrics.samples import Sample

_STAYS_S: Final = 1.0


class Scrapes:
    """``samples`` tells what is known and asks nobody. Any thread may call."""

    def __init__(
        self, samples: Callable[[], Sequence[Sample]], fleet: str, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._samples = samples
        self._fleet = fleet
        self._steady = steady
        self._lock = threading.Lock()
        self._made: dict[bool, tuple[float, Body]] = {}
        """Whether it is in the strict form → when it was made, and what."""

    def answer(self, accept: str) -> Response:
        """In the form that ``accept``, an HTTP header, asks for."""
        if not is_installed():
            return refusal("501 Not Implemented", "There are no metrics here.", f"{MISSING}.", data=True)
        strict = wants_strict(accept)
        # One at a time: who scrapes a hundred times at once must not keep a pass from the processor.
        with self._lock:
            made = self._made.get(strict)
            if made is None or self._steady() - made[0] >= _STAYS_S:
                text, kind = render(self._samples(), self._fleet, strict=strict)
                made = self._made[strict] = self._steady(), body(text, kind)
        return Response("200 OK", made[1])
