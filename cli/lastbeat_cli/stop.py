"""``stop``: end a run, and record who requested it and why."""

import os
import signal
import time

import click

from lastbeat.jobs.stopping import (
    CalledOff,
    RunningJob,
    RunningTraining,
)
from lastbeat.model.as_json import Json
from lastbeat.model.status import Status
from lastbeat.model.stop_request import GRACE_S, WHY_LIMIT, StopRequest
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration
from lastbeat.settings import Settings, opening
from lastbeat.stores.port import Store, StoreError
from lastbeat.training.node.resources import send_to_tree
from lastbeat.views.acting.stopping import (
    ask_to_end,
    call_off_next,
    called_off,
    outlook,
    refuse_if_over,
    status_of,
    training_of,
)
from lastbeat.views.one_run import run_watch
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.held_process import hold

WHAT = "What to stop"
EPILOG = """\
Exit status:
  0  the stop was requested; with --wait: the run has ended
  1  the stop was requested, but this run does not check for requests; with --wait: the run continues
  3  there is no such run, or it is over; also wrong settings or arguments

Examples:
  lastbeat stop mistral-20250804-171621 --why 'wrong data' --wait
  lastbeat stop mistral-20250804-171621 --after-checkpoint --why maintenance
"""
_WAIT_S = 3600.0
_MOST_GRACE_S = 7 * 86400.0
_FREE_S, _PAID_S = 0.5, 5.0
"""Seconds between two checks with --wait: for a store that is free, and for one that charges requests."""


@click.command("stop", cls=options.Grouped, epilog=EPILOG)
@options.argument("run_id", "RUN", "Its id.", group=WHAT)
@options.option("--why TEXT", "The reason, shown in alerts and in the record.", WHAT, also=("--reason",))
@options.option("--grace DURATION", "Time between SIGINT and SIGTERM [1m].", WHAT)
@options.option(
    "--after-checkpoint", "Let the run save a checkpoint and end by itself: run.should_stop becomes true.", WHAT
)
@options.option("--wait", "Wait until the run has ended, for at most an hour.", WHAT)
@options.place
@options.form
def command(
    *,
    run_id: str,
    why: str | None,
    grace: str | None,
    after_checkpoint: bool,
    wait: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """End a run as Ctrl-C would, wherever it runs. It becomes CANCELLED, with your name and TEXT.

    On the machine where the run's process runs, it gets SIGINT at once. From elsewhere, stop leaves a request beside
    the run. A run that uses the SDK, or runs under lastbeat exec, checks for requests regularly. The request applies
    only to the current attempt.
    """
    faults: list[str] = []
    name = values.run_id(run_id, faults)
    grace_s = _grace_s(grace, faults)
    if after_checkpoint and grace is not None:
        faults.append("--grace has no meaning with --after-checkpoint, which sends no signal; leave one of them out")
    settings = values.settings(given, faults)
    store = opening.store(settings)
    off = call_off_next(store, name, author())
    if off is not None:
        return report_called_off(
            settings, store, off, fit(one_line(logs.redact(why or "")), WHY_LIMIT), as_json=as_json
        )
    training = training_of(store, name)
    refuse_if_over(settings, store, name, training, lives_here)
    if after_checkpoint and not training.heeds_stop:
        what = f"run {name} has not looked at run.should_stop so far, so it would not save a checkpoint on request"
        raise StoreError(what, f"end it as Ctrl-C would: lastbeat stop {name}")
    process = None if after_checkpoint else _process_here(training)
    request = StopRequest(
        author(),
        store.clock(),
        fit(one_line(logs.redact(why or "")), WHY_LIMIT),
        training.start_time,
        training.attempt,
        grace_s,
        signalled=process is not None,
        after_checkpoint=after_checkpoint,
    )
    said = [ask_to_end(store, name, request)]
    if process is not None:
        said.append(_interrupt(process, training))
    looks = process is not None or training.looks_s is not None
    if after_checkpoint and training.looks_s is not None:
        each = format_duration(training.looks_s)
        said.append(f"The training looks for this each {each}, saves a checkpoint and ends: {name} is PREEMPTED then.")
    elif training.job is None or looks:
        said += outlook(training, process, name)
    else:
        said.append(training.job.end(settings.state_dir))
        looks = True
    if not as_json:
        _say(said)
    status = _wait(settings, name, store, training.job) if wait else None
    if as_json:
        known = {"signalled": process is not None, "looks_each_s": training.looks_s}
        tell({**_document(request.attempt, name, request.why, status), **known}, (), as_json=True)
    elif status is not None:
        _say([f"Run {name}: {status}" if status.finished else f"Run {name} goes on after {_WAIT_S / 60:g} minutes."])
    if status is not None:
        return exits.OK if status.finished else exits.WARNING
    return exits.OK if looks else exits.WARNING


def report_called_off(settings: Settings, store: Store, off: CalledOff, why: str, *, as_json: bool) -> int:
    """Report that the next job is called off, and end the last one if it is still alive."""
    name = off.record.run_id
    said = called_off(settings, store, off, author(), why)
    tell(_document(off.record.attempt.number, name, why, off.record.status, off.action.name), said, as_json=as_json)
    return exits.OK


def _document(attempt: int | None, name: str, why: str, status: Status | None, off: str | None = None) -> Json:
    """The answer for programs; ``off`` is the job that was called off."""
    known = status.value if status is not None else None
    return {"run_id": name, "by": author(), "why": why, "attempt": attempt, "signalled": False, "looks_each_s": None,
            "called_off": off, "status": known}  # fmt: skip


def _grace_s(text: str | None, faults: list[str]) -> float:
    if text is None:
        return GRACE_S
    return values.span("--grace", text, faults, least_s=0.0, most_s=_MOST_GRACE_S, like="30s or 5m")


def lives_here(training: RunningTraining) -> bool:
    """Whether training's process belongs to this user on this machine, and lives."""
    process = _process_here(training)
    if process is not None:
        os.close(process)
    return process is not None


def _process_here(training: RunningTraining) -> int | None:
    """A pidfd of the training process if it belongs to this user on this machine, else None."""
    return None if training.process is None or training.mark is None else hold(training.process, training.mark)


def _interrupt(process: int, training: RunningTraining) -> str:
    number = training.process
    assert number is not None  # noqa: S101 - the pidfd was opened by this number
    deaf = _ignores(number, signal.SIGINT)
    sent = signal.SIGTERM if deaf else signal.SIGINT
    try:
        if training.wraps:
            send_to_tree(number, sent)
        else:
            signal.pidfd_send_signal(process, sent)
    except OSError:
        return f"Its process {number} on this machine has just ended."
    finally:
        os.close(process)
    how = "SIGTERM, since it ignores Ctrl-C" if deaf else "SIGINT, as by Ctrl-C"
    return f"Its process {number} on this machine got {how}."


def _ignores(process: int, number: int) -> bool:
    """Whether the process ignores the signal: background processes of a script ignore Ctrl-C."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - kernel's path
            masks = [line.split()[1] for line in file if line.startswith("SigIgn:")]
        return bool(masks) and bool(int(masks[0], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False


def _say(lines: list[str]) -> None:
    print("\n".join(one_line(logs.redact(line)) for line in lines), flush=True)


def _wait(settings: Settings, name: str, store: Store, job: RunningJob | None) -> Status:
    """Wait until the run has ended, and return its status. The launcher is asked, too: there may be no supervisor."""
    watch, until = run_watch(settings, name, at=store), time.monotonic() + _WAIT_S
    pause_s = _FREE_S if store.traits.prices.free else _PAID_S
    while True:
        status = status_of(watch)
        if status.finished or time.monotonic() > until:
            return status
        if job is not None and job.has_ended(settings.state_dir):
            return Status.CANCELLED
        time.sleep(pause_s)
