"""Alerts that training raises: taken without waiting, limited per hour, and written for watchers to send."""

import logging
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic, time
from typing import Any, Final

from lastbeat.model import runid
from lastbeat.model.raised_alert import LEVELS, LIMIT_BYTES, MOST, RaisedAlert, encode_alerts, read_alerts
from lastbeat.model.secrets import mask_tokens
from lastbeat.stores.port import ConflictError, DeniedError, Expect, Store
from lastbeat.training.sdk.beat_tasks import Beat, BeatTask, RunStart
from lastbeat.training.sdk.documents import iso_time
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import WarnOnce, safe_log
from lastbeat.training.sdk.values import ValueReader, as_text

HOURLY: Final = 10
_HOUR_S: Final = 3600.0
_RACES: Final = 5
"""Most tries of one write while other ranks write first. Few, because the beat thread has other work."""
_NO_TEXT: Final = "(no text)"
_NO_LEVEL: Final = "lastbeat takes an alert's level for info: there are info, warning and error"
_TOO_MANY: Final = (
    "lastbeat leaves an alert out: of each process it takes %d an hour, and the same one once an hour; so far it has"
    " left out %d"
)


class RaisedAlerts(BeatTask):
    """The alerts that one run of this process raises. Any thread of training may call :meth:`take`."""

    purpose = "write the alerts that training raises"
    counts = True

    def __init__(self) -> None:
        self.waiting: deque[tuple[str, float, str, object, object]] = deque(maxlen=HOURLY)
        """Id, Unix time, level, title and text of each that is not written yet. Title and text are as training gave
        them."""
        self._taken: deque[float] = deque(maxlen=HOURLY)
        self._same: dict[tuple[str, str], float] = {}
        self.left_out = 0
        self._rank: int | None = None
        self._written_at: float | None = None
        """Unix time of the last write."""
        self._reader = ValueReader(warnings=WarnOnce())
        self._read: dict[str, RaisedAlert] = {}
        """Id → alert, for those whose texts have been read but which may not be written yet."""

    def take(self, title: object, text: object, level: object) -> bool:
        """Take an alert. Returns False if it exceeds a limit. Training calls this, so it reads only Python's own
        strings."""
        now = monotonic()
        if len(self._taken) == HOURLY and now - self._taken[0] < _HOUR_S:
            return self._leave_out()
        if type(title) is str and type(text) is str:
            if now - self._same.get((title, text), -_HOUR_S) < _HOUR_S:
                return self._leave_out()
            if len(self._same) > 4 * HOURLY:
                self._same.clear()
            self._same[title, text] = now
        name = level.lower() if type(level) is str else getattr(level, "value", "")
        known = name.lower() if type(name) is str else ""
        known = {"warn": "warning"}.get(known, known)
        if known not in LEVELS:
            safe_log(logging.WARNING, _NO_LEVEL)
            known = LEVELS[0]
        self._taken.append(now)
        self.waiting.append((os.urandom(6).hex(), time(), known, title, text))
        return True

    def _leave_out(self) -> bool:
        self.left_out += 1
        # Training may raise one with each step, so only each doubling of the count is logged.
        if self.left_out & (self.left_out - 1) == 0:
            safe_log(logging.WARNING, _TOO_MANY, HOURLY, self.left_out)
        return False

    def begin(self, start: RunStart) -> None:
        """Take the rank that the alerts name, unless it is 0."""
        self._rank = start.rank.number or None

    def fields(self, run: Run, *, quick: bool) -> dict[str, Any]:  # noqa: ARG002 - a task's
        """When the last alert was written, so that watchers look for it."""
        return {} if self._written_at is None else {"raised_at": iso_time(self._written_at)}

    def write(self, beat: Beat) -> None:
        """Add all waiting alerts to the run's document. Raises :class:`StoreError`; the alerts then keep waiting."""
        waiting = list(self.waiting)
        if not waiting:
            return
        for name, at, level, title, text in waiting:
            if name not in self._read:
                said = self._reader.read([("alert", title, as_text), ("alert", text, as_text)])
                head, body = (part or "" for part in said)
                alert = new_alert(head, body, level)
                self._read[name] = replace(alert, id=name, at=iso_time(at), rank=self._rank, attempt=beat.attempt)
        add_alerts(beat.store, beat.run.run_id, [self._read[name] for name, *_ in waiting])
        self._written_at = time()
        for _ in waiting:
            self._read.pop(self.waiting.popleft()[0], None)

    def follow(self, beat: Beat) -> None:
        self.write(beat)

    def close(self) -> None:
        self._reader.close()


def new_alert(title: str, text: str, level: str) -> RaisedAlert:
    """An alert that is raised now, with secrets masked."""
    masked = mask_tokens(text)
    return RaisedAlert(
        os.urandom(6).hex(), mask_tokens(title) or ("" if masked else _NO_TEXT), masked, level, iso_time(time())
    )


def add_alerts(store: Store, run_id: str, alerts: Sequence[RaisedAlert]) -> None:
    """Add ``alerts`` to the document beside the run, also while other ranks do. Raises :class:`StoreError`."""
    key = f"{run_id}/{runid.ALERTS}"
    # Not by record.fleet_document, which training does not load. Here a refused read does not end the loop, and a lost
    # answer is left to the next beat.
    for tried in range(_RACES):
        try:
            there = store.read(key, LIMIT_BYTES)
        except DeniedError:
            # Some policies let training write but not read. Other ranks' alerts may be lost then.
            store.write(key, encode_alerts(run_id, alerts))
            return
        known = read_alerts(there.body) if there is not None else ()
        new = [each for each in alerts if each.id not in {old.id for old in known}]
        if not new:
            # Written by a try whose answer was lost.
            return
        try:
            store.write(
                key,
                encode_alerts(run_id, [*known, *new][-MOST:]),
                Expect.NOTHING if there is None else there.version,
            )
        except ConflictError:
            if tried + 1 == _RACES:
                raise
        else:
            return
