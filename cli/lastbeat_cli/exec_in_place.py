"""``exec --max-restarts``: ends a command that hangs, and restarts it within its job if the policy says so."""

import logging
import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from lastbeat.model import runid
from lastbeat.model.in_place import RESTARTS_VARIABLE, VARIABLE, InPlace
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
from lastbeat.training.exec.in_place.ending import become_reaper, end_all, left_below
from lastbeat.training.exec.in_place.ends import HowItEnded
from lastbeat.training.exec.in_place.following import (
    GPU_S,
    EndRuling,
    InPlaceTerms,
    StartOrder,
    common_pause_s,
    next_starts,
    rule,
)
from lastbeat.training.exec.in_place.gpu_memory import MemoryWatch
from lastbeat.training.exec.in_place.hangs import Hang, HangWatch, Printed
from lastbeat.training.exec.in_place.looking import LeftBehind, StoreLook, StoreWatch
from lastbeat.training.exec.in_place.output_tail import OutputTail
from lastbeat.training.exec.in_place.together import Together, encode_starts
from lastbeat.training.guardian.start import WRAPPED
from lastbeat.training.sdk.capture import Capture
from lastbeat.training.sdk.gpus import GpuMonitor
from lastbeat.training.sdk.process_mark import process_mark
from lastbeat.training.sdk.ranks import Rank
from lastbeat.training.sdk.reporter import Reporter, RunEnvironment
from lastbeat.training.sdk.resources import ResourceMeter, tree_of
from lastbeat.training.sdk.run import CANCELLED, Run
from lastbeat_cli import logs
from lastbeat_cli.exec_reporting import ask_child, on_output, reporter, say, start_or_run, write_sentinel

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
_UNDECIDED: Final = RestartDecision(restart=False, reason="nobody could tell in time how it ended")
_UNKNOWN_END: Final = JobEnd(Mode.CRASH)


@dataclass
class CommandStart:
    """One start of the command, from its begin to its end."""

    turn: StartOrder
    ours: InPlace
    run: Run
    reporter: Reporter
    meter: ResourceMeter
    summary: OutputSummary
    tail: OutputTail
    printed: Capture
    store: StoreWatch
    began: float = field(default_factory=time.monotonic)
    stacks: bytes = b""
    told_by: int | None = None
    """The signal by which a user or scheduler asked the command to end."""
    last_words: str | None = None
    """Output tail captured before a hung command was killed."""
    over: bool = False
    """Whether the command has exited, so that only ``exec`` reports this start."""

    @property
    def step(self) -> int | None:
        """The last step in its output, else in the store."""
        printed, said = self.summary.progress.step, self.store.said
        return printed if printed is not None else said.step if said is not None else None

    def says_itself(self) -> bool:
        """Whether the command reports itself. Reads the store until it does. Raises :class:`StoreError`."""
        look = self.store.look
        return not self.over and look is not None and look.sees_report()


class CommandInPlace:
    """A command within its job, from its first start to its last."""

    def __init__(  # noqa: PLR0913, PLR0917 - the same values as exec without restarts
        self,
        command: Sequence[str],
        streams: Sequence[int],
        name: str,
        phase: str,
        steps: int | None,
        settings: Settings,
        terms: InPlaceTerms,
    ) -> None:
        self._command, self._streams, self._name, self._phase = command, streams, name, phase
        self._steps, self._settings, self._terms = steps, settings, terms
        self._program = os.path.basename(command[0])  # noqa: PTH119 - a name as typed, which need be no path
        self._gpus = MemoryWatch(GpuMonitor().fresh)
        self._input = StandardInput()
        several = terms.own.count > 1
        self._together = Together(name, terms.launch, terms.own) if several else None

    def run(self) -> int:
        """Run the command and return the exit status of its last start, or exit by its signal.

        1. Block the signals to forward, and fork the group monitor: both must come before the first thread.
        2. Start the command, and report this start as an attempt of the run.
        3. Wait for its exit, or until it hangs: then take the stacks of all its processes, and end them.
        4. Ask the policy. Without a restart, write the sentinel as ``exec`` always does, and exit.
        5. Keep what this start left behind, wait until its GPU memory is free, and restart.
        """
        apart = child_process.needs_terminal(self._streams)
        with SignalQueue() as signals, closing(GroupSignalMonitor(signals.forwarded, own_session=apart)) as group:
            become_reaper()
            begin_thread(self._prepare, "lastbeat-before")
            attention, turn = Attention(signals, self._more_stops), StartOrder.first(os.environ)
            before: StoreLook | None = None
            while True:
                life = self._begin(turn)
                try:
                    child = self._start(life, before, attention, signals, group)
                except child_process.NotStartedError as fault:
                    say(f"Error: {fault}")
                    life.run.fail(f"Not started: {fault}")
                    self._call_off(life, f"not started: {fault}")
                    return fault.status
                except (StoppedError, AskedToEndError) as stop:
                    return self._stopped(life, stop)
                try:
                    ended, called = self._await(life, child, group.process)
                    following = self._following(life, child, ended, called, attention, group.process)
                    if isinstance(following, int):
                        return following
                except (StoppedError, AskedToEndError) as stop:
                    return self._stopped(life, stop)
                finally:
                    child.restore_terminals()
                life.store.stop()
                life.reporter.leave()
                before, turn = life.store.look, following

    @property
    def _more_stops(self) -> frozenset[int]:
        """Further signals that ask training to end, besides the usual ones."""
        number = self._settings[EXIT_SIGNAL]
        return frozenset() if number is None else frozenset({number})

    def _prepare(self) -> None:
        """Prepare for the first failure: note the GPUs' memory in use, and load the signal catalogue."""
        self._gpus.begin(5.0)
        catalogues.catalogue(self._settings[SIGNALS])

    # One start.

    def _begin(self, turn: StartOrder) -> CommandStart:
        terms, began = self._terms, time.monotonic()
        token = f"{terms.launch}-{turn.number}"
        left = max(0, terms.most - turn.number)
        ours = InPlace(token, turn.number, left, terms.takes_s, os.getpid(), process_mark(os.getpid()))
        summary, printed, meter = OutputSummary(), Capture(), ResourceMeter(wraps=True)

        def adapt(environment: RunEnvironment) -> RunEnvironment:
            if self._together is not None:
                own, host = terms.own, environment.rank.host
                # The node number only names this node's failures; heartbeats of ranks come from training.
                environment = replace(environment, rank=Rank(own.number, own.count, None, host), rank_beat_s=0.0)
            else:
                environment = replace(environment, rank=Rank())
            return replace(environment, in_place=ours, yields=life.says_itself)

        def look() -> tuple[Store, StoreLook]:
            store = self._store()
            return store, StoreLook(store, self._name, ours, began, self._settings.redactor)

        reports = reporter(self._settings, printed, summary, meter, adapt)
        if self._together is not None:
            self._together.number = turn.number
        watch = StoreWatch(look) if self._together is None else StoreWatch(look, self._together.look)
        run = Run(self._name, None, self._steps)
        life = CommandStart(turn, ours, run, reports, meter, summary, OutputTail(), printed, watch, began)
        life.run = run = Run(self._name, reports, self._steps)
        run.set_phase(self._phase)
        run.on_stop, run.heeds_stop = partial(ask_child, self._settings, meter), True
        watch.start()
        return life

    def _start(
        self,
        life: CommandStart,
        before: StoreLook | None,
        attention: Attention,
        signals: SignalQueue,
        group: GroupSignalMonitor,
    ) -> ChildProcess:
        """Start the command. ``before`` reads the store for the previous start. Raises :class:`NotStartedError`,
        :class:`StoppedError` and :class:`AskedToEndError`."""
        turn = life.turn
        if turn.number:
            # Training continues the attempt that it finds, so wait until this one is there.
            attention.until(lambda: life.reporter.begun, _BEGIN_S)
            # A stop request made until now can only mean the previous attempt.
            self._heed_request(before, attention)
            self._input.rewind()
        environment: dict[str, str] = {
            **os.environ,
            WRAPPED: self._name,
            VARIABLE: life.ours.variable(),
            RESTARTS_VARIABLE: str(turn.number),
        }
        for name, value in turn.environment().items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        take = on_output(life.run, life.summary, life.printed)

        def keep(stream: int, chunk: bytes) -> None:
            life.tail.add(chunk)
            take(stream, chunk)

        child = child_process.start(self._command, self._streams, keep, signals, group, environment)
        child.reaps_all = True
        child.stops |= self._more_stops
        life.meter.root = child.pid
        return child

    def _heed_request(self, look: StoreLook | None, attention: Attention) -> None:
        """Raise :class:`AskedToEndError` if a stop of the attempt that ``look`` reads was requested."""
        asked = attention.while_doing(look.asked, _ASK_S, None) if look is not None else None
        if asked is not None:
            raise AskedToEndError(asked)

    def _await(self, life: CommandStart, child: ChildProcess, monitor: int) -> tuple[HowItEnded, StartsInPlace | None]:
        """Wait until the command exits. End it if it hangs, or if the other nodes restart.

        Returns how it ended, and the start that the other nodes make, if any.
        """
        watch = HangWatch(life.began, self._terms.sections, self._terms.stall_s)
        found: list[Hang] = []

        def hangs() -> bool:
            said, now = life.store.said, time.monotonic()
            printed = Printed(life.summary.progress.step, life.summary.count())
            watch.note(printed, said, now)
            leaves = child.told_to_stop or life.run.stopped is not None or life.run.stop_wanted is not None
            hang = None if leaves else watch.hang(said, now)
            found[:] = [hang] if hang is not None else []
            return bool(found) or self._called() is not None

        ended, text, called = child.wait_until(hangs, _TICK_S), None, None
        hang = found[0] if found else None
        if ended is None:
            # Captured first: output printed while the command is being ended does not explain the hang.
            text, life.last_words = life.tail.text(), life.summary.tail
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
            life.run.set_phase(phase, told)
            life.stacks = dump_waiting(child.pid, tree_of(child.pid), head)
            ended, _ = end_all(child, None, {monitor}, self._terms.grace_s)
            if ended is None:
                child.abandon()
        life.meter.root = None
        child.let_go(_OUTPUT_S)
        turn, lived_s = life.turn, time.monotonic() - life.began
        why = hang.why if hang is not None else None
        how = HowItEnded(
            ended, why, text or life.tail.text(), "", LeftBehind(), lived_s, life.step,
            turn.resume_from, turn.resume_step, os.uname().nodename,
        )  # fmt: skip
        return how, called

    def _called(self) -> StartsInPlace | None:
        return self._together.called if self._together is not None else None

    # Between two starts.

    def _following(
        self,
        life: CommandStart,
        child: ChildProcess,
        ended: HowItEnded,
        called: StartsInPlace | None,
        attention: Attention,
        monitor: int,
    ) -> StartOrder | int:
        """The next start, once it may begin, or the exit status, once this start's end is written."""
        if called is not None:
            ended = replace(
                ended, error=f"It ended with those on other nodes ({called.by}): {called.over or called.why}\n"
            )
            if ended.exit is None:
                return self._finish(life, child, ended, _LEFT)
            return self._all_together(life, child, ended, called, attention)
        if ended.exit is not None and ended.exit.succeeded and ended.hang is None:
            return self._finish(life, child, ended, None)
        life.told_by = child.told_by
        ended, still_there = self._rest_ended(life, child, ended, monitor)
        left = attention.while_doing(lambda: self._left_behind(life), _LOOK_S, LeftBehind())
        # Set only now: a heartbeat from here would overwrite training's last one.
        life.over = True
        if left.asked is not None and not left.asked.after_checkpoint:
            life.run.stopped = life.run.stopped or left.asked.summary
        if left.rerun is not None:
            # Reported here because a launcher may replace the exit status that says so.
            life.run.report_rerun(left.rerun)
        ended = replace(ended, left=left, step=ended.step if ended.step is not None else left.step)
        summary, words = life.summary, life.last_words or ""
        ended = replace(ended, error=ends.error_text(ended, self._program, summary.error, summary.tail, words))
        wanted = life.run.stop_wanted or (None if life.told_by is None else signal_name(life.told_by))
        judge = partial(rule, self._settings, self._terms, life.turn, ended, wanted)
        ruling = attention.while_doing(judge, _JUDGE_S, EndRuling(_UNDECIDED, _UNKNOWN_END))
        if ruling.decision.restart and still_there:
            return self._finish(life, child, ended, _LEFT)
        if not ruling.decision.restart:
            return self._finish(life, child, ended, ruling.decision)
        starts = next_starts(self._terms, life.turn, ended, ruling)
        if self._together is not None:
            return self._all_together(life, child, ended, self._agree(starts, attention), attention)
        attention.while_doing(lambda: self._keep(life, ended, starts), _KEEP_S, None)
        return self._ready(life, starts, ends.pause_s(life.turn.history, ruling.end, ended.lived_s), attention)

    def _rest_ended(
        self, life: CommandStart, child: ChildProcess, ended: HowItEnded, monitor: int
    ) -> tuple[HowItEnded, bool]:
        """End the processes that a failed command left running: ranks in other sessions may still write checkpoints.

        Returns the end with its final exit, and whether some processes could not be ended.
        """
        if ended.exit is None:
            return ended, True
        below = left_below({monitor})
        if below and not life.stacks:
            numbers = {each.pid for each in below}
            life.stacks = dump_waiting(min(numbers), numbers, f"What {self._program} left running when it ended")
        exited, still_there = end_all(child, ended.exit, {monitor}, self._terms.grace_s)
        return replace(ended, exit=exited), bool(still_there)

    def _ready(self, life: CommandStart, starts: StartsInPlace, pause_s: float, attention: Attention) -> StartOrder:
        """Wait until the machine is free, and return the order for ``starts``."""
        resumes = f", from {starts.resume_from}" if starts.resume_from is not None else ""
        self._tell(f"restarting in place, {starts.number} of {self._terms.most}{resumes}: {starts.why}")
        life.run.set_phase("restarting in place", starts.why)
        life.reporter.beat_now()
        if not self._gpus.wait_free(GPU_S, attention.pause):
            log.warning("the GPUs have not released all of their memory after %.0f s; lastbeat restarts anyway", GPU_S)
        attention.pause(pause_s)
        self._heed_request(life.store.look, attention)
        return StartOrder.of(starts)

    # Together with other nodes.

    def _agree(self, starts: StartsInPlace, attention: Attention) -> StartsInPlace | None:
        """Propose ``starts`` to all nodes. Returns what they agreed on, or None if the store does not answer."""
        together = self._together
        if together is None:
            return starts
        limit_s = self._terms.gather_s
        return attention.while_doing(lambda: together.ask_for(self._store(), starts, limit_s), limit_s + 30.0, None)

    def _all_together(
        self,
        life: CommandStart,
        child: ChildProcess,
        ended: HowItEnded,
        starts: StartsInPlace | None,
        attention: Attention,
    ) -> StartOrder | int:
        """The start that all nodes make, once all are ready, or the exit status if there is none."""
        life.over = True
        together, limit_s = self._together, self._terms.gather_s
        while starts is not None and not starts.over and together is not None:
            attention.while_doing(partial(self._keep, life, ended, starts), _KEEP_S, None)
            order = self._ready(life, starts, common_pause_s(starts), attention)
            unanswered: tuple[StartsInPlace | None, tuple[int, ...]] = (None, (together.own.number,))
            gather = partial(self._gathered, together, starts.number)
            starts, missing = attention.while_doing(gather, limit_s + 30.0, unanswered)
            if not missing:
                return order
            if starts is None:
                names = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
                why = f"{len(missing)} of {together.own.count} did not come within {limit_s:.0f} s ({names})"
                decision = RestartDecision(restart=False, reason=f"{why}: none goes on alone")
                return self._finish(life, child, ended, decision)
        why = "the store did not answer: none goes on alone" if starts is None else f"{starts.by}: {starts.over}"
        return self._finish(life, child, ended, RestartDecision(restart=False, reason=why), told=starts is not None)

    def _gathered(self, together: Together, number: int) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        return together.gather(self._store(), number, self._terms.gather_s)

    def _call_off(self, life: CommandStart, why: str) -> None:
        """Tell the other nodes to end, too. They find out later in any case."""
        together = self._together
        if together is None:
            return
        over = StartsInPlace(
            self._terms.launch, life.turn.number, life.turn.history, by=self._terms.node, over=fit(one_line(why), 300)
        )
        telling = threading.Thread(
            target=lambda: together.ask_for(self._store(), over, _CALL_S), name="lastbeat-over", daemon=True
        )
        start_or_run(telling)
        telling.join(2 * _CALL_S)

    def _left_behind(self, life: CommandStart) -> LeftBehind:
        look = life.store.look
        return LeftBehind() if look is None else look.left_behind()

    def _stacks(self, life: CommandStart, store: Store) -> str:
        """The stacks taken here, followed by those that the training code wrote itself, which name its functions."""
        own = store.read(f"{self._name}/{runid.STACKS}", _STACKS_BYTES) if life.stacks else None
        theirs = "" if own is None else f"\nWhat training said itself:\n{own.body.decode('utf-8', 'replace')}"
        return life.stacks.decode("utf-8", "replace") + theirs

    def _keep(self, life: CommandStart, ended: HowItEnded, starts: StartsInPlace) -> None:
        """Keep error and stacks of this start in the store, because the next start overwrites its log and stacks."""
        store, own = self._store(), self._terms.own
        if self._together is None:
            store.write(f"{self._name}/{KEY}", encode_starts(starts))
        told = self._settings.redactor(f"{ended.error}\n{self._stacks(life, store)}")
        which = f"{life.turn.number}-{own.number}" if own.count > 1 else f"{life.turn.number}"
        store.write(f"{self._name}/{FOLDER}{which}.txt", told.encode("utf-8", "replace"))

    def _store(self) -> Store:
        return opening.bare_store(self._settings, training=True)

    # The end.

    def _finish(
        self,
        life: CommandStart,
        child: ChildProcess,
        ended: HowItEnded,
        decision: RestartDecision | None,
        *,
        told: bool = False,
    ) -> int:
        """Write the sentinel, as ``exec`` does without restarts, and return the exit status.

        ``decision`` says why the command is not restarted; None after a success. ``told``: other nodes know already.
        """
        life.over = True
        exited = ended.exit or ChildExit(ends.FAILED)
        text, run = None, life.run
        asked = exited.cancelled or child.told_by is not None or run.stopped is not None or run.stop_wanted is not None
        if decision is not None and not asked:
            before = f"restarted in place {life.turn.number} of {self._terms.most} times; " if life.turn.number else ""
            note = f"{before}not restarted in place: {decision.reason}"
            text = f"{ended.error.rstrip()}\n\n{note}\n"
            self._tell(note)
        if life.stacks:
            with suppress(RuntimeError):
                threading.Thread(target=self._keep_stacks, args=(life,), daemon=True).start()

        def write() -> None:
            write_sentinel(run, exited, self._program, life.summary, text)
            if decision is not None and not told:
                # After the sentinel: otherwise theirs could come first and pass for the cause.
                why = f"{CANCELLED}{first_line(exited, self._program)}" if asked else decision.reason
                self._call_off(life, why)

        ending = threading.Thread(target=write, name="lastbeat-end", daemon=True)
        start_or_run(ending)
        child.wait_for(lambda: not ending.is_alive())
        life.store.stop()
        if exited.succeeded and decision is None:
            return 0
        status = ends.exit_status(ended, asked=asked, asked_by=child.told_by, followed=told)
        return exit_by_signal(-status) if status < 0 else status

    def _keep_stacks(self, life: CommandStart) -> None:
        with suppress(StoreError):
            # Stacks from training itself are better, so they are not overwritten.
            self._store().write(f"{self._name}/{runid.STACKS}", life.stacks, Expect.NOTHING)

    def _stopped(self, life: CommandStart, stop: "StoppedError | AskedToEndError") -> int:
        """Write the end and return the exit status after a signal or stop request came while no command ran."""
        life.store.stop()
        run, during = life.run, f"while {self._program} was being restarted in place"
        if isinstance(stop, AskedToEndError):
            run.stopped = stop.request.summary
            text = f"{run.stopped} {during}"
        else:
            text = f"received signal {stop.number} ({signal_name(stop.number)}) {during}"
        asked = run.stopped is not None
        written = run.cancel(f"KeyboardInterrupt ({text})") if asked else run.fail(f"{CANCELLED}{text}\n")
        if not written:
            log.warning("lastbeat could not write that it %s", text)
        self._call_off(life, f"{CANCELLED}{text}")
        return exit_by_signal(stop.number) if isinstance(stop, StoppedError) else ends.FAILED

    def _tell(self, what: str) -> None:
        say(logs.redact(f"lastbeat: {fit(one_line(what), 400)}"))
