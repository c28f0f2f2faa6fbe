"""One start of a command that is restarted within its job."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from lastbeat.model.in_place import InPlace
from lastbeat.model.starts_in_place import StartsInPlace
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Store
from lastbeat.training.exec.child.exit_reason import ChildExit
from lastbeat.training.exec.in_place.ends import HowItEnded
from lastbeat.training.exec.in_place.following import InPlaceTerms
from lastbeat.training.exec.in_place.looking import LeftBehind, StoreLook, StoreWatch
from lastbeat.training.exec.start import CommandStart, WrappedCommand
from lastbeat.training.sdk.beat_tasks import RunEnvironment
from lastbeat.training.sdk.documents import process_mark
from lastbeat.training.sdk.exec_in_place import ExecInPlace
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import Reporter

TAIL_BYTES: Final = 1 << 20
"""Most bytes of output that are kept to find the cause of the end."""


class OutputTail:
    """The tail of the output, of about :data:`TAIL_BYTES` at most. Safe to use from two threads."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def add(self, chunk: bytes) -> None:
        with self._lock:
            self._chunks.append(chunk)
            self._size += len(chunk)
            while self._size > TAIL_BYTES and len(self._chunks) > 1:
                self._size -= len(self._chunks.popleft())

    def text(self) -> bytes:
        """The kept tail."""
        with self._lock:
            return b"".join(self._chunks)[-TAIL_BYTES:]


class InPlaceStart(CommandStart):
    """One start of the command, as an attempt of its run. ``also`` is called with each look at the store."""

    reporter: Reporter
    how: HowItEnded
    """How it has ended, as far as that is known by now."""

    def __init__(
        self,
        wrapped: WrappedCommand,
        settings: Settings,
        terms: InPlaceTerms,
        starts: StartsInPlace,
        also: Callable[[Store], None],
    ) -> None:
        self.starts = starts
        """The starts of this job, of which this is the present one."""
        self.identity = identity_of(terms, starts)
        """How training and ``exec`` recognize this start."""
        self._participant, self.began = terms.own, time.monotonic()
        self._settings = settings
        self.tail = OutputTail()
        self.store = StoreWatch(self._look, also)
        self.stacks = b""
        self.last_words: str | None = None
        """Output tail captured before a hung command was killed."""
        self.over = False
        """Whether the command has exited, so that only ``exec`` reports this start."""
        # Last, because its beat thread asks for all of this at once.
        super().__init__(wrapped, settings)
        self.store.start()

    def _look(self) -> tuple[Store, StoreLook]:
        store, run_id = opening.bare_store(self._settings, training=True), self._wrapped.name
        return store, StoreLook(store, run_id, self.identity, self.began, self._settings.redactor)

    def environment(self, settings: Settings) -> RunEnvironment:
        """The environment of ``exec`` with one command; with several, the number of this one names its failures."""
        environment, own = super().environment(settings), self._participant
        if own.count > 1:
            # Heartbeats of ranks come from training.
            rank = Rank(own.number, own.count, None, environment.rank.host)
            environment = replace(environment, rank=rank, rank_beat_s=0.0)
        else:
            environment = replace(environment, rank=Rank())
        return replace(environment, sharing=ExecInPlace(self.identity, self.reports_itself))

    def take(self, stream: int, chunk: bytes) -> None:
        self.tail.add(chunk)
        super().take(stream, chunk)

    @property
    def step(self) -> int | None:
        """The last step in its output, else in the store."""
        printed, said = self.summary.progress.step, self.store.said
        return printed if printed is not None else said.step if said is not None else None

    def reports_itself(self) -> bool:
        """Whether the command reports itself. Reads the store until it does. Raises :class:`StoreError`."""
        look = self.store.look
        return not self.over and look is not None and look.sees_report()

    def left_behind(self) -> LeftBehind:
        """What this start left in the store. Raises :class:`StoreError`."""
        return LeftBehind() if self.store.look is None else self.store.look.left_behind()

    def note_end(self, ended: ChildExit | None, hang: str | None, text: bytes) -> None:
        """Note how the command ended: its exit, why it counted as hanging, and its last output."""
        lived_s, dumps = time.monotonic() - self.began, self._wrapped.dumps
        self.how = HowItEnded(
            ended, hang, text, "", LeftBehind(), lived_s, self.step, self.starts.resume_from, self.starts.resume_step,
            os.uname().nodename, Path(dumps) if dumps is not None else None, time.time() - lived_s,
        )  # fmt: skip


def identity_of(terms: InPlaceTerms, starts: StartsInPlace) -> InPlace:
    """The identity of the start of ``starts``, which names this process as its starter."""
    left = max(0, terms.most - starts.number)
    token, own = f"{terms.launch}-{starts.number}", os.getpid()
    return InPlace(token, starts.number, left, terms.takes_s, own, process_mark(own))
