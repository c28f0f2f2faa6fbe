"""TensorBoard's logs as a source of progress: what a command that logs already writes below a folder."""

import logging
import math
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final

from lastbeat.model.progress_lines import Progress
from lastbeat.stores.timed_calls import CallThread
from lastbeat.training.exec.event_files import RECORD_LIMIT_BYTES, Scalar, records, scalars
from lastbeat.training.sdk.beat_tasks import BeatTask
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log

_CHUNK_BYTES: Final = 2 * RECORD_LIMIT_BYTES
"""Bytes of a file that are read at once."""
_READ_S: Final = 1.0
"""Time in s after which a look stops reading; the next one continues."""
_HANGS_S: Final = 5.0
"""Time in s after which a look counts as hanging, as its file system may."""
_MOST_ENTRIES: Final = 10_000
"""Most files and folders that a look lists."""
_MOST_FILES: Final = 16
"""Most event files that are read: those written last."""
_MOST_SCALARS: Final = 100_000
"""Most scalars that wait to be reported."""
_WORDS: Final = re.compile(r"[a-z]+")
_APART: Final = frozenset({"eval", "evaluation", "val", "valid", "validation"})
"""Names of folders for the scalars of evaluations, which then have the same tags as those of training."""
_EVALUATION: Final = _APART | {"dev", "test"}
"""Words in the names of what is no training's."""
_USUAL: Final = frozenset({"loss", "train", "training", "lm", "step", "total", "reduced"})
"""The words in the usual names of the loss. Other losses are often a part of it."""
_ARGUMENTS: Final = frozenset({"self", "step", "loss", "learning_rate", "epoch", "tokens"})
"""Names that a metric of a step cannot have."""


class Steps:
    """Puts scalars together to steps, with ``progress`` as what is known of the run.

    The step of the loss is the run's, and what is logged at another step is a metric of that one: some count samples or
    epochs beside steps. Without a loss each step is the run's.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._loss, self._usual = "", False
        """The name of the loss, and whether it is a usual one."""
        self._rate = ""

    def add(self, run: Run, found: Iterable[Scalar]) -> None:
        for step, group in groupby(found, lambda scalar: scalar.step):
            values = {scalar.tag: scalar.value for scalar in group}
            for name in values:
                self._note(name)
            self._report(run, step, values)

    def _note(self, name: str) -> None:
        words = frozenset(_WORDS.findall(name.lower()))
        if words & _EVALUATION:
            return
        if "loss" in words and "scale" not in words and (not self._loss or (words <= _USUAL and not self._usual)):
            self._loss, self._usual = name, words <= _USUAL
        if not self._rate and ("lr" in words or words >= {"learning", "rate"}):
            self._rate = name

    def _report(self, run: Run, step: int, values: dict[str, float]) -> None:
        now, loss = self._progress, values.pop(self._loss, None)
        now.learning_rate = values.pop(self._rate, now.learning_rate)
        now.epoch = values.pop("train/epoch", values.pop("epoch", now.epoch))
        metrics: dict[str, Any] = {name: value for name, value in values.items() if name not in _ARGUMENTS}
        if loss is not None or not self._loss:
            now.step, now.loss = step, loss
            run.step(step, loss=loss, learning_rate=now.learning_rate, epoch=now.epoch, **metrics)
        elif metrics:
            run.log(metrics, step=step)


class TensorBoardLogs(BeatTask):
    """Reports what is logged below ``folder`` from now on."""

    purpose = "read TensorBoard's logs"

    def __init__(self, folder: str, progress: Progress) -> None:
        self._folder, self._began, self._steps = Path(folder).absolute(), time.time(), Steps(progress)
        self._any = False
        """Whether anything was found."""
        self._offsets: dict[Path, int] = {}
        self._found: deque[Scalar] = deque(maxlen=_MOST_SCALARS)
        self._thread: CallThread[None] = CallThread("lastbeat-tensorboard")

    def look(self, run: Run) -> float:
        try:
            self._thread.call(self._read, _HANGS_S)
        except TimeoutError:
            raise OSError(f"no answer within {_HANGS_S:g} s; the file system may hang") from None
        finally:
            found = [self._found.popleft() for _ in range(len(self._found))]
            self._any |= bool(found)
            self._steps.add(run, found)
        return math.inf

    def close(self) -> None:
        self._thread.close()
        if not self._any:
            safe_log(logging.WARNING, "lastbeat found no scalars of this command below --tensorboard %s", self._folder)

    def _read(self) -> None:
        """Read on in each file, for a while. In a thread, which alone uses the offsets.

        Raises OSError after the others were read, if a file or a folder cannot be: it may be another user's.
        """
        until = time.monotonic() + _READ_S
        files, fault = event_files(self._folder, self._began)
        for path in files:
            try:
                while time.monotonic() < until and self._read_on(path):
                    pass
            except OSError as error:  # noqa: PERF203 - few files
                fault = error
        if fault is not None:
            raise fault

    def _read_on(self, path: Path) -> bool:
        """Read the next chunk of a file. Returns whether a whole record was in it."""
        with path.open("rb", buffering=0) as file:
            file.seek(self._offsets.get(path, 0))
            chunk = file.read(_CHUNK_BYTES) or b""
        used, folder = 0, path.parent.name
        apart = folder.lower() in _APART
        for used, data in records(chunk):  # noqa: B007 - the last place counts
            for each in scalars(data):
                # Megatron logs each curve over samples, too.
                if each.wall >= self._began and " vs " not in each.tag and not each.tag.startswith("_hparams_"):
                    self._found.append(each._replace(tag=f"{folder}/{each.tag}") if apart else each)
        self._offsets[path] = self._offsets.get(path, 0) + used
        return used > 0


def event_files(folder: Path, began: float) -> tuple[list[Path], OSError | None]:
    """The event files below ``folder`` that were written after ``began``, the one written last at the end, and why a
    folder that exists cannot be listed.

    Of a huge tree only the upper part is seen, and no link is followed.
    """
    waiting, found, left = deque([os.fspath(folder)]), list[tuple[float, Path]](), _MOST_ENTRIES
    fault: OSError | None = None
    while waiting and left > 0:
        try:
            with suppress(FileNotFoundError), os.scandir(waiting.popleft()) as entries:
                for entry in islice(entries, left):
                    left -= 1
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(about.st_mode):
                        waiting.append(entry.path)
                    # Clocks of file systems may be off; each scalar has its time from training's own.
                    elif stat.S_ISREG(about.st_mode) and ".tfevents." in entry.name and about.st_mtime >= began - 60.0:
                        found.append((about.st_mtime, Path(entry.path)))
        except OSError as error:  # noqa: PERF203 - a listing costs far more
            fault = error
    return [path for _, path in sorted(found)[-_MOST_FILES:]], fault
