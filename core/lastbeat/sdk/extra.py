"""What a beat does besides its two heartbeats: the log, the stacks, the ranks, whatever else comes."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from lastbeat.sdk.run import Run
from lastbeat.sdk.saying import say, why
from lastbeat.stores.port import Store


@dataclass(frozen=True, slots=True)
class Beat:
    """One beat, as an extra is told of it; metadata.json and progress.json of this beat are written."""

    run: Run
    store: Store
    folder: str
    """The run's folder in the store, with its slash: ``my-run/``."""
    now: float
    """Unix time in s, by this machine's clock."""
    ending: tuple[str, str] | None = None
    """Sentinel and its text where this beat is the last one; the sentinel is written after the extras."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the things that a beat does, one after the other."""

    do: Callable[[], None]
    first: bool = False
    """Whether what the store says of it is said of the whole beat."""


class Extra(Protocol):
    """Something that every beat does. Both methods are called by the beat thread alone."""

    def write(self, beat: Beat) -> None:
        """Write what there is to write. May raise: that is logged, and the beat goes on. Called again with the next
        beat, and with the last one again for as long as the sentinel is not written."""
        ...

    def close(self) -> None:
        """The run is over and its sentinel written: let go of what is held."""
        ...


class Extras:
    """Several of them, none of which can stop another, the beat or the sentinel."""

    def __init__(self, extras: Iterable[Extra] = ()) -> None:
        self._extras = list(extras)
        self._failing: set[int] = set()

    def add(self, extras: Iterable[Extra]) -> None:
        """Take more of them, which only the run's surroundings know."""
        self._extras += extras

    def write(self, beat: Beat, enough: Callable[[], bool] = lambda: False) -> None:
        """Let each write, until there is ``enough``. A failure is logged once an outage."""
        for place in range(len(self._extras)):
            if enough():
                return
            self._guarded(place, lambda extra: extra.write(beat))

    def close(self) -> None:
        """Let each let go."""
        for place in range(len(self._extras)):
            self._guarded(place, lambda extra: extra.close())

    def _guarded(self, place: int, call: Callable[[Extra], None]) -> None:
        try:
            call(self._extras[place])
        except BaseException as fault:  # noqa: BLE001 - whatever it is, it must cost no heartbeat and no sentinel
            if place not in self._failing:
                name = type(self._extras[place]).__name__
                say(logging.WARNING, "lastbeat cannot write its %s and keeps trying: %s", name, why(fault))
            self._failing.add(place)
        else:
            self._failing.discard(place)
