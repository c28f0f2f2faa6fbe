"""``exec --max-restarts``: ends a command that hangs, and restarts it within its job if the policy says so."""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from lastbeat.jobs.launchers import processes
from lastbeat.model import runid
from lastbeat.model.in_place import RESTARTS_VARIABLE, VARIABLE
from lastbeat.model.restart import JobEnd, Mode, RestartDecision
from lastbeat.model.starts_in_place import FOLDER, KEY, StartsInPlace
from lastbeat.model.text import fit, one_line
from lastbeat.settings import Settings, catalogues, opening
from lastbeat.settings.table import EXIT_SIGNAL, SIGNALS
from lastbeat.stores.port import Expect, Store, StoreError
from lastbeat.training.exec.child import process as child_process
from lastbeat.training.exec.child.descriptors import StandardInput
from lastbeat.training.exec.child.exit_reason import ChildExit, first_line, signal_name
from lastbeat.training.exec.child.group_signals import GroupSignalMonitor
from lastbeat.training.exec.child.output_summary import OutputSummary
from lastbeat.training.exec.child.process import ChildProcess
from lastbeat.training.exec.child.signal_queue import SignalQueue, exit_by_signal
from lastbeat.training.exec.child.waiting import dump_waiting
from lastbeat.training.exec.in_place import ends
from lastbeat.training.exec.in_place.attention import AskedToEndError, Attention, StoppedError, begin_thread
from lastbeat.training.exec.in_place.ending import end_all, left_below
from lastbeat.training.exec.in_place.ends import HowItEnded
from lastbeat.training.exec.in_place.following import (
    GPU_S,
    EndRuling,
    InPlaceTerms,
    common_pause_s,
    first_starts,
    next_starts,
    resume_variables,
    rule,
)
from lastbeat.training.exec.in_place.gpu_memory import MemoryWatch
from lastbeat.training.exec.in_place.hangs import Hang, HangWatch, Printed
from lastbeat.training.exec.in_place.looking import LeftBehind, StoreLook, StoreWatch
from lastbeat.training.exec.in_place.output_tail import OutputTail
from lastbeat.training.exec.in_place.start import (
    CommandStart,
    Ended,
    Over,
    Restarting,
    Running,
    Starting,
    State,
    identity_of,
)
from lastbeat.training.exec.in_place.together import Together, encode_starts
from lastbeat.training.exec.reporting import ask_child, on_output, reporter, start_or_run, write_sentinel
from lastbeat.training.exec.wrapped import WrappedCommand
from lastbeat.training.guardian.start import WRAPPED
from lastbeat.training.node.gpus import GpuMonitor
from lastbeat.training.node.resources import ResourceMeter, tree_of
from lastbeat.training.sdk.beat_tasks import RunEnvironment
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.exec_in_place import ExecInPlace
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.run import CANCELLED, Run

log = logging.getLogger(__name__)

_BEGIN_S: Final = 3.0
"""Longest time, in seconds, that a start waits for its metadata.json, so that the training code finds it."""
_LOOK_S: Final = 15.0
"""Longest time, in seconds, to read what a failed start left in the store."""
_JUDGE_S: Final = 90.0
"""Longest time, in seconds, to explain a failure and ask the restart policy."""
_KEEP_S: Final = 10.0
"""Longest time, in seconds, to write what a start left behind."""
_OUTPUT_S: Final = 2.0
"""Longest time, in seconds, to read the last output after the command has exited."""
_TICK_S: Final = 0.5
"""Seconds between two checks for a hang."""
_STACKS_BYTES: Final = 64 * 1024
"""Longest stacks document that is read from the store, in bytes."""
_ASK_S: Final = 5.0
"""Longest time, in seconds, that a start waits for the store to answer whether a stop was requested meanwhile."""
_CALL_S: Final = 5.0
"""Longest time, in seconds, to tell the other nodes that the run is over. They find out later in any case."""
_NAMED: Final = 8
"""Most missing nodes that a message names."""
_LEFT: Final = RestartDecision(
    restart=False, reason="some of its processes could not be ended, and still run; nothing is started beside them"
)
_UNDECIDED: Final = RestartDecision(restart=False, reason="how it ended was not known in time")
_UNKNOWN_END: Final = JobEnd(Mode.CRASH)


class CommandInPlace:
    """A command within its job, from its first start to its last. ``tell`` shows a line to the user.

    Each start goes through the states of :mod:`lastbeat.training.exec.in_place.start`::

        Starting ──> Running ──> Ended ──> Restarting ──> Starting, the next one
            └───────────────────────┴───────────┴───────> Over

    A signal, or a request to stop the run, ends it in any state in which no command runs.
    """

    def __init__(
        self, wrapped: WrappedCommand, settings: Settings, terms: InPlaceTerms, tell: Callable[[str], None]
    ) -> None:
        self._wrapped, self._settings, self._terms, self._show = wrapped, settings, terms, tell
        self._name, self._program = wrapped.name, wrapped.program
        self._gpus = MemoryWatch(GpuMonitor().fresh)
        self._input = StandardInput()
        several = terms.own.count > 1
        self._together = Together(wrapped.name, terms.launch, terms.own) if several else None

    def run(self) -> int:
        """Run the command and return the exit status of its last start, or exit by its signal.

        The signals to forward are blocked, and the group monitor is forked, before the first thread.
        """
        apart = child_process.needs_terminal(self._wrapped.streams)
        with SignalQueue() as signals, closing(GroupSignalMonitor(signals.forwarded, own_session=apart)) as group:
            processes.become_reaper()
            begin_thread(self._prepare, "lastbeat-before")
            self._signals, self._group = signals, group
            self._attention = Attention(signals, self._more_stops)
            state: State = Starting(first_starts(self._terms, os.environ))
            while not isinstance(state, Over):
                state = self._next(state)
            return exit_by_signal(-state.status) if state.status < 0 else state.status

    def _next(self, state: Starting | Running | Ended | Restarting) -> State:
        """The state after ``state``. The terminal is restored when a start has ended."""
        if isinstance(state, Starting):
            return self._started(state)
        following: State | None = None
        try:
            if isinstance(state, Running):
                following = self._ended(state)
            elif isinstance(state, Ended):
                following = self._judged(state)
            else:
                following = self._gathered(state)
        except (StoppedError, AskedToEndError) as stop:
            following = self._stopped(state.start, stop)
        finally:
            if following is None or isinstance(following, Starting | Over):
                state.child.restore_terminals()
        return following

    @property
    def _more_stops(self) -> frozenset[int]:
        """Further signals that ask training to end, besides the usual ones."""
        number = self._settings[EXIT_SIGNAL]
        return frozenset() if number is None else frozenset({number})

    def _prepare(self) -> None:
        """Prepare for the first failure: note the GPUs' memory in use, and load the signal catalogue."""
        self._gpus.begin(5.0)
        catalogues.catalogue(self._settings[SIGNALS])

    # Starting -> Running.

    def _started(self, state: Starting) -> Running | Over:
        """Report the start as an attempt of the run, and start the command."""
        start = self._begin(state.starts)
        try:
            return Running(start, self._launch(start, state.before))
        except child_process.NotStartedError as fault:
            self._show(f"Error: {fault}")
            start.run.fail(f"Not started: {fault}")
            self._call_off(start, f"not started: {fault}")
            return Over(fault.status)
        except (StoppedError, AskedToEndError) as stop:
            return self._stopped(start, stop)

    def _begin(self, starts: StartsInPlace) -> CommandStart:
        terms, began = self._terms, time.monotonic()
        identity = identity_of(terms, starts)
        summary, printed, meter = OutputSummary(), Capture(), ResourceMeter(wraps=True)

        def adapt(environment: RunEnvironment) -> RunEnvironment:
            if self._together is not None:
                own, host = terms.own, environment.rank.host
                # The node number only names this node's failures; heartbeats of ranks come from training.
                environment = replace(environment, rank=Rank(own.number, own.count, None, host), rank_beat_s=0.0)
            else:
                environment = replace(environment, rank=Rank())
            return replace(environment, sharing=ExecInPlace(identity, start.reports_itself))

        def look() -> tuple[Store, StoreLook]:
            store = self._store()
            return store, StoreLook(store, self._name, identity, began, self._settings.redactor)

        reports = reporter(self._settings, printed, summary, meter, adapt, self._wrapped.dumps)
        if self._together is not None:
            self._together.number = starts.number
        watch = StoreWatch(look) if self._together is None else StoreWatch(look, self._together.look)
        run = Run(self._name, None, self._wrapped.steps)
        start = CommandStart(starts, identity, run, reports, meter, summary, OutputTail(), printed, watch, began)
        # Only now, because its beat thread asks the start at once.
        start.run = run = Run(self._name, reports, self._wrapped.steps)
        run.set_phase(self._wrapped.phase)
        run.on_stop, run.heeds_stop = partial(ask_child, self._settings, meter), True
        watch.start()
        return start

    def _launch(self, start: CommandStart, before: StoreLook | None) -> ChildProcess:
        """Start the command. ``before`` reads the store for the previous start. Raises :class:`NotStartedError`,
        :class:`StoppedError` and :class:`AskedToEndError`."""
        given = start.starts
        if given.number:
            # Training continues the attempt that it finds, so wait until this one is there.
            self._attention.until(lambda: start.reporter.begun, _BEGIN_S)
            # A stop request made until now can only mean the previous attempt.
            self._heed_request(before)
            self._input.rewind()
        environment: dict[str, str] = {
            **os.environ,
            WRAPPED: self._name,
            VARIABLE: start.identity.variable(),
            RESTARTS_VARIABLE: str(given.number),
        }
        for name, value in resume_variables(given).items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        take = on_output(start.run, start.summary, start.printed)

        def keep(stream: int, chunk: bytes) -> None:
            start.tail.add(chunk)
            take(stream, chunk)

        child = child_process.start(
            self._wrapped.command, self._wrapped.streams, keep, self._signals, self._group, environment
        )
        child.reaps_all = True
        child.stops |= self._more_stops
        start.meter.root = child.pid
        return child

    def _heed_request(self, look: StoreLook | None) -> None:
        """Raise :class:`AskedToEndError` if a stop of the attempt that ``look`` reads was requested."""
        asked = self._attention.while_doing(look.asked, _ASK_S, None) if look is not None else None
        if asked is not None:
            raise AskedToEndError(asked)

    # Running -> Ended.

    def _ended(self, state: Running) -> Ended:
        """Wait until the command exits. End it if it hangs, or if the other nodes restart."""
        start, child = state.start, state.child
        watch = HangWatch(start.began, self._terms.sections, self._terms.stall_s)
        found: list[Hang] = []

        def hangs() -> bool:
            said, now = start.store.said, time.monotonic()
            printed = Printed(start.summary.progress.step, start.summary.count())
            watch.note(printed, said, now)
            leaves = child.told_to_stop or start.run.stopped is not None or start.run.stop_wanted is not None
            hang = None if leaves else watch.hang(said, now)
            found[:] = [hang] if hang is not None else []
            return bool(found) or self._called() is not None

        ended, text, called = child.wait_until(hangs, _TICK_S), None, None
        hang = found[0] if found else None
        if ended is None:
            # Captured first: output printed while the command is being ended does not explain the hang.
            text, start.last_words = start.tail.text(), start.summary.tail
            if hang is not None:
                told, head, phase = f"hangs, {hang.why}", f"Hang: {hang.why}", "ending a hang"
                # The same wording as a watcher's alert about a silent run.
                log.warning("%s: Did not get subsequent heartbeat. Waited %.0f seconds.", self._name, hang.waited_s)
            else:
                called = self._called()
                by = "others" if called is None else called.by
                told, phase = f"ends with those on other nodes ({by})", "ending with the others"
                head = f"It {told}"
            self._tell(f"{self._program} {told}: it is being ended")
            start.run.set_phase(phase, told)
            start.stacks = dump_waiting(child.pid, tree_of(child.pid), head)
            ended, _ = end_all(child, None, {self._group.process}, self._terms.grace_s)
            if ended is None:
                child.abandon()
        start.meter.root = None
        child.let_go(_OUTPUT_S)
        given, lived_s = start.starts, time.monotonic() - start.began
        why = hang.why if hang is not None else None
        how = HowItEnded(
            ended, why, text or start.tail.text(), "", LeftBehind(), lived_s, start.step,
            given.resume_from, given.resume_step, os.uname().nodename,
            Path(dumps) if (dumps := self._wrapped.dumps) is not None else None, time.time() - lived_s,
        )  # fmt: skip
        return Ended(start, child, how, called)

    def _called(self) -> StartsInPlace | None:
        return self._together.called if self._together is not None else None

    # Ended -> Restarting.

    def _judged(self, state: Ended) -> Restarting | Over:
        """Find out why the command ended, and ask the restart policy.

        1. If the other nodes restart, this one follows them.
        2. After a success, write the sentinel.
        3. End what the command left running, and read what it left in the store.
        4. Ask the policy. Without a restart, write the sentinel as ``exec`` always does.
        5. Otherwise make the next start, or agree on it with the other nodes.
        """
        start, child, ended, called = state.start, state.child, state.how, state.called
        if called is not None:
            ended = replace(
                ended, error=f"It ended with those on other nodes ({called.by}): {called.over or called.why}\n"
            )
            if ended.exit is None:
                return self._finished(start, child, ended, _LEFT)
            return Restarting(start, child, ended, called)
        if ended.exit is not None and ended.exit.succeeded and ended.hang is None:
            return self._finished(start, child, ended, None)
        told_by = child.told_by
        ended, still_there = self._rest_ended(start, child, ended)
        ended = self._with_evidence(start, ended)
        wanted = start.run.stop_wanted or (None if told_by is None else signal_name(told_by))
        judge = partial(rule, self._settings, self._terms, start.starts, ended, wanted)
        ruling = self._attention.while_doing(judge, _JUDGE_S, EndRuling(_UNDECIDED, _UNKNOWN_END))
        if ruling.decision.restart and still_there:
            return self._finished(start, child, ended, _LEFT)
        if not ruling.decision.restart:
            return self._finished(start, child, ended, ruling.decision)
        starts = next_starts(self._terms, start.starts, ended, ruling)
        if self._together is not None:
            return Restarting(start, child, ended, self._agree(self._together, starts))
        pause_s = ends.pause_s(start.starts.restarts, ruling.end, ended.lived_s)
        return Restarting(start, child, ended, starts, pause_s)

    def _with_evidence(self, start: CommandStart, ended: HowItEnded) -> HowItEnded:
        """``ended`` with what the start left in the store, and its error text."""
        left = self._attention.while_doing(lambda: self._left_behind(start), _LOOK_S, LeftBehind())
        # Set only now: a heartbeat from here would overwrite training's last one.
        start.over = True
        if left.asked is not None and not left.asked.after_checkpoint:
            start.run.stopped = start.run.stopped or left.asked.summary
        if left.rerun is not None:
            # Reported here because a launcher may replace the exit status that says so.
            start.run.report_rerun(left.rerun)
        ended = replace(ended, left=left, step=ended.step if ended.step is not None else left.step)
        summary, words = start.summary, start.last_words or ""
        return replace(ended, error=ends.error_text(ended, self._program, summary.error, summary.tail, words))

    def _rest_ended(self, start: CommandStart, child: ChildProcess, ended: HowItEnded) -> tuple[HowItEnded, bool]:
        """End the processes that a failed command left running: ranks in other sessions may still write checkpoints.

        Returns the end with its final exit, and whether some processes could not be ended.
        """
        if ended.exit is None:
            return ended, True
        monitor = self._group.process
        below = left_below({monitor})
        if below and not start.stacks:
            numbers = {each.pid for each in below}
            start.stacks = dump_waiting(min(numbers), numbers, f"What {self._program} left running when it ended")
        exited, still_there = end_all(child, ended.exit, {monitor}, self._terms.grace_s)
        return replace(ended, exit=exited), bool(still_there)

    def _agree(self, together: Together, starts: StartsInPlace) -> StartsInPlace | None:
        """Propose ``starts`` to all nodes. Returns what they agreed on, or None if the store does not answer."""
        limit_s = self._terms.gather_s
        return self._attention.while_doing(
            lambda: together.ask_for(self._store(), starts, limit_s), limit_s + 30.0, None
        )

    # Restarting -> Starting.

    def _gathered(self, state: Restarting) -> State:
        """Keep what this start left behind, wait until this machine is free, and gather all nodes.

        The nodes may agree on another start meanwhile; that is gathered next.
        """
        start, child, ended, starts, together = state.start, state.child, state.how, state.starts, self._together
        start.over = True
        if starts is None or starts.over:
            why = "the store did not answer: none goes on alone" if starts is None else f"{starts.by}: {starts.over}"
            decision = RestartDecision(restart=False, reason=why)
            return self._finished(start, child, ended, decision, told=starts is not None)
        self._attention.while_doing(partial(self._keep, start, ended, starts), _KEEP_S, None)
        self._make_ready(start, starts, common_pause_s(starts) if state.pause_s is None else state.pause_s)
        if together is not None:
            limit_s = self._terms.gather_s
            unanswered: tuple[StartsInPlace | None, tuple[int, ...]] = (None, (together.own.number,))
            gather = partial(self._gather, together, starts.number)
            agreed, missing = self._attention.while_doing(gather, limit_s + 30.0, unanswered)
            if missing and agreed is None:
                names = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
                why = f"{len(missing)} of {together.own.count} did not come within {limit_s:.0f} s ({names})"
                decision = RestartDecision(restart=False, reason=f"{why}: none goes on alone")
                return self._finished(start, child, ended, decision)
            if missing:
                return replace(state, starts=agreed)
        start.store.stop()
        start.reporter.leave()
        return Starting(starts, start.store.look)

    def _make_ready(self, start: CommandStart, starts: StartsInPlace, pause_s: float) -> None:
        """Wait until the memory of the GPUs is free, and then for ``pause_s``."""
        resumes = f", from {starts.resume_from}" if starts.resume_from is not None else ""
        self._tell(f"restarting in place, {starts.number} of {self._terms.most}{resumes}: {starts.why}")
        start.run.set_phase("restarting in place", starts.why)
        start.reporter.beat_now()
        if not self._gpus.wait_free(GPU_S, self._attention.pause):
            log.warning("the GPUs have not released all of their memory after %.0f s; lastbeat restarts anyway", GPU_S)
        self._attention.pause(pause_s)
        self._heed_request(start.store.look)

    def _gather(self, together: Together, number: int) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        return together.gather(self._store(), number, self._terms.gather_s)

    def _call_off(self, start: CommandStart, why: str) -> None:
        """Tell the other nodes to end, too. They find out later in any case."""
        together = self._together
        if together is None:
            return
        over = StartsInPlace(
            self._terms.launch,
            start.starts.number,
            start.starts.restarts,
            by=self._terms.node,
            over=fit(one_line(why), 300),
        )
        telling = threading.Thread(
            target=lambda: together.ask_for(self._store(), over, _CALL_S), name="lastbeat-over", daemon=True
        )
        start_or_run(telling)
        telling.join(2 * _CALL_S)

    def _left_behind(self, start: CommandStart) -> LeftBehind:
        look = start.store.look
        return LeftBehind() if look is None else look.left_behind()

    def _stacks(self, start: CommandStart, store: Store) -> str:
        """The stacks taken here, followed by those that the training code wrote itself, which name its functions."""
        own = store.read(f"{self._name}/{runid.STACKS}", _STACKS_BYTES) if start.stacks else None
        theirs = "" if own is None else f"\nWhat training said itself:\n{own.body.decode('utf-8', 'replace')}"
        return start.stacks.decode("utf-8", "replace") + theirs

    def _keep(self, start: CommandStart, ended: HowItEnded, starts: StartsInPlace) -> None:
        """Keep error and stacks of this start in the store, because the next start overwrites its log and stacks."""
        store, own = self._store(), self._terms.own
        if self._together is None:
            store.write(f"{self._name}/{KEY}", encode_starts(starts))
        told = self._settings.redactor(f"{ended.error}\n{self._stacks(start, store)}")
        which = f"{start.starts.number}-{own.number}" if own.count > 1 else f"{start.starts.number}"
        store.write(f"{self._name}/{FOLDER}{which}.txt", told.encode("utf-8", "replace"))

    def _store(self) -> Store:
        return opening.bare_store(self._settings, training=True)

    # -> Over.

    def _finished(
        self,
        start: CommandStart,
        child: ChildProcess,
        ended: HowItEnded,
        decision: RestartDecision | None,
        *,
        told: bool = False,
    ) -> Over:
        """Write the sentinel, as ``exec`` does without restarts.

        ``decision`` says why the command is not restarted; None after a success. ``told``: other nodes know already.
        """
        start.over = True
        exited = ended.exit or ChildExit(ends.FAILED)
        text, run = None, start.run
        asked = exited.cancelled or child.told_by is not None or run.stopped is not None or run.stop_wanted is not None
        if decision is not None and not asked:
            before = (
                f"restarted in place {start.starts.number} of {self._terms.most} times; " if start.starts.number else ""
            )
            note = f"{before}not restarted in place: {decision.reason}"
            text = f"{ended.error.rstrip()}\n\n{note}\n"
            self._tell(note)
        if start.stacks:
            with suppress(RuntimeError):
                threading.Thread(target=self._keep_stacks, args=(start,), daemon=True).start()

        def write() -> None:
            write_sentinel(run, exited, self._program, start.summary, text)
            if decision is not None and not told:
                # After the sentinel: otherwise theirs could come first and pass for the cause.
                why = f"{CANCELLED}{first_line(exited, self._program)}" if asked else decision.reason
                self._call_off(start, why)

        ending = threading.Thread(target=write, name="lastbeat-end", daemon=True)
        start_or_run(ending)
        child.wait_for(lambda: not ending.is_alive())
        start.store.stop()
        if exited.succeeded and decision is None:
            return Over(0)
        return Over(ends.exit_status(ended, asked=asked, asked_by=child.told_by, followed=told))

    def _keep_stacks(self, start: CommandStart) -> None:
        with suppress(StoreError):
            # Stacks from training itself are better, so they are not overwritten.
            self._store().write(f"{self._name}/{runid.STACKS}", start.stacks, Expect.NOTHING)

    def _stopped(self, start: CommandStart, stop: "StoppedError | AskedToEndError") -> Over:
        """Write the end after a signal or stop request came while no command ran."""
        start.store.stop()
        run, during = start.run, f"while {self._program} was being restarted in place"
        if isinstance(stop, AskedToEndError):
            run.stopped = stop.request.summary
            text = f"{run.stopped} {during}"
        else:
            text = f"received signal {stop.number} ({signal_name(stop.number)}) {during}"
        asked = run.stopped is not None
        written = run.cancel(f"KeyboardInterrupt ({text})") if asked else run.fail(f"{CANCELLED}{text}\n")
        if not written:
            log.warning("lastbeat could not write that it %s", text)
        self._call_off(start, f"{CANCELLED}{text}")
        return Over(-stop.number if isinstance(stop, StoppedError) else ends.FAILED)

    def _tell(self, what: str) -> None:
        self._show(f"lastbeat: {fit(one_line(what), 400)}")
