"""``exec --max-restarts``: ends a command that hangs, and restarts it within its job if the policy says so."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from lastbeat.jobs.launchers import processes
from lastbeat.model import runid
from lastbeat.model.in_place import RESTARTS_VARIABLE, VARIABLE
from lastbeat.model.restart import JobEnd, Mode, RestartDecision
from lastbeat.model.starts_in_place import FOLDER, KEY, StartsInPlace
from lastbeat.model.text import fit, one_line
from lastbeat.settings import Settings, catalogues, opening
from lastbeat.settings.table import EXIT_SIGNAL, SIGNALS
from lastbeat.stores.port import Expect, Store
from lastbeat.training.exec.child.descriptors import StandardInput
from lastbeat.training.exec.child.exit_reason import ChildExit, first_line, signal_name
from lastbeat.training.exec.child.process import ChildProcess, NotStartedError
from lastbeat.training.exec.child.waiting import dump_waiting
from lastbeat.training.exec.command import CommandRunner, start_or_run
from lastbeat.training.exec.in_place import ends
from lastbeat.training.exec.in_place.attention import AskedToEndError, Attention, StoppedError, begin_thread
from lastbeat.training.exec.in_place.ending import end_all, left_below
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
from lastbeat.training.exec.in_place.hangs import Hang, HangWatch
from lastbeat.training.exec.in_place.looking import LeftBehind, StoreLook
from lastbeat.training.exec.in_place.start import InPlaceStart
from lastbeat.training.exec.in_place.together import Together, encode_starts
from lastbeat.training.exec.start import WrappedCommand
from lastbeat.training.node.gpus import GpuMonitor
from lastbeat.training.node.resources import tree_of
from lastbeat.training.sdk.run import CANCELLED

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


class CommandInPlace(CommandRunner):
    """A command within its job, from its first start to its last.

    A signal, or a request to stop the run, ends it in any step in which no command runs.
    """

    start: InPlaceStart

    def __init__(
        self, wrapped: WrappedCommand, settings: Settings, terms: InPlaceTerms, tell: Callable[[str], None]
    ) -> None:
        super().__init__(wrapped, settings, tell)
        self._settings, self._terms = settings, terms
        self._name, self._program = wrapped.name, wrapped.program
        self._gpus = MemoryWatch(GpuMonitor().fresh)
        self._input = StandardInput()
        several = terms.own.count > 1
        self._together = Together(wrapped.name, terms.launch, terms.own) if several else None
        self._starts = first_starts(terms, os.environ)
        """The start to make next."""
        self._before: StoreLook | None = None
        """Reads the store for the previous start; None before the first."""

    def _prepare(self) -> None:
        processes.become_reaper()
        begin_thread(self._prepare_for_failures, "lastbeat-before")
        self._attention = Attention(self._signals, self._more_stops)

    @property
    def _more_stops(self) -> frozenset[int]:
        """Further signals that ask training to end, besides the usual ones."""
        number = self._settings[EXIT_SIGNAL]
        return frozenset() if number is None else frozenset({number})

    def _prepare_for_failures(self) -> None:
        """Note the GPUs' memory in use, and load the signal catalogue."""
        self._gpus.begin(5.0)
        catalogues.catalogue(self._settings[SIGNALS])

    def _one_start(self) -> int | None:
        try:
            return super()._one_start()
        except (StoppedError, AskedToEndError) as stop:
            return self._stopped(stop)

    # Begin and launch.

    def _begin(self) -> InPlaceStart:
        together = self._together
        if together is not None:
            together.number = self._starts.number
        also = together.look if together is not None else lambda _: None
        return InPlaceStart(self._wrapped, self._settings, self._terms, self._starts, also)

    def _variables(self) -> dict[str, str]:
        start = self.start
        found: dict[str, str | None] = {
            **super()._variables(),
            VARIABLE: start.identity.variable(),
            RESTARTS_VARIABLE: str(start.starts.number),
            **resume_variables(start.starts),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _launch(self) -> ChildProcess:
        """Start the command. Raises :class:`StoppedError` and :class:`AskedToEndError`, too."""
        if self.start.starts.number:
            # Training continues the attempt that it finds, so wait until this one is there.
            self._attention.until(lambda: self.start.reporter.begun, _BEGIN_S)
            # A stop request made until now can only mean the previous attempt.
            self._heed_request(self._before)
            self._input.rewind()
        child = super()._launch()
        child.reaps_all = True
        child.stops |= self._more_stops
        return child

    def _not_started(self, fault: NotStartedError) -> int:
        status = super()._not_started(fault)
        self._call_off(f"not started: {fault}")
        return status

    def _heed_request(self, look: StoreLook | None) -> None:
        """Raise :class:`AskedToEndError` if a stop of the attempt that ``look`` reads was requested."""
        asked = self._attention.while_doing(look.asked, _ASK_S, None) if look is not None else None
        if asked is not None:
            raise AskedToEndError(asked)

    def _follow(self) -> int | None:
        called = self._wait()
        return self._judge() if called is None else self._join(called)

    # Wait.

    def _wait(self) -> StartsInPlace | None:
        """Wait until the command exits. End it if it hangs, or if the other nodes restart; then return their start."""
        start, child = self.start, self.start.child
        watch = HangWatch(start.began, self._terms.sections, self._terms.stall_s)
        found: list[Hang] = []

        def hangs() -> bool:
            said, now = start.store.said, time.monotonic()
            watch.note(start.summary.progress.step, start.summary.count(), said, now)
            leaves = child.told_by is not None or start.run.stopped is not None or start.run.stop_wanted is not None
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
        start.note_end(ended, hang.why if hang is not None else None, text or start.tail.text())
        return called

    def _called(self) -> StartsInPlace | None:
        return self._together.called if self._together is not None else None

    # Judge.

    def _join(self, called: StartsInPlace) -> int | None:
        """Follow the other nodes, which end or make the start ``called``."""
        error = f"It ended with those on other nodes ({called.by}): {called.over or called.why}\n"
        self.start.how = replace(self.start.how, error=error)
        return self._finish(_LEFT) if self.start.how.exit is None else self._gather(called, None)

    def _judge(self) -> int | None:
        """Find out why the command ended, and ask the restart policy.

        1. After a success, write the sentinel.
        2. End what the command left running, and read what it left in the store.
        3. Ask the policy. Without a restart, write the sentinel as ``exec`` always does.
        4. Otherwise make the next start, or agree on it with the other nodes.
        """
        start, exited, told_by = self.start, self.start.how.exit, self.start.child.told_by
        if exited is not None and exited.succeeded and start.how.hang is None:
            return self._finish(None)
        still_there = self._end_rest()
        self._add_evidence()
        wanted = start.run.stop_wanted or (None if told_by is None else signal_name(told_by))
        judge = partial(rule, self._settings, self._terms, start.starts, start.how, wanted)
        ruling = self._attention.while_doing(judge, _JUDGE_S, EndRuling(_UNDECIDED, _UNKNOWN_END))
        if still_there and ruling.decision.restart:
            return self._finish(_LEFT)
        if not ruling.decision.restart:
            return self._finish(ruling.decision)
        starts, together = next_starts(self._terms, start.starts, start.how, ruling), self._together
        if together is None:
            return self._gather(starts, ends.pause_s(start.starts.restarts, ruling.end, start.how.lived_s))
        limit_s = self._terms.gather_s
        agreed = self._attention.while_doing(
            lambda: together.ask_for(self._store(), starts, limit_s), limit_s + 30.0, None
        )
        return self._gather(agreed, None)

    def _end_rest(self) -> bool:
        """End the processes that a failed command left running: ranks in other sessions may still write checkpoints.
        Returns whether some could not be ended."""
        start, monitor = self.start, self._group.process
        if start.how.exit is None:
            return True
        below = left_below({monitor})
        if below and not start.stacks:
            numbers = {each.pid for each in below}
            start.stacks = dump_waiting(min(numbers), numbers, f"What {self._program} left running when it ended")
        exited, still_there = end_all(start.child, start.how.exit, {monitor}, self._terms.grace_s)
        start.how = replace(start.how, exit=exited)
        return bool(still_there)

    def _add_evidence(self) -> None:
        """Add what the start left in the store, and its error text, to how it ended."""
        start, ended = self.start, self.start.how
        left = self._attention.while_doing(start.left_behind, _LOOK_S, LeftBehind())
        # Set only now: a heartbeat from here would overwrite training's last one.
        start.over = True
        if left.asked is not None and not left.asked.after_checkpoint:
            start.run.stopped = start.run.stopped or left.asked.summary
        if left.rerun is not None:
            # Reported here because a launcher may replace the exit status that says so.
            start.run.report_rerun(left.rerun)
        ended = replace(ended, left=left, step=ended.step if ended.step is not None else left.step)
        summary, words = start.summary, start.last_words or ""
        start.how = replace(ended, error=ends.error_text(ended, self._program, summary.error, summary.tail, words))

    # Gather.

    def _gather(self, starts: StartsInPlace | None, pause_s: float | None) -> int | None:
        """Keep what this start left behind, wait until this machine is free, and gather all nodes for ``starts``.

        ``starts`` is None if the store did not say what the nodes agreed on, and ``pause_s`` if all nodes pause alike.
        The nodes may agree on another start meanwhile; that is gathered next.
        """
        start = self.start
        start.over = True
        while starts is not None and not starts.over:
            self._attention.while_doing(partial(self._keep, starts), _KEEP_S, None)
            self._make_ready(starts, common_pause_s(starts) if pause_s is None else pause_s)
            agreed, missing = self._wait_for_others(starts.number)
            if not missing:
                start.store.stop()
                start.reporter.leave()
                self._starts, self._before = starts, start.store.look
                return None
            if agreed is None:
                names = ", ".join(map(str, missing[:_NAMED])) + (", …" if len(missing) > _NAMED else "")
                limit_s, count = self._terms.gather_s, self._terms.own.count
                why = f"{len(missing)} of {count} did not come within {limit_s:.0f} s ({names}): none goes on alone"
                return self._finish(RestartDecision(restart=False, reason=why))
            starts = agreed
        why = "the store did not answer: none goes on alone" if starts is None else f"{starts.by}: {starts.over}"
        return self._finish(RestartDecision(restart=False, reason=why), told=starts is not None)

    def _make_ready(self, starts: StartsInPlace, pause_s: float) -> None:
        """Wait until the memory of the GPUs is free, and then for ``pause_s``."""
        start = self.start
        resumes = f", from {starts.resume_from}" if starts.resume_from is not None else ""
        self._tell(f"restarting in place, {starts.number} of {self._terms.most}{resumes}: {starts.why}")
        start.run.set_phase("restarting in place", starts.why)
        start.reporter.beat_now()
        if not self._gpus.wait_free(GPU_S, self._attention.pause):
            log.warning("the GPUs have not released all of their memory after %.0f s; lastbeat restarts anyway", GPU_S)
        self._attention.pause(pause_s)
        self._heed_request(start.store.look)

    def _wait_for_others(self, number: int) -> tuple[StartsInPlace | None, tuple[int, ...]]:
        """Wait until all nodes are ready for start ``number``, see :meth:`Together.gather`."""
        together, limit_s = self._together, self._terms.gather_s
        if together is None:
            return None, ()
        unanswered: tuple[StartsInPlace | None, tuple[int, ...]] = (None, (together.own.number,))
        return self._attention.while_doing(
            lambda: together.gather(self._store(), number, limit_s), limit_s + 30.0, unanswered
        )

    def _call_off(self, why: str) -> None:
        """Tell the other nodes to end, too. They find out later in any case."""
        together, terms, starts = self._together, self._terms, self.start.starts
        if together is None:
            return
        over = StartsInPlace(terms.launch, starts.number, starts.restarts, by=terms.node, over=fit(one_line(why), 300))
        telling = threading.Thread(
            target=lambda: together.ask_for(self._store(), over, _CALL_S), name="lastbeat-over", daemon=True
        )
        start_or_run(telling)
        telling.join(2 * _CALL_S)

    def _keep(self, starts: StartsInPlace) -> None:
        """Keep error and stacks of this start in the store, because the next start overwrites its log and stacks. The
        stacks taken here come first, then those that training wrote itself, which name its functions."""
        store, start, own = self._store(), self.start, self._terms.own
        if self._together is None:
            store.write(f"{self._name}/{KEY}", encode_starts(starts))
        theirs = store.read(f"{self._name}/{runid.STACKS}", _STACKS_BYTES) if start.stacks else None
        told = f"{start.how.error}\n{start.stacks.decode('utf-8', 'replace')}"
        if theirs is not None:
            told += f"\nWhat training said itself:\n{theirs.body.decode('utf-8', 'replace')}"
        which = f"{start.starts.number}-{own.number}" if own.count > 1 else f"{start.starts.number}"
        body = self._settings.redactor(told).encode("utf-8", "replace")
        store.write(f"{self._name}/{FOLDER}{which}.txt", body)

    def _store(self) -> Store:
        return opening.bare_store(self._settings, training=True)

    # The end.

    def _finish(self, decision: RestartDecision | None, *, told: bool = False) -> int:
        """Write the sentinel, as ``exec`` does without restarts. Returns the exit status.

        ``decision`` says why the command is not restarted; None after a success. ``told``: other nodes know already.
        """
        start, ended, told_by = self.start, self.start.how, self.start.child.told_by
        start.over = True
        exited, text, run = ended.exit or ChildExit(ends.FAILED), None, start.run
        asked = exited.cancelled or told_by is not None or run.stopped is not None or run.stop_wanted is not None
        if decision is not None and not asked:
            made = start.starts.number
            before = f"restarted in place {made} of {self._terms.most} times; " if made else ""
            note = f"{before}not restarted in place: {decision.reason}"
            text = f"{ended.error.rstrip()}\n\n{note}\n"
            self._tell(note)
        if start.stacks:
            begin_thread(self._keep_stacks, "lastbeat-stacks")

        def write() -> None:
            start.write_sentinel(exited, text)
            if decision is not None and not told:
                # After the sentinel: otherwise theirs could come first and pass for the cause.
                why = f"{CANCELLED}{first_line(exited, self._program)}" if asked else decision.reason
                self._call_off(why)

        self._write(write)
        start.store.stop()
        if exited.succeeded and decision is None:
            return 0
        return ends.exit_status(ended, asked=asked, asked_by=told_by, followed=told)

    def _keep_stacks(self) -> None:
        # Stacks from training itself are better, so they are not overwritten.
        self._store().write(f"{self._name}/{runid.STACKS}", self.start.stacks, Expect.NOTHING)

    def _stopped(self, stop: "StoppedError | AskedToEndError") -> int:
        """Write the end after a signal or stop request came while no command ran."""
        run, during = self.start.run, f"while {self._program} was being restarted in place"
        self.start.store.stop()
        if isinstance(stop, AskedToEndError):
            run.stopped = stop.request.summary
            text = f"{run.stopped} {during}"
        else:
            text = f"received signal {stop.number} ({signal_name(stop.number)}) {during}"
        asked = run.stopped is not None
        written = run.cancel(f"KeyboardInterrupt ({text})") if asked else run.fail(f"{CANCELLED}{text}\n")
        if not written:
            log.warning("lastbeat could not write that it %s", text)
        self._call_off(f"{CANCELLED}{text}")
        return -stop.number if isinstance(stop, StoppedError) else ends.FAILED

    def _tell(self, what: str) -> None:
        self._show(f"lastbeat: {fit(one_line(what), 400)}")
