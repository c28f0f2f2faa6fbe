"""The heartbeats that a beat writes: metadata.json, progress.json with its points and speed, and the clock of both.

    write ──► the store stamps it ──► read the stamp back: the store's time at that instant,
                                      carried on by the monotonic clock; minus this machine's clock

So a watchdog can tell a slow clock from an old document.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final

from lastbeat.model.json_values import json_object
from lastbeat.stores.clock import steady
from lastbeat.stores.port import Blob, DeniedError, Expect, Store, StoreError
from lastbeat.training.sdk.curves import Point, RecentPoints, StepMetrics, StepSampler, sampled
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import safe_log
from lastbeat.training.sdk.sections import left_fields, section_fields
from lastbeat.training.sdk.values import ReadAs, ValueReader, as_int, as_number, as_text, safe_to_read

IGNORED_LIMIT = 8


def iso_time(at: float) -> str:
    """Unix time as ISO 8601 with ``Z``, to the millisecond."""
    return datetime.fromtimestamp(at, tz=timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a process says of its run in every metadata.json, whichever attempt it is."""

    instance: Instance
    version: str = ""
    """Version of lastbeat."""
    beat_s: float = 30.0
    """Time in s between two heartbeats."""
    stop_s: float | None = None
    """Time in s between two checks for a stop request; None for no checks."""
    own_limits: Mapping[str, float | str | None] = field(default_factory=dict)
    """Name in metadata.json → a limit that the run sets for itself, in minutes."""
    owner: str | None = None
    team: str | None = None
    ignored: tuple[str, ...] = ()
    """Invalid settings that keep their default, such as ``LASTBEAT_LEARN='banana'``."""
    described: Mapping[str, object] = field(default_factory=dict)
    """What training says of its run: config, tags and notes."""


@dataclass(frozen=True, slots=True)
class AttemptIdentity:
    """What does not change during an attempt."""

    run: RunIdentity
    number: int
    start_time: float
    """Unix time in s."""
    process: int


def metadata_document(
    run: Run,
    attempt: AttemptIdentity,
    at: float | None,
    reader: ValueReader | None = None,
    offset_s: float | None = None,
) -> dict[str, Any]:
    """metadata.json, without the fields of beat tasks: that the run lives, and its phases.

    ``at`` is the document's own time in Unix seconds. Leave it out while ``offset_s`` (how far the store's clock is
    ahead of this one) is unknown, so that a slow clock cannot make the document look old.
    """
    phases = run.phases.copy()
    now, about = run.phase_now
    asked = [
        ("phase", now, as_text),
        ("phase detail", about, as_text),
        *(("phase", name, as_text) for _, name in phases),
    ]
    phase, detail, *names = (reader or ValueReader()).read(asked)
    identity = attempt.run
    return {
        "run_id": run.run_id,
        "status": run.status,
        "phase": phase,
        "phase_detail": detail,
        "last_update": iso_time(at) if at is not None else None,
        "clock_offset_s": offset_s,
        "beat_seconds": identity.beat_s,
        **identity.own_limits,
        "owner": identity.owner,
        "team": identity.team,
        **identity.described,
        "ignored_settings": list(identity.ignored[:IGNORED_LIMIT]) or None,
        "start_time": iso_time(attempt.start_time),
        "attempt": attempt.number,
        **identity.instance.fields(),
        **process_fields(attempt.process),
        "stop_seconds": identity.stop_s,
        "heeds_stop": run.heeds_stop or None,
        **(run.announcement.fields() if run.announcement is not None else {}),
        "phases": distinct_phases(zip((at for at, _ in phases), names, strict=True)),
        "thread_error": run.thread_error.line if run.thread_error is not None else None,
        **section_fields(() if run.ended else run.sections.spans()),
        **left_fields(run.sections),
        **(run.rerun.fields() if run.rerun is not None else {}),
        "lastbeat": identity.version,
    }


def process_fields(process: int, *, wraps: bool = False) -> dict[str, Any]:
    """Which process trains; ``wraps``: ``lastbeat exec`` started it."""
    return {"process": process, "process_mark": process_mark(process), "wraps": wraps or None}


def distinct_phases(changes: Iterable[tuple[float, str | None]]) -> list[tuple[float, str]]:
    """Unix time and name of each phase, oldest first, without changes to the same phase."""
    phases: list[tuple[float, str]] = []
    for at, name in changes:
        if name is not None and (not phases or phases[-1][1] != name):
            phases.append((round(at, 3), name))
    return phases


def process_mark(number: int, processes: Path = Path("/proc")) -> str | None:
    """Text that identifies the process ``number`` uniquely: this machine's boot, its pid namespace, and its start. None
    if the system does not report that, or there is no such process."""
    with suppress(OSError, ValueError, IndexError):
        boot = (processes / "sys/kernel/random/boot_id").read_text("ascii").strip()
        space = os.readlink(processes / str(number) / "ns/pid")  # noqa: PTH115 - text, not a path
        stat = (processes / str(number) / "stat").read_bytes()
        # The name in it is in parentheses and may hold anything.
        began = int(stat.rpartition(b")")[2].split()[19])
        return f"{boot}/{space.strip('pid:[]')}/{began}"
    return None


def read_if_allowed(store: Store, key: str, limit_bytes: int) -> Blob | None:
    """The beginning of a file. None without one, or if this process may not read it: some policies let training write
    but not read. Raises :class:`StoreError` otherwise."""
    try:
        return store.read(key, limit_bytes)
    except DeniedError:
        return None


def delete_if_allowed(store: Store, key: str) -> bool:
    """Delete a file. Returns False if the store refuses that for good, as some policies do. Raises :class:`StoreError`
    if it may work on a retry."""
    try:
        store.delete(key)
    except StoreError as error:
        if error.retryable:
            raise
        safe_log(logging.DEBUG, "%s stays: %s", key, error)
        return False
    return True


# Each counts the restarts of a job from 0; torchelastic's counts those of its workers.
_COUNTERS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "FLUX_JOB_RESTART_COUNT", "LASTBEAT_RESTART_COUNT")
_MOST = 10**15
"""Readers accept no larger number, and Python would refuse to write one of thousands of digits again."""


def restarts(environ: Mapping[str, str]) -> int:
    """How often the scheduler has restarted this job, by its own count."""
    counts = (environ.get(name, "").strip() for name in _COUNTERS)
    return max((int(count) for count in counts if count.isascii() and count.isdigit() and len(count) < 6), default=0)


def next_attempt(before: int | None, restarted: int, *, resume: bool = False) -> int:
    """The number of the attempt that begins now.

    ``before`` is the number in the existing metadata.json: 0 if it has none, None if there is no such file.
    ``resume`` means that there was an earlier attempt, even if nothing of it is left.
    """
    known = 0 if before is None else max(before, 1)
    return max(known + 1, restarted + 1, 2 if resume else 1)


def start_time_of(body: bytes) -> object:
    """The start time in a metadata.json, unparsed; None if it has none."""
    return parsed(body).get("start_time")


def attempt_of(body: bytes) -> int:
    """The attempt number in a metadata.json; 0 if the document has no usable one or cannot be parsed."""
    try:
        found = int(parsed(body)["attempt"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return 0
    return found if abs(found) < _MOST else 0


def parsed(body: bytes) -> dict[str, Any]:
    """A document that training wrote; empty where it is none."""
    return json_object(body) or {}


METRICS_LIMIT = 50
CURVES_LIMIT = 8
CURVE_POINTS = 60
_NAME_CHARS = 100
_SPEED_WINDOW_S = 300.0


@dataclass
class ProgressHistory:
    """What progress.json is made of: points, speed, time left. One for each run, used by its beat thread alone."""

    recent: RecentPoints = field(default_factory=RecentPoints)
    reader: ValueReader = field(default_factory=ValueReader)
    curves: dict[str, RecentPoints] = field(default_factory=dict)
    """Points of metrics by name: the first :data:`CURVES_LIMIT` that training reported."""
    _beat_at: float = 0.0
    _sampler: StepSampler = field(default_factory=StepSampler)
    """The one that the last beat took."""
    _window: list[tuple[float, int, int]] = field(default_factory=list)
    """Unix time, step, and tokens so far, of the last minutes."""

    def document(self, run: Run, at: float) -> dict[str, Any] | None:
        """progress.json at Unix time ``at``, or None before the first step."""
        # One look at the clock for all points: reading a value may take long.
        offset = monotonic() - at
        # Taken first, so that none of its steps is newer than the latest.
        # A step that was under way at the last beat may have gone into the sampler of then.
        samplers = [self._sampler, run.between]
        self._sampler, run.between = run.between, StepSampler()
        latest = run.latest
        if latest is None:
            return None
        step, loss, learning_rate, epoch, metrics = latest
        names, asked = _named(metrics)
        # In order of how unlikely they are to hang: what comes after a value that hangs is not read.
        at_step, total, tokens, phase, *floats = self.reader.read(
            [
                ("step", step, as_int),
                ("total_steps", run.total_steps, as_int),
                ("tokens", run.tokens, as_int),
                ("phase", run.phase_now[0], as_text),
                ("loss", loss, as_number),
                ("learning_rate", learning_rate, as_number),
                ("epoch", epoch, as_number),
                *asked,
            ]
        )
        if at_step is None:
            return None
        loss_now, rate_now, epoch_now, *metrics_now = floats
        points = self._between(samplers, at, offset, at_step)
        for point in (*sampled(points), (round(at, 3), at_step, loss_now, rate_now)):
            self.recent.add(point)
        if run.curves is not None:
            for then, told, loss_then, rate_then in (*points, (at, at_step, loss_now, rate_now)):
                run.curves.add("loss", then, told, loss_then)
                run.curves.add("learning_rate", then, told, rate_then)
            # A metric of this name is training's own count.
            run.curves.add("tokens", at, at_step, None if "tokens" in names else tokens or None)
        taken = [each for sampler in samplers for each in sampler.take_metrics(metrics)]
        self._add_metrics(run, taken, at, offset)
        named = dict(zip(names, metrics_now, strict=True))
        self._add_points(run, at, at_step, named)
        self._beat_at = at
        self._window.append((at, at_step, tokens or 0))
        while len(self._window) > 2 and at - self._window[0][0] > _SPEED_WINDOW_S:
            self._window.pop(0)
        steps_per_s, tokens_per_s = self._speeds()
        left = total - at_step if total is not None else None
        return {
            "run_id": run.run_id,
            "phase": phase,
            "step": at_step,
            "total_steps": total,
            "loss": loss_now,
            "learning_rate": rate_now,
            "epoch": epoch_now,
            "tokens": tokens or None,
            "steps_per_second": steps_per_s,
            "tokens_per_second": tokens_per_s,
            "eta_s": round(left / steps_per_s) if left is not None and left >= 0 and steps_per_s else None,
            "metrics": named or None,
            "recent": self.recent.points,
            "metric_points": {name: [each[:3] for each in curve.points] for name, curve in self.curves.items()} or None,
            "last_updated": iso_time(at),
        }

    def _unix(self, when: float, at: float) -> float | None:
        """``when``, the Unix time of a step, held between the last beat and this one. None if the Unix clock has
        been set back since."""
        return min(max(self._beat_at, when), at) if at > self._beat_at else None

    def _between(self, samplers: Iterable[StepSampler], at: float, offset: float, at_step: int) -> list[Point]:
        """All points since the last beat that have a time, without those of the latest step."""
        timed = [(self._unix(each[0] - offset, at), each) for sampler in samplers for each in sampler.take()]
        return [
            (round(then, 3), step, as_number(loss), as_number(rate))
            for then, (_, step, loss, rate) in timed
            if then is not None and step != at_step
        ]

    def _add_metrics(self, run: Run, taken: Iterable[StepMetrics], at: float, offset: float) -> None:
        """The metrics of steps between two beats."""
        for when, step, metrics in taken:
            then = self._unix(when - offset, at)
            if then is None or not safe_to_read(step):
                continue
            names, asked = _named(metrics)
            values, at_step = self.reader.read(asked), as_int(step)
            if at_step is not None:
                self._add_points(run, then, at_step, dict(zip(names, values, strict=True)))

    def _add_points(self, run: Run, at: float, step: int, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if run.curves is not None:
                run.curves.add(name, at, step, value)
            if value is None or (name not in self.curves and len(self.curves) >= CURVES_LIMIT):
                continue
            curve = self.curves.setdefault(name, RecentPoints(CURVE_POINTS))
            # A step that is reported again while training stands still adds no point.
            if not curve.points or curve.points[-1][1] != step:
                curve.add((round(at, 3), step, value, None))

    def _speeds(self) -> tuple[float | None, float | None]:
        """Steps and tokens per second over the window; None if unknown."""
        (then, first_step, first_tokens), (now, last_step, last_tokens) = self._window[0], self._window[-1]
        span_s = now - then
        if span_s <= 0 or last_step <= first_step:
            return None, None
        return _rounded((last_step - first_step) / span_s), _rounded((last_tokens - first_tokens) / span_s) or None


def _named(metrics: Mapping[str, object]) -> tuple[list[str], list[tuple[str, object, ReadAs]]]:
    """The names of some metrics, and what to ask a reader for."""
    named = [((as_text(name) or "")[:_NAME_CHARS], value) for name, value in islice(metrics.items(), METRICS_LIMIT)]
    return [name for name, _ in named], [(f"metric {name!r}", value, as_number) for name, value in named]


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


LEAST_OFFSET_S: Final = 2.0
"""Smallest offset in s that counts. Stores stamp whole seconds, and requests take a moment."""
_REFRESH_S: Final = 3600.0
"""The offset is learned again after this many s, because clocks drift apart by seconds a day."""
_RETRY_S: Final = 60.0
"""The offset is tried again after this many s if it could not be learned."""


class ClockOffset:
    """The offset between one machine's clock and one store's. For use by one thread."""

    def __init__(self, wall: Callable[[], float] = time.time, steady_clock: Callable[[], float] = steady) -> None:
        self._wall = wall
        self._steady_clock = steady_clock
        self._base: float | None = None
        """The store's time minus the steady clock."""
        self._due = -math.inf

    @property
    def seconds(self) -> float | None:
        """The store's clock minus this machine's, now, in s; None if unknown."""
        if self._base is None:
            return None
        offset_s = self._base + self._steady_clock() - self._wall()
        return 0.0 if abs(offset_s) < LEAST_OFFSET_S else round(offset_s, 1)

    def write(self, store: Store, key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        """Write ``key``, learn the offset from it if that is due, and return its new version. Raises
        :class:`StoreError` if the write fails."""
        began = self._steady_clock()
        version = store.write(key, body, expect)
        now = self._steady_clock()
        if now >= self._due:
            self._learn(store, key, began, now)
        return version

    def _learn(self, store: Store, key: str, began: float, now: float) -> None:
        try:
            blob = store.read(key, 1)
        except StoreError as error:
            # Some policies let training write but not read.
            safe_log(logging.DEBUG, "the offset of the store's clock is unknown: %s", error)
            blob = None
        if blob is None:
            self._due = now + _RETRY_S
            return
        # A stamp truncated to whole seconds is half a second early on average.
        stamp = blob.modified.timestamp() + (0.0 if blob.modified.microsecond else 0.5)
        self._base = stamp - (began + now) / 2
        self._due = now + _REFRESH_S
