"""One tick of one run: observe, decide, explain, record, carry out, settle."""

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from lastbeat import watch
from lastbeat.alerts.port import Channel
from lastbeat.model import runid
from lastbeat.model.action import Action
from lastbeat.model.alert import Message
from lastbeat.model.curve import Curve, curve_point
from lastbeat.model.data import dataclass
from lastbeat.model.job import JobSight
from lastbeat.model.limits import MEND
from lastbeat.model.observation import NeverSeen, RankFiles, Seen, Unreadable
from lastbeat.model.outcome import Outcome
from lastbeat.model.policy import Policy
from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.model.status import UNWELL, Status
from lastbeat.model.times import backoff_s, format_time
from lastbeat.stores.port import ConflictError, Entry, Store, StoreError, UnreachableError
from lastbeat.stores.selftest import conditions_ignored
from lastbeat.stores.volatile import VolatileStore
from lastbeat.watch.decide.jobs import spent_outputs
from lastbeat.watch.decide.leaving import back, stays_out
from lastbeat.watch.decide.missed_beats import missed_beats_s
from lastbeat.watch.decide.ranks import failed_rank, suspects
from lastbeat.watch.decide.supervised_ends import defer_until, undecided_restart, with_decider
from lastbeat.watch.decide.transition import Decision, decide, with_explanation, with_silence, with_similar
from lastbeat.watch.effects import actions
from lastbeat.watch.effects.actions import Executor
from lastbeat.watch.effects.blindness import BlindnessAlert, state_key
from lastbeat.watch.effects.deferral import DeliveryCounts, defer, failed_deliveries
from lastbeat.watch.effects.message import Excerpts, RunLocation, compose, hangs, ranks_matter
from lastbeat.watch.effects.outbox import failures
from lastbeat.watch.effects.routing import Routing
from lastbeat.watch.effects.runner import ClaimedEffects, EffectResults, EffectRunner
from lastbeat.watch.observe.log_observer import LogObserver, LogSettings
from lastbeat.watch.observe.ranks import SilentRankReader, look_at_ranks, rank_in_error
from lastbeat.watch.observe.run import Observer
from lastbeat.watch.record.fleet_document import GOOD_FOR_S
from lastbeat.watch.record.known_failures import KnownFailures
from lastbeat.watch.record.limits import FleetLimits
from lastbeat.watch.record.repository import RecordRepository, forgotten
from lastbeat.watch.record.silences import Silences

log = logging.getLogger(__name__)

_RACES: Final = 5
"""Tries of a tick, and of an amendment of alerts, while other watchers are faster. Each try costs many requests."""
_PAUSE_S: Final = 0.02
"""Pause in seconds before a failed write of the record is retried; it doubles each time."""
_LOOK_AT_LOGS: Final = (
    "Nothing else shows whether this run lives: make sure that the watcher may read its log (LASTBEAT_LOGS, --log)."
)


def no_link(_run_id: str) -> None:
    """The link of runs without a web address: None."""


class JobSupervisor(Protocol):
    """What a watch asks about the job of a run that it supervises: in steps 1 and 3 of a tick."""

    def look(self, record: Record | None, now: datetime) -> JobSight | None:
        """The run's current job, or None if it has none. Never raises."""
        ...

    def decide_restart(self, decision: Decision, now: datetime) -> Decision:
        """``decision`` with the next step for a job that has ended: its restart, or the reason for none. Never
        raises."""
        ...


@dataclass(frozen=True)
class WatchContext:
    """What all watches of a fleet share."""

    store: Store
    """The fleet root."""
    channels: Sequence[Channel]
    policy: Policy
    clock: Callable[[], datetime]
    """This host's clock, used only while the store's cannot be read."""
    state: Store | None = None
    """Holds what cannot be stored beside the run: a record that the store refuses, and when the watchdog went blind."""
    link: Callable[[str], str | None] = no_link
    """Run id → a web address of the run."""
    mask: Callable[[str], str] = str
    """Masks the settings' secrets in text from training."""
    silences: Silences | None = None
    """Mutes the alerts of the runs that they cover."""
    failures: KnownFailures | None = None
    """Failures of the fleet's runs; an alert names the last one like its own."""
    limits: FleetLimits | None = None
    """Limits of the fleet, which outrank those of ``policy``."""
    routing: Routing = field(default_factory=Routing)
    """Which channels each alert goes to."""
    signals: LogSettings = field(default_factory=LogSettings)
    """What to look for in the run's logs."""
    executors: Sequence[Executor] = ()
    """Carry out actions; one executor per kind."""
    supervisor: JobSupervisor | None = None
    """Supervises the run's job, and alone decides about its restarts. None if another process does, or none."""
    token: str | None = None
    """Identifies the claims of this watch. None: the watch creates one."""
    dry_run: bool = False
    """Decide without writing or sending anything."""
    in_fleet: bool = False
    """The watch belongs to a sweep, which raises its own blindness alert."""
    proven: bool = False
    """The store is known to honour conditional writes."""
    defer_s: float = 0.0
    """Seconds for which alerts that a group's notice may cover are deferred, for :meth:`Watch.amend`. 0: no alerts are
    grouped."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look, and the record before it."""

    seen: Seen | NeverSeen
    record: Record | None
    now: datetime
    """The store's time."""
    left_out: bool = False
    """The run was taken out of its fleet, and has not come back."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A decision with its cause, and the record it leads to, effects included."""

    decision: Decision
    record: Record
    alerts: tuple[Message, ...] = ()
    """The alerts that this decision added to the record."""


def _has_just_ended(record: Record | None, sight: JobSight) -> bool:
    """Whether this look is the first to find that the job has ended."""
    job = record.job if record is not None else None
    known = job is not None and job.key == sight.memory.key and job.state.ended
    return sight.report.state.ended and not known


def _failed_by(decision: Decision) -> str:
    """The fingerprint of a failure that this look decides; empty if it decides none, or if the cause is unknown."""
    transition = decision.transition
    return (transition.fingerprint or "") if transition is not None and transition.after in UNWELL else ""


def _deferral_note(record: Record, decision: Decision) -> tuple[str, ...]:
    """A note that names who will record and report what was found, if that is not this watch."""
    if decision.left_until is None:
        return ()
    until, sight = format_time(decision.left_until), decision.seen.job
    if sight is not None:
        return (f"Job {sight.memory.id} is still ending; the restart decision follows then, or after {until}",)
    if record.seat is None:
        return ()
    return (f"Its supervisor ({record.seat.by}) reports this and decides about a restart, or others do after {until}",)


class _OvertakenError(Exception):
    """Another watcher wrote the record during a look, so the look is void. ``outcome``: what it had decided."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        super().__init__()
        self.outcome = outcome


class Watch:
    """Watches one run. Between ticks it keeps only what saves requests, and nothing that a restart would lose, except
    the curve of a run whose documents have none."""

    def __init__(self, run_id: str, context: WatchContext) -> None:
        self.run_id = runid.check_run_id(run_id)
        self._context = context
        store, policy, state = context.store, context.policy, context.state
        self._location = RunLocation(f"{store.url.rstrip('/')}/{run_id}/", context.link(run_id))
        token = context.token or os.urandom(6).hex()
        self._observer = Observer(store, run_id, context.mask)
        self._ranks = SilentRankReader(store, run_id, context.mask)
        self._curve = Curve()
        self._first_look: datetime | None = None
        self._fleet_watched = False
        # A log that is read less often could seem dead, or stalled, in between.
        limits = [policy.stale_s, *([policy.stall_s] if policy.stall_s is not None else [])]
        poll_s = None if policy.poll_s is None else min(policy.poll_s, min(limits) / 3)
        kept = None if context.dry_run else state
        self._new_log_observer: Callable[[], LogObserver] = lambda: LogObserver(
            store, run_id, context.mask, context.signals, kept, poll_s
        )
        self._logs = self._new_log_observer()
        fallback_key = state_key("records", store.url, run_id)
        self._repository = RecordRepository(
            store,
            f"{run_id}/{runid.RECORD}",
            token,
            state,
            fallback_key,
            proven=context.proven,
            waiting_key=runid.waiting_record(run_id),
        )
        self._runner = EffectRunner(
            self._repository, context.channels, policy.lease_s, store.clock, context.executors, context.routing
        )
        memory = RecordRepository(state or VolatileStore(context.clock), state_key("blind", store.url, run_id), token)
        self._blindness = BlindnessAlert(
            memory, context.channels, policy, self._location, context.clock, routing=context.routing
        )

    def tick(
        self,
        listed: Mapping[str, Entry] | None = None,
        at: datetime | None = None,
        *,
        ranks: RankFiles | None = None,
        first_look: datetime | None = None,
        fleet_watched: bool = False,
    ) -> Outcome:
        """Look at the run once, and act on it. Never raises because of the store, a channel or an executor.

        ``listed`` are the run's files by their name below its folder, as a sweep has just listed them, and ``at`` the
        store's time right before. ``ranks`` are the files of its ranks, if that listing showed them. They serve the
        first look only: a look that another watcher overtook starts afresh.
        ``first_look``: no watcher had seen the fleet before this time. A notice may cover a run that had ended by then.
        ``fleet_watched``: passes over the fleet were made before this one.
        """
        self._first_look, self._fleet_watched = first_look, fleet_watched
        overtaken: Outcome | None = None
        for _ in range(_RACES):
            try:
                return self._steps(listed, at, ranks, again=overtaken is not None)
            except _OvertakenError as race:
                overtaken = race.outcome or overtaken
            listed = at = ranks = None
        return overtaken or self._blind(StoreError("the record changed at every look: too many watchers at once"))

    def _steps(
        self, listed: Mapping[str, Entry] | None, at: datetime | None, ranks: RankFiles | None, *, again: bool
    ) -> Outcome:
        """The six steps. ``again``: this tick has looked before.

        1. *Observe*: list the run's files, read what changed, the record, and new text of the logs.
        2. *Decide*: pure, without requests.
        3. *Explain*: for an alert, read logs in depth and compose it.
        4. *Record*: one conditional write of the new state with its effects, and claims on them.
        5. *Carry out* the claimed effects: send alerts, perform actions.
        6. *Settle*: record the results.

        Raises :class:`_OvertakenError` if another watcher wrote the record in between.
        """
        try:
            look = self._observe(listed, at, ranks, again=again)
        except ConflictError as error:
            raise _OvertakenError from error
        except StoreError as error:
            return self._blind(error)
        if look.left_out:
            return self._left_out(look)
        policy = self._policy(look.now)
        known = look.record if look.record is None else back(look.record)
        decision = decide(known, self.run_id, look.seen, policy, look.now)
        if self._limits_changed(decision, look.now):
            policy = self._policy(look.now)
            decision = decide(known, self.run_id, look.seen, policy, look.now)
        if known is not look.record:
            decision = replace(decision, must_write=True)
        if decision.unobservable is not None:
            advice = MEND if decision.unobservable == policy.unread else _LOOK_AT_LOGS
            return self._blind(UnreachableError(decision.unobservable, advice))
        left_until = defer_until(decision, look.now, supervises=self._context.supervisor is not None)
        if left_until is None or look.record is None:
            conclusion = self._explain(decision, look)
        else:
            # One alert covers the end and what follows from it, and the other watcher decides that.
            decision = replace(decision, effects=(), transition=None, must_write=False)
            conclusion = Conclusion(replace(decision, left_until=left_until), look.record)
        if self._context.dry_run:
            return self._outcome(conclusion, look, self._deferred(conclusion))
        try:
            claimed = self._record(conclusion, look)
        except ConflictError as error:
            # The other watcher may have made the same decision: look again, decide again.
            why = "other watchers were faster every time"
            raise _OvertakenError(self._unrecorded(conclusion, look, why)) from error
        except StoreError as error:
            # A watch that observes without alerting is as good as blind.
            self._lost_sight(f"what it decides cannot be recorded: {error}")
            return self._unrecorded(conclusion, look, str(error))
        results = self._runner.carry_out(claimed)
        record = self._settle(claimed, results, conclusion, look)
        return self._outcome(conclusion, look, record)

    def _policy(self, now: datetime) -> Policy:
        """The limits for this run, except those that the run itself states."""
        limits, policy = self._context.limits, self._context.policy
        policy = policy if limits is None else limits.policy(self.run_id, policy, now)
        return policy.patient if self._context.in_fleet else policy

    def _limits_changed(self, decision: Decision, now: datetime) -> bool:
        """Whether the fleet's limits have changed, asked if one of them may decide something. A run with young
        heartbeats depends on none, so a pass over it costs no request for them."""
        limits = self._context.limits
        if limits is None or self._context.in_fleet or decision.verdict.status.ended:
            return False
        beats = (decision.record.last_metadata_at, decision.record.last_progress_at)
        young = all(at is not None and (now - at).total_seconds() < GOOD_FOR_S for at in beats)
        return not young and limits.renew(now)

    def _observe(
        self, listed: Mapping[str, Entry] | None, at: datetime | None, ranks: RankFiles | None, *, again: bool
    ) -> Look:
        """What the store shows of the run now. Raises :class:`StoreError`, and :class:`ConflictError` if the record is
        younger than the listing."""
        now = at if listed is not None and at is not None else self._context.store.clock()
        seen, entry = self._observer.look(dict(listed) if listed is not None else None, ranks)
        self._repository.homeless = isinstance(seen, NeverSeen) and not self._observer.files
        record = self._repository.load(entry)
        self._logs.leave_out(spent_outputs(record))
        observed = self._logs.add_to(seen, self._observer.files, record, now, again=again)
        # A log elsewhere on this machine proves that the run's name is no typing error.
        self._repository.homeless &= isinstance(observed, NeverSeen)
        if not self._observer.files and record is not None and record.left_out is None:
            # A run that was deleted before its end leaves a mark.
            gone = forgotten(self._context.store, self.run_id)
            if gone is not None:
                self._repository.drop()
                return Look(observed, gone, now, left_out=True)
        out = record is not None and self._stays_out(record, observed, now)
        sight = self._context.supervisor.look(record, now) if self._context.supervisor is not None else None
        others = sight is not None and self._logs.follow(sight.logs)
        if sight is not None and _has_just_ended(record, sight):
            # Its last files may have been written after the listing.
            seen, entry = self._observer.look(None)
            record = self._repository.load(entry)
            observed = self._logs.add_to(seen, self._observer.files, record, now, again=True)
        elif others:
            observed = self._logs.add_to(seen, self._observer.files, record, now, again=True)
        attempt = record.attempt if record is not None else None
        observed = self._ranks.add_to(observed, self._observer.ranks, attempt, self._policy(now).stale_s, now)
        if isinstance(observed, Seen):
            observed = replace(observed, curve=self._seen_curve(observed))
        if sight is not None and not out:
            observed = replace(observed if isinstance(observed, Seen) else Seen(), job=sight)
            if observed.stop is None:
                observed = replace(observed, stop=self._observer.stop_request())
        return Look(observed, record, now, left_out=out)

    def _seen_curve(self, seen: Seen) -> Curve:
        """The curve in the run's progress.json, else the latest points that this watch has seen of it."""
        shown, logs = seen.knows_step, seen.logs
        if shown is None or shown.fault is not None:
            return self._curve
        if shown.curve.length > 1:
            return shown.curve
        newest = shown.curve
        if not newest.length and logs is not None and logs.step is not None:
            newest = curve_point(shown.modified.timestamp(), logs.step, logs.loss, logs.learning_rate)
        self._curve = self._curve.extended(newest)
        return self._curve

    def _stays_out(self, record: Record, observed: Seen | NeverSeen, now: datetime) -> bool:
        times = (entry.modified for name, entry in self._observer.files.items() if name != runid.RECORD)
        return stays_out(record, max(times, default=None), observed, self._policy(now), now)

    def _explain(self, decision: Decision, look: Look) -> Conclusion:
        """The decision with its cause, and the record with its effects.

        1. Find the cause by a deep read of the logs if the decision needs that, and the last failure of the same cause.
        2. Decide about the job's restart, which depends on the cause. If this watch does not supervise the run, name
           who decides.
        3. Drop the alerts if the run is silenced.
        4. Compose the others, with the end of the log and the stack, and add them to the outbox.
        5. Add the actions.
        """
        self._logs.begin(decision.record.attempt)
        if decision.needs_explanation:
            error = decision.seen.error
            metadata = decision.seen.metadata
            world_size = metadata.world_size if metadata is not None else None
            found = self._logs.explain(self._observer.files, error.text if error else None, world_size)
            decision = with_explanation(decision, found)
        decision = self._compared(decision, look.now)
        supervisor = self._context.supervisor
        decide_restart = self._name_decider if supervisor is None else supervisor.decide_restart
        decision = decide_restart(decision, look.now)
        if decision.events and self._context.silences is not None:
            why = self._context.silences.why(self.run_id, look.now)
            decision = decision if why is None else with_silence(decision, self._context.mask(why))
        record = self._runner.routing.late(decision.record, self._runner.identities, look.now)
        if decision.events:
            excerpts = self._excerpts(decision, look.now)
            for event in decision.events:
                message = compose(decision, event, self._location, excerpts, look.now).masked(self._context.mask)
                record = self._runner.enqueue(record, message)
        record = self._marked(decision, record)
        for effect in decision.effects:
            record = actions.request(record, effect) if isinstance(effect, Action) else record
        alerts = tuple(alert.message for alert in record.outbox if alert.number > decision.record.alerts)
        return Conclusion(decision, record, alerts)

    def _name_decider(self, decision: Decision, now: datetime) -> Decision:
        """``decision``, whose alert names who decides about a restart, if that is undecided."""
        supervision = undecided_restart(decision)
        if supervision is None:
            return decision
        return with_decider(
            decision, supervision, watch.record.agent_mark.agent_at_work(self._context.store, supervision.launcher, now)
        )

    def _compared(self, decision: Decision, now: datetime) -> Decision:
        """``decision`` with the last failure of the same cause, if it finds a failure."""
        failures, fingerprint = self._context.failures, _failed_by(decision)
        if failures is None or not fingerprint:
            return decision
        attempt = decision.record.attempt.number
        similar = failures.similar(fingerprint, self.run_id, attempt, now, watch.decide.past_run.aftermath)
        return decision if similar is None else with_similar(decision, similar)

    def _marked(self, decision: Decision, record: Record) -> Record:
        """``record`` with a mark if its fleet was watched before it. If the run had ended before the first pass over
        the fleet, its new alerts are marked."""
        if record.seq == 0 and self._fleet_watched:
            return replace(record, fleet_watched=True)
        transition, ended_at = decision.transition, record.came_to_be_at
        if self._first_look is None or transition is None or transition.before is not None or ended_at is None:
            return record
        if not transition.after.finished or ended_at >= self._first_look:
            return record
        news = decision.record.alerts
        outbox = tuple(replace(each, found_ended=True) if each.number > news else each for each in record.outbox)
        return replace(record, outbox=outbox)

    def _excerpts(self, decision: Decision, now: datetime) -> Excerpts:
        why = decision.verdict.explained
        missing = why.missing if why is not None else None
        if missing is not None:
            # What the reporting rank printed or waits for shows nothing about the missing one.
            log_name = missing.ranks[0].log
            lines, fault = self._logs.lines(self._observer.files, log_name)
            notes = (*(note for note in (fault, self._repository.note) if note), *decision.seen.log_notes)
            return Excerpts(lines, (), notes, f"{missing.names}: no report of the timeout", log_name)
        lines, fault, log_name = self._log_lines(decision)
        stack, torn = self._observer.stack() if hangs(decision) else ((), None)
        notes = (*(note for note in (fault, torn, self._repository.note) if note), *decision.seen.log_notes)
        if why is not None and why.stuck is not None:
            # The stack of one rank that waits says less than the calls of all.
            return Excerpts(lines, (), notes, why.stuck.places or why.stuck.sentence, log_name)
        ranks = self._suspects(decision, now) if ranks_matter(decision) else None
        return Excerpts(lines, stack, notes, ranks, log_name)

    def _log_lines(self, decision: Decision) -> tuple[tuple[str, ...], str | None, str]:
        """The lines around the one that shows the cause of a failure, else the last ones of the main log; why they
        could not be read; and the name of the log unless it is the main one."""
        why = decision.verdict.explained
        shows = why.cause.evidence if why is not None and decision.verdict.status is Status.FAILED else None
        if shows is not None and shows.line > 0 and shows.file != runid.ERROR:
            lines, fault = self._logs.lines(self._observer.files, shows.file, shows.text)
            if lines:
                return lines, fault, "" if shows.file == runid.LOG else shows.file
        lines, fault = self._observer.log_tail() if decision.seen.log is not None else ((), None)
        return lines, fault, ""

    def _suspects(self, decision: Decision, now: datetime) -> str | None:
        """The ranks of a distributed run that stand out, in one line; or None."""
        seen, record = decision.seen, decision.record
        named = rank_in_error(seen.error.text) if seen.error is not None else None
        why = decision.verdict.explained
        if named is None and why is not None and decision.verdict.status is Status.FAILED:
            named = failed_rank(why.cause)
        world = seen.metadata.world_size if seen.metadata is not None else None
        ranks = look_at_ranks(
            self._context.store, self.run_id, self._context.mask, record.attempt, named=named, world_size=world
        )
        steps = record.progress or record.log
        since = steps.step_at if steps is not None else None
        return suspects(ranks, now, named=named, over=decision.verdict.status is Status.FAILED, since=since)

    def _record(self, conclusion: Conclusion, look: Look) -> ClaimedEffects:
        return self._runner.record(self._deferred(conclusion), look.now, must_write=conclusion.decision.must_write)

    def _deferred(self, conclusion: Conclusion) -> Record:
        """The record, in which alerts that a group's notice may cover wait for the end of the pass."""
        if self._context.defer_s <= 0:
            return conclusion.record
        now = self._context.store.clock()
        until = now + timedelta(seconds=self._context.defer_s)
        return defer(conclusion.record, conclusion.decision.record.alerts, self._runner.identities, now, until)

    def _settle(self, claimed: ClaimedEffects, results: EffectResults, conclusion: Conclusion, look: Look) -> Record:
        transition, verdict = conclusion.decision.transition, conclusion.decision.verdict
        missed_s = missed_beats_s(look.record, conclusion.decision, look.now)
        if missed_s is not None:
            # This wording is known from the resiliency layers of big frameworks, and people search logs for it.
            log.info("%s: Did not get subsequent heartbeat. Waited %.0f seconds.", self.run_id, missed_s)
        if transition is not None:
            before = transition.before or "not seen before"
            log.info("%s: %s → %s: %s", self.run_id, before, transition.after, transition.reason)
        else:
            log.debug("%s: still %s: %s", self.run_id, verdict.status, verdict.reason)
        record = self._runner.settle(claimed, results)
        self._logs.save(over=conclusion.decision.verdict.by_sentinel)
        self._remember_failure(conclusion.decision)
        if not self._context.in_fleet:
            self._blindness.regained(self.run_id)
        return record

    def _remember_failure(self, decision: Decision) -> None:
        """Record the failure for later alerts, after its own alerts were sent: no alert waits for that."""
        failures, fingerprint, why = self._context.failures, _failed_by(decision), decision.verdict.explained
        if failures is None or why is None or not fingerprint:
            return
        record, cause = decision.record, why.cause
        at = record.came_to_be_at or record.since
        if at is not None:
            failures.saw(fingerprint, cause.error_type, self.run_id, record.attempt.number, at)
        # A pass does so once for all of its runs.
        if not self._context.in_fleet:
            failures.save()

    def amend(
        self, numbers: Collection[int], change: Callable[[Record, Sequence[str]], Record], now: datetime
    ) -> DeliveryCounts:
        """Apply ``change`` (record, channel identities → record) to the deferred alerts with these ``numbers``, and
        send those that are due then. Never raises; a later pass retries what fails."""
        try:
            return self._amend(numbers, change, now)
        except StoreError as error:
            log.warning("%s: deferred alerts stay deferred for now: %s", self.run_id, error)
            return DeliveryCounts(pending=len(numbers))

    def _amend(
        self, numbers: Collection[int], change: Callable[[Record, Sequence[str]], Record], now: datetime
    ) -> DeliveryCounts:
        identities = self._runner.identities
        record = self._repository.record or self._repository.reload()
        # Not RecordRepository.update: the runner writes, for it claims the alerts with the record and then sends them.
        # A deleted record is written again, and an unreachable store is retried after a pause.
        for tried in range(_RACES):
            changed = change(record, identities) if record is not None else None
            if record is None or changed is None or changed is record:
                return DeliveryCounts(pending=self._runner.pending(record, now))
            try:
                after = self._runner.round(changed, now, must_write=True)
            except ConflictError:
                known, record = record, self._repository.reload()
                if record is None:
                    # The record was deleted, but this process still has it.
                    self._repository.keep(known)
                    record = known
            except StoreError as error:
                # Nothing was sent, so a retry does no harm. Without it an alert in a group's notice would go out, too.
                if not error.retryable or tried + 1 == _RACES:
                    raise
                time.sleep(backoff_s(tried + 1, _PAUSE_S))
            else:
                sent, failed = max(0, after.delivered - record.delivered), failed_deliveries(after, numbers, identities)
                return DeliveryCounts(sent, failed, self._runner.pending(after, now))
        return DeliveryCounts(pending=len(numbers))

    # What callers may ask a watch.

    @property
    def record_version(self) -> str | None:
        """The version of the record beside the run, as this watch last saw or wrote it."""
        return self._repository.version

    @property
    def alerts(self) -> int:
        """How many alerts the record holds, including settled ones."""
        return len(self._repository.record.outbox) if self._repository.record is not None else 0

    @property
    def owes(self) -> bool:
        """Whether the watch has sent alerts that it could not record yet. Forgetting it would send them again."""
        return bool(self._runner.unsettled)

    @property
    def reads_logs(self) -> bool:
        """Whether the watch keeps the state of logs read so far."""
        return self._logs.began

    def forget_logs(self) -> None:
        """Drop that state. The next tick finds it in the state directory, or reads the logs from the start."""
        self._logs = self._new_log_observer()

    def remember(self, record: Record) -> None:
        """Use ``record``, known from before, if the run has none."""
        if self._repository.record is None:
            self._repository.keep(record)

    # What a tick returns.

    def _outcome(self, conclusion: Conclusion, look: Look, record: Record) -> Outcome:
        decision, verdict = conclusion.decision, conclusion.decision.verdict
        return Outcome(
            run_id=self.run_id,
            state=verdict.state,
            observation=look.seen,
            at=look.now,
            record=record,
            last_metadata_at=decision.record.last_metadata_at,
            last_progress_at=decision.record.last_progress_at,
            step_source=decision.seen.knows_step,
            left_until=decision.left_until,
            transition=decision.transition,
            alerts=conclusion.alerts,
            pending=self._runner.pending(record, look.now),
            delivered=record.delivered,
            failures=failures(record, look.now),
            notes=(*_deferral_note(record, decision), *self._notes(record), *decision.seen.log_notes),
        )

    def _left_out(self, look: Look) -> Outcome:
        """The outcome for a run that was taken out of its fleet: nothing is decided, written or sent."""
        assert look.record is not None  # noqa: S101 - the caller has just looked
        decision = decide(back(look.record), self.run_id, look.seen, self._policy(look.now), look.now)
        outcome = self._outcome(Conclusion(decision, look.record), look, look.record)
        left = look.record.left_out
        did = "forgotten" if left is not None and left.forgotten else "archived"
        by = f" by {left.by} at {format_time(left.at)}" if left is not None else ""
        note = f"It was {did}{by}: nothing is recorded or sent until it is written to again."
        return replace(outcome, left_out=left, transition=None, pending=0, failures=(), notes=(note, *outcome.notes))

    def _unrecorded(self, conclusion: Conclusion, look: Look, why: str) -> Outcome:
        """The outcome of a decision that was not recorded: nothing was sent, and the next pass decides again."""
        outcome = self._outcome(replace(conclusion, alerts=()), look, conclusion.record)
        note = f"The decision could not be recorded, so no alert was sent yet: {why}"
        # Without channels no alert is outstanding.
        recorded = not self._context.in_fleet and not self._runner.identities
        return replace(outcome, recorded=recorded, transition=None, notes=(*outcome.notes, note))

    def _lost_sight(self, why: str) -> None:
        if not self._context.in_fleet:
            self._blindness.lost(self.run_id, why)

    def _blind(self, error: StoreError) -> Outcome:
        known = self._repository.record
        if not self._context.dry_run:
            self._lost_sight(str(error))
        now = self._context.clock()
        notes = self._notes(known)
        if known is not None and known.status is not None:
            notes = (f"Last known status: {known.status} since {format_time(known.since)}", *notes)
        return Outcome(
            run_id=self.run_id,
            state=State(Status.UNKNOWN, str(error), action=error.advice or None),
            observation=Unreadable(str(error), error.advice),
            at=now,
            record=known,
            last_metadata_at=known.last_metadata_at if known else None,
            last_progress_at=known.last_progress_at if known else None,
            pending=self._runner.pending(known, now),
            delivered=known.delivered if known else 0,
            failures=failures(known, now) if known else (),
            notes=notes,
        )

    def _notes(self, record: Record | None) -> tuple[str, ...]:
        notes = [self._repository.note] if self._repository.note else []
        limits = self._context.limits
        # Notes about the whole fleet come once, from the pass over it.
        if limits is not None and limits.note and not self._context.in_fleet:
            notes.append(limits.note)
        if record is not None and record.conditional_writes is False and not self._context.in_fleet:
            notes.append(conditions_ignored(self._context.store))
        if record is not None and record.status is not None and record.status.is_foreign:
            notes.append(
                f"The status {record.status} was given by a newer lastbeat: this one leaves it as it is. Upgrade "
                "lastbeat on this machine."
            )
        return tuple(notes)
