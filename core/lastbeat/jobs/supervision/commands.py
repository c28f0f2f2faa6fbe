"""Runs the commands of a policy: each as a process of its own, which outlives the supervisor and is found again.

A command belongs to the machine on which it was decided. Only there can a watcher see whether it has begun, so
anywhere else it is refused: to run it at most once matters more than to run it.
"""

import logging
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from lastbeat.jobs.launchers.port import Launcher, LauncherError
from lastbeat.jobs.supervision import bounded
from lastbeat.jobs.supervision.restarting import CLOCKS, submit
from lastbeat.model.action import Action
from lastbeat.model.job import JobReport, JobSpec, JobState
from lastbeat.model.reaction import COMMAND_KIND, CommandRun, ReactionMemory
from lastbeat.model.record import Record
from lastbeat.model.restart import Reaction, RestartPolicy
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.stores.port import Store, StoreError
from lastbeat.watch.decide.reactions import AT, ON, PLACE, arguments, values_of
from lastbeat.watch.effects.actions import ExecutorError, NotDoneError, RefusedError

log = logging.getLogger(__name__)

MOST_RUNNING: Final = 2
"""Most commands that run at once; others wait."""
OUTPUT_BYTES: Final = 64 * 1024
"""Most bytes of the end of its output that are kept beside the run."""
_KEPT: Final = 40
_AGAIN_S: Final = 5.0
_LATE: Final = timedelta(minutes=1)
"""Time beyond its limit after which its own guard must have failed."""
_UNKNOWN_FOR: Final = timedelta(hours=1)
_HOW_LIMIT: Final = 200
_HERE: Final = " on "
"""In an action's result, before the place."""


def place(state: Path) -> str:
    """Names this machine, and where it remembers what it runs."""
    return f"{platform.node()}:{state}"


@dataclass
class Commands:
    """The commands of one run: the executor that starts them, and what looks after them."""

    run_id: str
    store: Store
    """The fleet root; the end of each output is kept there."""
    launcher: Launcher
    """Of this machine's processes."""
    policy: RestartPolicy
    cwd: str
    place: str
    read: Callable[[Path], bytes]
    """The end of a file that has no writer any more."""
    running: int = 0
    """How many run here, as of the last look."""

    kind: str = COMMAND_KIND

    @property
    def limit_s(self) -> float:
        return self.launcher.limit_s

    def find(self, action: Action) -> str | None:
        decided_on = action.details.get(PLACE, "")
        if decided_on != self.place:
            if not action.in_doubt:
                # It waited there, and has certainly not begun.
                return None
            machine = one_line(decided_on.partition(":")[0]) or "another machine"
            raise RefusedError(f"it was to be run on {machine}, by a supervisor that is gone, and may have begun there")
        try:
            found = self.launcher.find(self._name(action.name), action.asked_at - CLOCKS)
        except LauncherError as error:
            raise ExecutorError(error.told) from None
        return None if found is None else f"{found}{_HERE}{self.place}"

    def perform(self, action: Action) -> str:
        reaction = reaction_of(self.policy, action)
        if reaction is None:
            raise RefusedError("the policy has no such command any more")
        if self.running >= MOST_RUNNING:
            raise NotDoneError(f"{self.running} other commands run", retry_after_s=_AGAIN_S)
        command = arguments(reaction.command, values_of(action))
        script = (sys.executable, "-I", bounded.__file__, f"{reaction.limit_s:g}", "--")
        job = submit(self.launcher, JobSpec((*script, *command), self.cwd), self._name(action.name), action)
        self.running += 1
        return f"{job}{_HERE}{self.place}"

    def look(
        self, record: Record, memory: ReactionMemory, now: datetime
    ) -> tuple[ReactionMemory, tuple[CommandRun, ...]]:
        """What became of the commands, and those that failed since the last look. Never raises."""
        known = {each.name for each in memory.commands}
        begun = [
            each for each in record.actions if each.kind == COMMAND_KIND and each.settled and each.name not in known
        ]
        runs = (*memory.commands, *(self._begun(each, now) for each in begun))
        after = tuple(self._checked(each, now) if each.ended_at is None else each for each in runs)
        self.running = sum(each.ended_at is None and each.place == self.place for each in after)
        over_before = {each.name for each in memory.commands if each.ended_at is not None}
        ended = tuple(each for each in after if each.ended_at is not None and each.name not in over_before)
        for each in ended:
            log.log(logging.WARNING if each.failed else logging.INFO, "%s: %s: %s", self.run_id, each.name, each.how)
        if after == memory.commands:
            return memory, ()
        over = [each.name for each in after if each.ended_at is not None][:-_KEPT]
        kept = tuple(each for each in after if each.name not in over)
        return replace(memory, commands=kept), tuple(each for each in ended if each.failed)

    def _begun(self, action: Action, now: datetime) -> CommandRun:
        reaction, machine = reaction_of(self.policy, action), (action.result or "").partition(_HERE)[2]
        run = CommandRun(
            action.name,
            action.details.get(ON, ""),
            action.done_at or now,
            reaction.limit_s if reaction is not None else 0.0,
            machine,
        )
        if action.failed is None:
            log.info("%s: %s was started", self.run_id, action.name)
            return run
        return replace(run, ended_at=now, failed=True, how=fit(f"not run: {one_line(action.failed)}", _HOW_LIMIT))

    def _checked(self, run: CommandRun, now: datetime) -> CommandRun:
        limit = timedelta(seconds=run.limit_s)
        report = JobReport(JobState.UNKNOWN, reason=f"it runs on {one_line(run.place.partition(':')[0])}")
        job = self._name(run.name)
        if run.place == self.place:
            report = self.launcher.state(job)
        if report.state in {JobState.PENDING, JobState.RUNNING}:
            if now > run.at + limit + _LATE:
                self._end(job)
            return run
        if report.state is JobState.UNKNOWN:
            if now < run.at + limit + _UNKNOWN_FOR:
                return run
            return replace(run, ended_at=now, failed=True, how=f"how it ended is unknown: {one_line(report.reason)}")
        how = _how(run, report)
        output = self._kept(run, report)
        failed = report.state is not JobState.SUCCEEDED
        return replace(run, ended_at=report.ended_at or now, failed=failed, how=fit(how, _HOW_LIMIT), output=output)

    def _end(self, job: str) -> None:
        try:
            self.launcher.cancel(job)
        except LauncherError as error:
            log.warning("%s: %s is over its limit, and could not be ended: %s", self.run_id, job, error.told)

    def _kept(self, run: CommandRun, report: JobReport) -> str:
        """Where the output is kept: its end in the run's folder, where that can be written, else the file here."""
        file = report.outputs[0] if report.outputs else ""
        if not file:
            return ""
        name = f"commands/{run.name}.log"
        try:
            self.store.write(f"{self.run_id}/{name}", self.read(Path(file)))
        except (OSError, StoreError) as error:
            log.warning("%s: the output of %s stays in %s: %s", self.run_id, run.name, file, error)
            return file
        return name

    def _name(self, name: str) -> str:
        return f"{self.run_id}.{name}"


def reaction_of(policy: RestartPolicy, action: Action) -> Reaction | None:
    """What the policy says is to be run; None: it says no such thing."""
    said = policy.reactions.get(action.details.get(ON, ""), ())
    at = action.details.get(AT, "")
    found = said[int(at)] if at.isdecimal() and int(at) < len(said) else None
    return found if found is not None and found.command else None


def cut_to_end(path: Path) -> bytes:
    """The last :data:`OUTPUT_BYTES` of a file, of which no more is kept from now on. Raises :class:`OSError`."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - OUTPUT_BYTES))
        end = file.read(OUTPUT_BYTES)
    if size > OUTPUT_BYTES:
        path.write_bytes(end)
    return end


def unfinished(record: Record) -> bool:
    """Whether commands of its policy still wait or run."""
    memory = record.reactions or ReactionMemory()
    told = {each.name for each in memory.commands}
    # One that was started a moment ago is not among those yet.
    waits = (each for each in record.actions if each.kind == COMMAND_KIND and each.name not in told)
    return bool(memory.running) or any(waits)


def _how(run: CommandRun, report: JobReport) -> str:
    if report.state is JobState.SUCCEEDED:
        return "done"
    if report.state is JobState.CANCELLED or report.exit_code == bounded.TIME_OVER:
        return f"ended after its limit of {format_duration(run.limit_s)}"
    said = one_line(report.said) or report.state.value
    return f"{said}{f' ({one_line(report.reason)})' if report.reason else ''}"
