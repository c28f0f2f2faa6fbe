"""What is known of a run → its row in the table of a fleet, and how long that stays the same while nothing is written:
so rows of a quiet fleet are not rebuilt in each interval. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from typing import Final

from lastbeat.fleet.index import newest_of
from lastbeat.model import runid
from lastbeat.model import status as names
from lastbeat.model.figures import Figures
from lastbeat.model.policy import Policy
from lastbeat.model.silence import Silence
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import format_duration
from lastbeat.model.view import STRIP_S, Row, WatchState
from lastbeat.stores.port import Entry
from lastbeat.views.known_run import Gist, KnownRun, token
from lastbeat.views.order import FRESH_S
from lastbeat.views.standing import NOTHING, Standing, of_decision, strip
from lastbeat.watch.decide.recovery import STOOD_STILL
from lastbeat.watch.decide.transition import decide
from lastbeat.watch.observe.run import glance, newest_log
from lastbeat.watch.record.silences import covering

STILL_S: Final = 600.0
"""Seconds without a new step that are normal for any run."""
UNKNOWN_STILL_S: Final = 1800.0
"""The same where nothing tells how often steps come, and in a section other than a step, such as an evaluation."""
USUAL: Final = 3.0
"""Times the usual wait for a reported step."""
_STEP: Final = "step"


@dataclass(frozen=True, slots=True)
class Standstill:
    """How a run gets on with its steps."""

    step_at: datetime | None = None
    """When it reached its step, by the store's clock; it may have been earlier."""
    normal_s: float = UNKNOWN_STILL_S
    """Seconds without a new step that are normal for it. Infinite: no step is to come."""
    limited: bool | None = None
    """Whether a limit for standing still holds for it. None: unknown."""

    def lasts(self, at: datetime) -> bool:
        """Whether it has stood still for longer than normal."""
        return self.step_at is not None and (at - self.step_at).total_seconds() > self.normal_s


def standstill(
    source: Gist | None,
    metadata: Gist | None,
    recorded: tuple[int, datetime] | None,
    policy: Policy,
    *,
    unread: bool,
) -> Standstill:
    """Since when a run is at its step. ``source`` is the document with that step, ``recorded`` a step and when a
    watcher saw the run reach it. ``policy`` has the run's limits; ``unread``: metadata.json may state more."""
    sections = metadata.heartbeat.sections if metadata is not None else ()
    limited: bool | None = policy.stall_s is not None or policy.inactivity_s is not None or policy.learns_steps
    limited = limited or any(each.limit_s is not None for each in sections) or (None if unread else False)
    beat = source.heartbeat if source is not None else None
    if source is None or beat is None or beat.step is None:
        return Standstill(None if recorded is None else recorded[1], limited=limited)
    reached_at = beat.modified - timedelta(seconds=beat.stood_s)
    if recorded is not None and recorded[0] == beat.step:
        reached_at = min(reached_at, recorded[1])
    if beat.total_steps is not None and beat.step >= beat.total_steps - 1:
        # No step is to come. Steps are counted from 0 or from 1.
        return Standstill(reached_at, inf, limited)
    elsewhere = any(each.name not in {None, _STEP} for each in sections)
    least_s = UNKNOWN_STILL_S if source.report_s is None or elsewhere else STILL_S
    usual_s = source.report_s or (1 / source.steps_per_s if source.steps_per_s else 0.0)
    return Standstill(reached_at, max(least_s, USUAL * usual_s), limited)


FAULTS_LIMIT: Final = 300
NOT_EXPLAINED: Final = (
    "Not explained yet: no pass has recorded this run, and its log was not read for this view. "
    "lastbeat show {} reads it; lastbeat sweep --once records why each run failed."
)
_JUDGED_BY: Final = (runid.METADATA, runid.PROGRESS, runid.ERROR)
_ALONE_S: Final = 120.0
"""Where no passes are made a command may still watch a single run; it judges within this time."""
_PASSES: Final = 3
"""Number of their intervals after which passes are late."""
_SAME_START: Final = timedelta(seconds=1)
_STANDS_STILL: Final = frozenset({names.STALLED, names.PROGRESS_STALE})
_FOREVER: Final = float("inf")


def row(  # noqa: PLR0913 - all that a row depends on
    known: KnownRun,
    standing: Standing,
    at: datetime,
    policy: Policy,
    watching: WatchState,
    *,
    unread: bool = False,
    silences: Sequence[Silence] = (),
) -> Row:
    """``known``, which is as ``standing`` says, as people are shown it at ``at``. ``unread``: something that the row
    needs is still to be read."""
    beat_at = last_beat(known.files)
    # The age of evidence that cannot be read is unknown.
    doubt = None if known.closed is not None else doubt_of(standing, known.files, at, policy, watching)
    progress, metadata = known.gist(runid.PROGRESS), known.gist(runid.METADATA)
    counts = _of_now(progress, metadata, standing)
    tells = counts if counts is not None and _has_step(counts) else metadata
    first, second = counts and counts.heartbeat, metadata and metadata.heartbeat
    figures = tells.heartbeat.figures if tells is not None else Figures()
    if tells is None or not _has_step(tells):
        figures = replace(figures, step=_step(known, standing))
    still = _standstill(known, tells, standing, policy)
    seen_at = known.seen_at(runid.PROGRESS if tells is counts and counts is not None else runid.METADATA, at)
    stands_still = standing.status is Status.RUNNING and doubt is None and still.lasts(seen_at)
    advances = standing.status is Status.RUNNING and doubt is None and _STANDS_STILL.isdisjoint(standing.conditions)
    lives = advances and not stands_still and unjudged_end(standing, known.files) is None
    return Row(
        run_id=known.run_id,
        state=standing.state,
        recorded=standing.recorded,
        since=standing.since,
        attempt=standing.attempt,
        phase=_either(first.phase if first else None, second.phase if second else None),
        figures=figures,
        eta_s=tells.eta_s if tells is not None and lives else None,
        losses=tells.losses if tells is not None else (),
        steps_per_s=tells.steps_per_s if tells is not None and lives else None,
        tokens_per_s=tells.tokens_per_s if tells is not None and lives else None,
        step_at=still.step_at if figures.step is not None else None,
        still_after_s=still.normal_s,
        stands_still=stands_still,
        stall_limited=still.limited,
        watched_since=standing.watched_since,
        beat_at=beat_at,
        host=_either(second.instance_id, second.host) if second else None,
        owner=second.owner if second else None,
        team=second.team if second else None,
        tags=second.tags if second else (),
        config=metadata.config if metadata else {},
        metrics=tells.metrics if tells is not None else {},
        gpus=metadata.gpus if metadata else None,
        started=second.start_time if second else None,
        strip=strip(standing.spans, at),
        pending=standing.pending,
        doubt=doubt,
        fault=_faults(known),
        complete=not unread,
        silence=covering(silences, known.run_id, at),
        acknowledged=standing.acknowledged,
        job=standing.job,
    )


def _standstill(known: KnownRun, tells: Gist | None, standing: Standing, policy: Policy) -> Standstill:
    metadata = known.gist(runid.METADATA)
    start = metadata.heartbeat.start_time if metadata is not None else None
    # The next attempt may go on at the very step that the last one reached.
    recorded = standing.step_seen if start in {None, standing.start_time} else None
    unread = metadata is None and runid.METADATA in known.files
    return standstill(tells, metadata, recorded, policy, unread=unread)


def same_until(known: KnownRun, shown: Row, at: datetime, policy: Policy, since_s: float) -> float:
    """Until when, in unix seconds, the row ``shown``, which is that of ``known`` as of ``at``, stays as it is, and in
    the table; from then on it is worth another look. ``at`` itself: that is not known."""
    now = at.timestamp()
    told = shown.recorded and shown.complete and shown.doubt is None and not known.refused
    if not told or _may_be_doubted(known, shown, now, policy):
        return now
    return min((moment for moment in _moments(known, shown, policy, since_s) if moment >= now), default=_FOREVER)


def _may_be_doubted(known: KnownRun, shown: Row, now: float, policy: Policy) -> bool:
    """Whether it depends on who watches, or on how long they have been at it."""
    life = last_life(known.files)
    fresh = life is not None and now - life.timestamp() <= policy.stale_s
    if shown.status is Status.RUNNING:
        ended = any(name in known.files for name in runid.SENTINELS)
        return ended or (life is not None and not fresh)
    went_on = life is not None and shown.since is not None and (life - shown.since).total_seconds() > policy.stale_s
    return fresh and went_on


def _moments(known: KnownRun, shown: Row, policy: Policy, since_s: float) -> Iterator[float]:
    """When something of it may change."""
    files, life = known.files, last_life(known.files)
    if shown.status is Status.RUNNING and life is not None:
        # In doubt it is later than this, and for nothing else.
        yield life.timestamp() + policy.stale_s
    if shown.status in UNWELL and shown.since is not None:
        yield shown.since.timestamp() + FRESH_S
    if shown.status is Status.RUNNING and shown.step_at is not None:
        yield shown.step_at.timestamp() + shown.still_after_s
    if shown.silence is not None:
        yield shown.silence.until.timestamp()
    if len(shown.strip) > 1:
        yield shown.strip[1].since.timestamp() + STRIP_S
    record = files.get(runid.RECORD)
    yield max(newest_of(files), record.modified.timestamp() if record is not None else 0.0) + since_s


def last_beat(files: Mapping[str, Entry]) -> datetime | None:
    """When the newest heartbeat was stored; where there is none, the newest log."""
    beats = [files[name].modified for name in (runid.METADATA, runid.PROGRESS) if name in files]
    log = newest_log(files)
    return max(beats, default=log.modified if log is not None else None)


def doubt_of(
    standing: Standing, files: Mapping[str, Entry], at: datetime, policy: Policy, watching: WatchState
) -> str | None:
    """Why a run's record may be out of date: its evidence differs, and no pass has judged that yet."""
    if not standing.recorded:
        return None
    watched = not watching.known or (watching.last_pass_at is not None and not watching.overdue)
    why = "no pass has judged that" if watched else "no watchdog runs"
    slack_s = _PASSES * (watching.interval_s or 0.0) if watched else _ALONE_S
    end = unjudged_end(standing, files)
    if end is not None and (at - files[end].modified).total_seconds() > slack_s:
        return f"it wrote {end}, and {why}"
    beat = last_life(files)
    if beat is None:
        return None
    silent_s = (at - beat).total_seconds()
    # Passes know more of silence: which file is gone since when, which timestamp stands still.
    slack_s += policy.stale_s if watched else 0.0
    if standing.status is Status.RUNNING and silent_s > policy.stale_s + slack_s:
        return f"silent for {_about(silent_s)}, and {why}"
    if standing.status.finished and standing.since is not None and silent_s <= policy.stale_s and not watched:
        gone_on_s = (beat - standing.since).total_seconds()
        if gone_on_s > policy.stale_s + slack_s and STOOD_STILL not in standing.reason:
            return f"it beats again, and {why}"
    return None


def unjudged_end(standing: Standing, files: Mapping[str, Entry]) -> str | None:
    """The sentinel that a run has written since it was seen to run."""
    if standing.status is not Status.RUNNING or standing.since is None:
        return None
    ends = (name for name in runid.SENTINELS if name in files)
    return next((name for name in ends if files[name].modified > standing.since), None)


def last_life(files: Mapping[str, Entry]) -> datetime | None:
    """The newest of what may count as life: logs, where a heartbeat is missing."""
    beats = [files[name].modified for name in (runid.METADATA, runid.PROGRESS) if name in files]
    log = newest_log(files) if len(beats) < 2 else None
    return max([*beats, *([log.modified] if log is not None else [])], default=None)


def _about(seconds: float) -> str:
    """A duration in a unit or two; the longer, the coarser, so that a row does not change every minute."""
    step = 60.0 if seconds < 3600 else 600.0 if seconds < 6 * 3600 else 3600.0
    return format_duration(seconds // step * step)


def unrecorded(known: KnownRun, at: datetime, policy: Policy) -> Standing | None:
    """What a run without a record is by everything but its logs. None: it is recorded, cannot be looked at, or
    something of it is still to be read."""
    if known.closed is not None or known.is_recorded:
        return None
    if any(name in known.files and name not in known.documents for name in _JUDGED_BY):
        # Nothing at all follows from a part of it.
        return None
    seen = glance(known.files, known.beats, known.error_text)
    return of_decision(decide(None, known.run_id, seen, policy, at), known.files)


def standing_of(known: KnownRun) -> Standing:
    """What a run is, as far as its record, its index or its files tell."""
    if known.closed is not None or known.is_recorded:
        return known.last_known or NOTHING
    seems, found = known.seems, known.explained
    if seems is None:
        return NOTHING
    if found is not None:
        return found.applied(seems)
    if seems.status in UNWELL and known.explainable:
        # What is to be done depends on what the logs say.
        return replace(seems, state=replace(seems.state, cause=None, action=NOT_EXPLAINED.format(known.run_id)))
    return seems


def _of_now(progress: Gist | None, metadata: Gist | None, standing: Standing) -> Gist | None:
    """progress.json, unless an earlier attempt left it behind."""
    if progress is None:
        return None
    own, started = progress.heartbeat.own_time, [standing.start_time]
    if metadata is not None:
        started.append(metadata.heartbeat.start_time)
    start = max((each for each in started if each is not None), default=None)
    return None if own is not None and start is not None and own < start - _SAME_START else progress


def _has_step(gist: Gist) -> bool:
    return gist.heartbeat.step is not None or gist.heartbeat.loss is not None


def _step(known: KnownRun, standing: Standing) -> int | None:
    return None if runid.PROGRESS in known.files else standing.step


def _either(one: str | None, other: str | None) -> str | None:
    return one or other or None


def _faults(known: KnownRun) -> str | None:
    """Why what is shown of it could not be checked again."""
    faults = list(filter(None, [known.closed or _record_fault(known)]))
    for name in (runid.METADATA, runid.PROGRESS, runid.ERROR):
        read, refused = known.documents.get(name), known.refused.get(name)
        if refused is not None:
            faults.append(f"{name} cannot be read: {refused.why}")
        elif read is not None and read.fault is not None:
            faults.append(f"{name}: {read.fault}")
    return "; ".join(faults)[:FAULTS_LIMIT] or None


def _record_fault(known: KnownRun) -> str | None:
    entry = known.files.get(runid.RECORD)
    if entry is None or known.standing is not None:
        return None
    read, refused = known.documents.get(runid.RECORD), known.refused.get(runid.RECORD)
    if read is not None and read.fault is not None and read.token == token(entry):
        return f"its record cannot be used: {read.fault}"
    return None if refused is None else f"its record cannot be read: {refused.why}"
