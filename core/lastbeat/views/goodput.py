"""What runs spent their time on, for people and programs."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from lastbeat.model import runid
from lastbeat.model.as_json import Json, as_json, picked
from lastbeat.model.codec import DamagedError
from lastbeat.model.goodput import Goodput, TimeSpent, total
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.observation import Seen
from lastbeat.model.progress_lines import Progress
from lastbeat.model.status import Status
from lastbeat.model.times import format_time
from lastbeat.model.timesheet import AttemptTimes, Timesheet, TimeUse
from lastbeat.model.view import Excerpt
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.goodput import goodput
from lastbeat.watch.decide.timesheet import restart_waits, watched_from, with_step
from lastbeat.watch.record.codec import RECORD_LIMIT_BYTES, decode_record

SCHEMA: Final = 1


def with_log(sheet: Timesheet | None, seen: Seen | None, tail: Excerpt | None) -> Timesheet | None:
    """``sheet`` with the step at the end of the log, of a run that lives and writes steps nowhere else."""
    last = sheet.last if sheet is not None else None
    if sheet is None or last is None or tail is None or tail.modified is None:
        return sheet
    if seen is None or seen.progress is not None or last.began_at is None or tail.modified < last.began_at:
        return sheet
    said = Progress()
    for each in tail.lines:
        said.read(each)
    # Counts that restart in each epoch cannot be recognized from the end of a log alone.
    if said.step is None or said.step < (last.last_step or 0):
        return sheet
    return with_step(sheet, said.step, tail.modified)


def goodput_document(found: Goodput) -> Json:
    """The promised keys, all of them always there; what is not known is null."""
    return {**picked(found, "since until over first_attempt"), **spent_document(found)}


def spent_document(found: TimeSpent) -> Json:
    """What one run and many have in common. Seconds; ratios from 0 to 1."""
    return {
        "wall_s": _seconds(found.wall_s),
        "ettr": _ratio(found.ettr),
        "ettr_most": _ratio(found.ettr_most),
        "spent_s": {use.value: _seconds(found.spent.get(use)) for use in TimeUse},
        **picked(found, "attempts lost_steps failures"),
        "mean_time_to_detect_s": _seconds(found.mean_detect_s),
        "mean_time_to_recover_s": _seconds(found.mean_recover_s),
    }


def times_document(attempts: Sequence[AttemptTimes]) -> list[Json]:
    """The known times of each attempt."""
    return [
        {
            "attempt": each.number,
            **picked(each, "submitted_at started_at first_step first_step_at last_step last_step_at died_at seen_at"),
            "resumed_from_step": each.resumed_from,
            "ended_as": as_json(each.end),
            "restart_decided_at": format_time(each.decided_at),
        }
        for each in attempts
    ]


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _ratio(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class RunGoodput:
    """One run of a fleet."""

    run_id: str
    status: Status | None = None
    goodput: Goodput | None = None
    """None: nothing of that is recorded."""
    fault: str | None = None
    """Why its record could not be read."""


@dataclass(frozen=True)
class FleetGoodput:
    """Those of which something is known, the one that lost the most time first."""

    runs: tuple[RunGoodput, ...] = ()
    unrecorded: int = 0
    """Runs of whose times nothing is recorded."""
    unread: tuple[RunGoodput, ...] = ()
    """Runs whose records could not be read."""
    total: TimeSpent = field(default_factory=TimeSpent)


def fleet_goodput(store: Store, run_ids: Sequence[str], now: datetime, until: float = float("inf")) -> FleetGoodput:
    """The goodput of these runs, as of ``now`` by the store's clock. A record that was not read by ``until``
    (``time.monotonic()``) is unread. Never raises for the store."""
    over = threading.Event()
    with ThreadPoolExecutor(max(1, min(_THREADS, len(run_ids))), "lastbeat-goodput") as pool:
        try:
            found = list(pool.map(partial(_one, store, now, until, over), run_ids))
        finally:
            # Whatever ended this, Ctrl-C perhaps: nothing that waits is begun any more.
            over.set()
    known = [each for each in found if each.goodput is not None]
    return FleetGoodput(
        tuple(sorted(known, key=lambda each: (-_wasted_s(each), each.run_id))),
        sum(each.goodput is None and each.fault is None for each in found),
        tuple(each for each in found if each.fault is not None),
        total(each.goodput for each in known if each.goodput is not None),
    )


def _one(store: Store, now: datetime, until: float, over: threading.Event, run_id: str) -> RunGoodput:
    if over.is_set() or time.monotonic() >= until:
        return RunGoodput(run_id, fault="there was no time left to read it")
    try:
        blob = store.read(f"{run_id}/{runid.RECORD}", RECORD_LIMIT_BYTES)
        if blob is None:
            return RunGoodput(run_id)
        if blob.size_bytes > len(blob.body):
            return RunGoodput(run_id, fault=f"its record is {blob.size_bytes:,} bytes long")
        record = decode_record(blob.body)
        sheet = record.timesheet
        if sheet is not None and record.status is Status.RUNNING:
            sheet = _with_progress(store, run_id, sheet)
    except DamagedError as wrong:
        return RunGoodput(run_id, fault=f"its record cannot be used: {wrong}")
    except StoreError as wrong:
        return RunGoodput(run_id, fault=str(wrong))
    found = goodput(sheet, now, restart_waits=restart_waits(record), watched_from=watched_from(record))
    return RunGoodput(run_id, record.status, found)


def _with_progress(store: Store, run_id: str, sheet: Timesheet) -> Timesheet:
    """``sheet`` with the latest step of progress.json: the record of a healthy run has an older one."""
    blob = store.read(f"{run_id}/{runid.PROGRESS}", DOCUMENT_LIMIT_BYTES)
    last = sheet.last
    if blob is None or last is None or last.began_at is None or blob.modified < last.began_at:
        return sheet
    beat = read_heartbeat(blob)
    if beat.step is None or beat.step < (last.last_step or 0):
        return sheet
    if last.first_step is None and beat.first_point is not None and beat.first_point[0] >= last.began_at:
        at, step = beat.first_point
        told = replace(last, first_step=step, first_step_at=at, first_is_told=True, last_step=step, last_step_at=at)
        sheet = replace(sheet, attempts=(*sheet.attempts[:-1], told))
    return with_step(sheet, beat.step, blob.modified)


def _wasted_s(each: RunGoodput) -> float:
    if each.goodput is None or each.goodput.ettr is None:
        return 0.0
    return each.goodput.wall_s * (1 - each.goodput.ettr)
