"""Ends and restarts several commands of one job together, or not at all: one on each node, or one for each rank.

The present start is a number in ``in_place.json``, which only grows, by compare-and-set. A participant whose command
hangs or has failed, and should restart, asks for the next number. Of several requests at once one wins, and the others
follow it. All poll the file every few seconds. A participant that sees a higher number ends its command, leaves a mark
that it is ready, and starts when all marks exist::

    node 0    start 0 ····················· sees 1: ends start 0 ── mark 1/0 ── all are there: start 1
    node 1    start 0 ── fails ── asks for 1 ────── mark 1/1 ·················· all are there: start 1

No command is started if the store cannot be read, or a participant does not come. None continues alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.json_values import encode
from lastbeat.model.starts_in_place import FOLDER, KEY, StartsInPlace
from lastbeat.stores.port import Blob, Expect, Store, StoreError

_LIMIT_BYTES: Final = 1 << 20
_AGAIN_S: Final = 0.5
# Variables for the rank that a launcher gives to its commands, and for their number. For Slurm, only those of a step
# count, because a batch script is one process in a job of any number of tasks.
_SOURCES: Final = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("GROUP_RANK", "GROUP_WORLD_SIZE"),
)
_LAUNCHES: Final = (
    ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID"),
    ("FLUX_JOB_ID", "FLUX_JOB_RESTART_COUNT"),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSB_JOBINDEX"),
    ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("OMPI_MCA_orte_ess_jobid",),
)
"""Variables that together identify a launch and are equal on all of its nodes; those after the first may be missing."""
MOST_PARTICIPANTS: Final = 100_000
_WORD_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Participant:
    """One of ``count`` commands that are started and ended together."""

    number: int = 0
    count: int = 1


def participant_of(environ: Mapping[str, str]) -> Participant:
    """The participant by the launcher's variables; the only one without such variables."""
    for rank, size in _SOURCES:
        number, count = _whole(environ.get(rank)), _whole(environ.get(size))
        if number is not None and count is not None and number < count <= MOST_PARTICIPANTS:
            return Participant(number, count)
    return Participant()


def launch_of(environ: Mapping[str, str]) -> str | None:
    """A name for this launch that all of its participants derive, and those of no other. None without a launcher's
    variable."""
    for first, *more in _LAUNCHES:
        word = environ.get(first, "").strip()
        if word and word != "none":
            # A job that lastbeat supervises also has the number of its attempt.
            parts = [
                word,
                *(environ.get(each, "").strip() or "0" for each in more),
                environ.get("LASTBEAT_ATTEMPT", ""),
            ]
            return launch_word(".".join(filter(None, parts)))
    return None


def launch_word(text: str) -> str:
    """``text`` as a part of a file's name."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "-" for each in text)[:_WORD_CHARS]


def _whole(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


class Together:
    """One participant, with its knowledge of the others."""

    def __init__(
        self, run_id: str, launch: str, own: Participant, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._key = f"{run_id}/{KEY}"
        self._folder = f"{run_id}/{FOLDER}"
        self._launch, self.own, self._pause = launch, own, pause
        self.number = 0
        """Number of its own start."""
        self._seen: StartsInPlace | None = None

    @property
    def called(self) -> StartsInPlace | None:
        """The others' decision that this participant has not followed yet: a later start, or the end. None without
        one."""
        seen = self._seen
        return seen if seen is not None and (seen.over or seen.number > self.number) else None

    def look(self, store: Store) -> None:
        """Read the others' decision. Raises :class:`StoreError`."""
        self._seen = self._read(store)[0]

    def ask_for(self, store: Store, wanted: StartsInPlace, limit_s: float) -> StartsInPlace | None:
        """Ask all participants to make the start ``wanted``, or to end. Returns the common decision, which is another
        participant's if that came first. None if the store did not answer within ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while (done := self._try_to_ask(store, wanted)) is None and time.monotonic() < deadline:
            self._pause(_AGAIN_S)
        return done

    def _try_to_ask(self, store: Store, wanted: StartsInPlace) -> StartsInPlace | None:
        """Ask once. Returns the common decision, or None if it is still unknown."""
        try:
            found, blob = self._read(store)
            # The first request wins, also if it was this participant's and its answer was lost.
            if found is not None and (found.over or found.number >= max(wanted.number, self.number + 1)):
                return found
            store.write(self._key, encode_starts(wanted), Expect.NOTHING if blob is None else blob.version)
        except StoreError:
            # Another participant was faster, or the store does not answer.
            return None
        return wanted

    def gather(self, store: Store, number: int, limit_s: float) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        """Wait until all are ready for start ``number``. Returns the others' decision if that is another one by now,
        and the participants that did not come within ``limit_s``."""
        deadline, place = time.monotonic() + limit_s, f"{self._folder}{self._launch}-{number}/"
        marked, missing = False, tuple(each for each in range(self.own.count) if each != self.own.number)
        while True:
            # While the store does not answer, no participant counts as ready.
            with suppress(StoreError):
                if not marked:
                    store.write(f"{place}{self.own.number}", b"")
                    marked = True
                missing = self._missing(store, place)
                if not missing:
                    return None, ()
                found, _ = self._read(store)
                if found is not None and (found.over or found.number > number):
                    return found, missing
            if time.monotonic() >= deadline:
                return None, missing
            self._pause(_AGAIN_S)

    def _missing(self, store: Store, place: str) -> tuple[int, ...]:
        there, after = set[str](), ""
        while True:
            page = store.list(place, after)
            there |= {each.key.removeprefix(place) for each in page.entries}
            if not page.more or not page.entries:
                return tuple(each for each in range(self.own.count) if str(each) not in there)
            after = page.entries[-1].key

    def _read(self, store: Store) -> tuple[StartsInPlace | None, Blob | None]:
        """The decision of this launch, and the file. The decision of an earlier launch counts as None."""
        blob = store.read(self._key, _LIMIT_BYTES)
        if blob is None:
            return None, None
        try:
            found = codec(StartsInPlace).read(json.loads(blob.body))
        except (ValueError, RecursionError, DamagedError):
            return None, blob
        return (found if found.launch == self._launch else None), blob


def encode_starts(starts: StartsInPlace) -> bytes:
    """``starts`` as a document."""
    return encode(codec(StartsInPlace).document(starts))
