"""The handle that training holds. Its methods only set attributes; a background thread does the rest."""

import logging
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, time
from types import TracebackType
from typing import TYPE_CHECKING

from lastbeat import model
from lastbeat.model import runid
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.training import sdk
from lastbeat.training.sdk.curves import StepSampler
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text, safe_log
from lastbeat.training.sdk.sections import MOST_NAMES, Section, Sections
from lastbeat.training.sdk.values import as_seconds, error_text, immediate_int, plain_str, short_text, type_name

if TYPE_CHECKING:
    from lastbeat.model.rerun import RerunReport
    from lastbeat.training.sdk.agreement import StopAgreement, StopAnnouncement
    from lastbeat.training.sdk.kept_curves import KeptCurves
    from lastbeat.training.sdk.raising import RaisedAlerts
    from lastbeat.training.sdk.reporter import Reporter
    from lastbeat.training.sdk.termination import Termination
    from lastbeat.training.sdk.threads import ThreadError


CANCELLED = "Cancelled: "
"""Prefix of an ``_error`` that is a cancellation, not a crash."""
MAX_PHASES = 60
"""Most changes of phase that are kept."""
STARTING = "starting"
"""The phase of a run until its first step, or until training sets another."""
END_WAIT_S = 15.0
"""Most time in s, in total, that the end of a run waits for its sentinel, unless the caller gives a time."""
_EXIT_CODE_LIMIT_S = 1.0
NO_MAPPING = 'lastbeat leaves out what run.log was given: %s is no dictionary; use run.log({"val_acc": 0.9})'


class Run:
    """One run as training sees it. No method raises into training, waits for the store or reads a tensor.

    ``run.step(...)`` and ``run.phase(...)`` each replace one attribute, which the beat thread reads when it beats.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_first_metric",
        "_metric_count",
        "between",
        "latest",
        "phase_now",
        "sections",
        "steps",
        "tokens",
    )
    world = 1
    """Number of ranks, from the launcher or training."""
    leads = True
    """Whether this process is rank 0."""
    announcement: "StopAnnouncement | None" = None
    """The announcement of a stop, if ranks that torch.distributed does not connect stop together."""
    ends_soon = False
    """Whether this process will be ended soon if it does not stop, as by a scheduler or a cloud."""
    exit_signal: int | None = None
    """The exit signal that training has set."""
    on_stop: Callable[[], None] | None = None
    """Called once by the beat thread when training should end early: passes the request to the wrapped command."""
    end_deadline: float | None = None
    """Deadline of the wait for the sentinel, by the monotonic clock. Set once, however often the run is ended."""

    def __init__(
        self,
        run_id: str,
        reporter: "Reporter | None",
        total_steps: object = None,
        find_url: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.run_id = run_id
        self._find_url = find_url
        self.total_steps = total_steps
        """The total as training gave it; no value from training is converted here."""
        self.latest: tuple[object, object, object, object, dict[str, object]] | None = None
        """Step, loss, learning rate, epoch and metrics as training gave them. Not read here: they may be tensors."""
        self.between = StepSampler()
        """Samples of the steps since the last beat. The beat thread replaces it with each beat."""
        self.curves: KeptCurves | None = None
        """The curves that this process stores, if it does."""
        self.steps = 0
        """Number of calls of ``step`` and ``log``; incremented after ``latest`` is set."""
        self._first_metric: str | None = None
        """The first name of the metrics of the latest step."""
        self._metric_count = 0
        self._logged: object = None
        """``latest``, if :meth:`log` has set it."""
        self.tokens = 0
        self.sections = Sections()
        self.unread_tokens: str | None = None
        """The type of a token count that could not be read."""
        self.phase_now: tuple[str, str | None] = (STARTING, None)
        self.phases: deque[tuple[float, object]] = deque([(time(), STARTING)], MAX_PHASES)
        """Unix time and name of the latest changes of phase, oldest first."""
        self.ending: tuple[str, str] | None = None
        """The sentinel to write and its text, once the run is over."""
        self.raised: RaisedAlerts | None = None
        """Alerts that training has raised; None before the first."""
        self.rerun: RerunReport | None = None
        """Result of re-runs of steps, see ``lastbeat.rerun``; None before the first."""
        self.stopped: str | None = None
        """Author and reason of a stop request: ``stopped by ann@login1: wrong data``."""
        self.thread_error: ThreadError | None = None
        """The first exception that ended one of training's threads."""
        self.stop_wanted: str | None = None
        """Why training should end early, after a checkpoint: ``received signal 15 (SIGTERM)``."""
        self.heeds_stop = False
        """Whether training checks :attr:`should_stop`, or has set an exit signal."""
        self._agreement: StopAgreement | None = None
        self._stop_seen = False
        """Whether training has read that it should stop."""
        self._stop_line: str | None = None
        """Log line about the stop that the beat thread has not logged yet."""
        self._warnings = WarnOnce()
        self._reporter = reporter
        self._pid = os.getpid()
        if reporter is not None:
            reporter.start(self)

    def step(
        self,
        step: object,
        *,
        loss: object = None,
        learning_rate: object = None,
        tokens: int = 0,
        epoch: object = None,
        **metrics: object,
    ) -> None:
        """Report the progress of training. Costs well under a microsecond.

        Numbers may be Python's, numpy's or tensors. The beat thread reads them, which synchronises a tensor with its
        device, and reads only those of the step at which it beats. ``tokens`` (or samples) are those of this step. They
        are added up, so they are read at once. A tensor is left out here, because reading it would wait for its device.
        """
        if metrics or self._metric_count:
            first = None
            for first in metrics:  # noqa: B007 - the fastest way to the first name
                break
            # By identity, because comparing names could run training's code.
            if first is not self._first_metric or len(metrics) != self._metric_count:
                self._keep_metrics(step, metrics, first)
        self.latest = (step, loss, learning_rate, epoch, metrics)
        self.steps = steps = self.steps + 1
        sections, between = self.sections, self.between
        sections.stepped = True
        if sections.watched:
            sections.step(step)
        if type(loss) is float and (steps >= between.due or not between.low <= loss <= between.high):
            between.add(steps, step, loss, learning_rate)
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        if type(tokens) is int:
            self.tokens += tokens
        else:
            self._add_tokens(tokens)

    @property
    def url(self) -> str | None:
        """The address of this run for a browser: its page below LASTBEAT_DASHBOARD_URL, else its folder in the console
        of the store's provider. None if there is no such page. Makes no request; computed when first read."""
        try:
            return self._find_url()
        except Exception as fault:  # noqa: BLE001 - training goes on without it
            safe_log(logging.DEBUG, "the address of this run's page is not known: %s", fault_text(fault))
            return None

    def _repr_html_(self) -> str | None:
        """What a notebook shows for this run. None if that fails; it then shows the object's name."""
        try:
            return sdk.notebook.html_of(self)
        except Exception as fault:  # noqa: BLE001 - a notebook may be training's process
            safe_log(logging.DEBUG, "the run cannot be shown: %s", fault_text(fault))
            return None

    def _keep_metrics(self, step: object, metrics: dict[str, object], first: str | None) -> None:
        """Keep the metrics of this step and the one before, because they are of different kinds."""
        same_name = type(first) is str and type(self._first_metric) is str and first == self._first_metric
        if not same_name or len(metrics) != self._metric_count:
            if self.latest is not None:
                self.between.keep_metrics(self.latest[0], self.latest[4])
            self.between.keep_metrics(step, metrics)
        self._first_metric, self._metric_count = first, len(metrics)

    def _add_tokens(self, tokens: object) -> None:
        count = immediate_int(tokens)
        if count is None:
            self.unread_tokens = type_name(tokens)
        else:
            self.tokens += count

    def log(self, values: object = None, /, *, step: object = None, **named: object) -> None:
        """Report numbers by name, as ``run.log({"val_acc": 0.9})`` or ``run.log(val_acc=0.9)``. Each becomes a curve.

        They belong to ``step``, or without it to the latest step. Training that never calls :meth:`step` may report its
        progress here: ``step`` is then its step, or without it each call counts as one. ``loss`` and ``learning_rate``
        are then the run's own.
        Numbers may be of any kind, as in :meth:`step`. Any other value is left out, with one line in the log.
        """
        try:
            self._log(values, step, named)
        except Exception as fault:  # noqa: BLE001 - a name or a step may be of any type
            self._warnings.warn("log", "lastbeat leaves out what run.log was given: %s", fault_text(fault))

    def _log(self, values: object, step: object, named: dict[str, object]) -> None:
        self.sections.mark(monotonic())
        given = dict.copy(values) if issubclass(type(values), dict) else {}  # type: ignore[arg-type]
        if values is not None and not issubclass(type(values), dict):
            self._warnings.warn("log", NO_MAPPING, type_name(values))
        given.update(named)
        latest = self.latest
        if latest is not None and latest is not self._logged:
            # The loop reports its steps itself, so the values logged beside them do not replace the latest step.
            at_step = latest[0] if step is None else step
            self._keep(at_step, given.pop("loss", None), given.pop("learning_rate", None), given)
        else:
            known_step, known_loss, known_rate = latest[:3] if latest is not None else (-1, None, None)
            at_step = _following(known_step) if step is None else step
            loss, rate = given.pop("loss", None), given.pop("learning_rate", None)
            self._keep(at_step, loss, rate, given)
            loss, rate = known_loss if loss is None else loss, known_rate if rate is None else rate
            self.latest = self._logged = (at_step, loss, rate, given.pop("epoch", None), given)
            self.sections.stepped = True
            if self.phase_now[0] is STARTING:
                self.set_phase("training")
        self.steps += 1

    def _keep(self, step: object, loss: object, learning_rate: object, metrics: dict[str, object]) -> None:
        self.between.add(self.steps, step, loss, learning_rate)
        self.between.keep_metrics(step, metrics)

    def section(self, name: str) -> Section:
        """Name the work of training inside a ``with`` block, or in each call of a decorated function: ``setup``,
        ``step``, ``checkpointing`` or any other name.

        Sections may be nested, in any thread. A run in which one lasts longer than its limit is TIMED_OUT;
        see ``sections`` of :func:`lastbeat.run`. Entering and leaving one costs about a microsecond.
        """
        if type(name) is not str:
            name = self._section_name(name)
        sections = self.sections
        if name not in sections.names and len(sections.names) < MOST_NAMES:
            sections.names.add(name)
            sections.watch()
        return Section(sections, name)

    def _section_name(self, name: object) -> str:
        if issubclass(type(name), str):
            return plain_str(name)
        self._warnings.warn("section", "a section has to have a text for a name, and not %s", type_name(name))
        return type_name(name)

    def alert(self, title: object, text: object = "", *, level: object = "info") -> bool:
        """Send an alert through the channels of the run's watchers. Returns at once whether the alert was taken.

        ``level`` is info, warning or error. Each process may raise ten alerts an hour, and the same one once an hour.
        """
        if self._reporter is None or self.ended or os.getpid() != self._pid:
            return False
        try:
            if self.raised is None:
                self.raised = sdk.raising.RaisedAlerts()
                self._reporter.add_task(self.raised)
            taken = self.raised.take(title, text, level)
        except Exception as fault:  # noqa: BLE001 - training goes on
            safe_log(logging.WARNING, "lastbeat leaves an alert out: %s", fault_text(fault))
            return False
        if taken:
            self._reporter.beat_now()
        return taken

    def report_rerun(self, report: "RerunReport") -> None:
        """Report the result of the re-runs of steps so far. Returns at once."""
        self.rerun = report
        if self._reporter is not None:
            self._reporter.beat_now()

    @property
    def should_stop(self) -> bool:
        """Whether training should save a checkpoint and end early; then call :meth:`preempted`. Once true it stays so.

        True after SIGTERM or the exit signal, before a Slurm job's time limit, before a cloud takes the machine away,
        and after ``lastbeat stop --after-checkpoint``. Costs less than 0.1 µs, so check it after each step. After the
        first check, the first SIGTERM does not end training any more.
        """
        if not self.heeds_stop:
            self._heed()
        if self.stop_wanted is None:
            return False
        self._stop_seen = True
        return True

    def _heed(self) -> None:
        """Note that training checks for a stop, and so ends by itself from now on."""
        self.heeds_stop = True
        self._of_termination(lambda termination: termination.heed(self))

    def all_should_stop(self, every: int = 1) -> bool:
        """:attr:`should_stop` for several ranks: once any of them should stop, the same call returns True on all of
        them. Call it at the same steps on every rank.

        With torch.distributed, one call in ``every`` is an all-reduce of one number, which waits for the other ranks;
        use 10 if steps are short. A rank that leaves calls out makes training hang, as with any collective. When a rank
        has died, this raises what the all-reduce raises.

        Otherwise rank 0 decides: once it should stop, its next heartbeat announces the call at which all ranks stop,
        some seconds ahead. A call then costs less than a microsecond, waits for nothing and raises nothing. Another
        rank that should stop, without rank 0, stops alone after 20 s. A single rank returns :attr:`should_stop`.
        """
        if not self.heeds_stop:
            self._heed()
        if self._agreement is None:
            announces = self._reporter is not None and self.world > 1
            self._agreement = sdk.agreement.StopAgreement(every, self if announces else None)
        agreed = self._agreement.ask(here=self.stop_wanted is not None)
        if agreed:
            why = self._agreement.why
            self.ask_to_stop(why, f"{why[:1].upper()}{why[1:]}: initiating graceful stop")
            self._stop_seen = True
        return agreed

    def ask_to_stop(self, why: str, said: str, *, ends_soon: bool = True) -> None:
        """Ask training to end early, because of ``why``, and log ``said``. The first reason stays. ``ends_soon`` says
        that the process will be ended soon if it does not stop. Only sets attributes and wakes the beat thread, so a
        signal handler may call it."""
        if ends_soon:
            self.ends_soon = True
        if self.stop_wanted is None:
            self.stop_wanted, self._stop_line = why, said
            self.beat_now()

    def beat_now(self) -> None:
        """Beat at once, because there is news. Returns at once."""
        if self._reporter is not None:
            self._reporter.beat_now()

    def announce_stop(self) -> None:
        """Log once that training should end early. For the beat thread, because a signal handler must not log."""
        said, self._stop_line = self._stop_line, None
        if said is not None:
            safe_log(logging.WARNING, "%s", said)
            if self.on_stop is not None:
                self.on_stop()

    @contextmanager
    def phase(self, name: str, detail: str | None = None) -> Iterator[None]:
        """Name the phase of training inside the block; the previous phase comes back after it."""
        before = self.phase_now
        self.set_phase(name, detail)
        try:
            yield
        finally:
            self.set_phase(*before)

    def set_phase(self, name: str, detail: str | None = None) -> None:
        """Name the phase of training from now on.

        A phase of saving or evaluation, by any usual name, also opens the section ``checkpointing`` or ``evaluation``.
        That ends with the next phase or step. Meanwhile its limit applies, and no limit of ``step`` does.
        """
        # Compared by identity: the name may be any object, and comparing it could run any code.
        if name is not self.phase_now[0]:
            self.phases.append((time(), name))
        self.phase_now = (name, detail)
        self.sections.set_phase(name)

    def complete(self, note: object = "", *, wait_s: float | None = None) -> bool:
        """End the run as succeeded: write ``_complete``. Returns whether it was written within ``wait_s``.

        By default the wait for the end of a run is 15 s in total, however often it is ended.
        """
        return self._end("_complete", lambda: self._complete_text(note), wait_s)

    def _complete_text(self, note: object) -> str:
        error = self.thread_error
        if error is None:
            return error_text(note)
        what = "a thread of this training ended with an exception (%s); the run still succeeds, as its process does"
        safe_log(logging.WARNING, what, error.line)
        return f"{error_text(note)}\n\n{error.text}".lstrip()

    def fail(self, error: object, *, wait_s: float | None = None) -> bool:
        """End the run as failed: write ``_error`` with the message, then the traceback with its causes.

        Returns whether it was written within ``wait_s``, as :meth:`complete` does. If not, the write is tried again as
        long as the process lives.
        """
        return self._end("_error", lambda: error_text(error), wait_s)

    def fail_unexplained(self, message: str, *, wait_s: float | None = None) -> bool:
        """:meth:`fail` for an end without an explanation: an exception that ended a thread earlier may be the cause."""
        error = self.thread_error
        return self._end("_error", lambda: f"{message}\n\n{error.text}" if error is not None else message, wait_s)

    def cancel(self, why: object, *, wait_s: float | None = None) -> bool:
        """End the run as cancelled: write an ``_error`` that says so, and does not count as a crash."""
        return self._end("_error", lambda: f"{CANCELLED}{error_text(why)}", wait_s)

    def preempted(
        self, checkpoint: object = None, *, step: object = None, why: object = None, wait_s: float | None = None
    ) -> bool:
        """End the run early, after a checkpoint: write ``_preempted``, which is no failure. Returns as
        :meth:`complete` does.

        ``checkpoint`` is its place (text or a path), ``step`` the last step in it (by default the latest step), and
        ``why`` the reason for the end (by default that of :attr:`should_stop`).
        """
        first = not self.ended
        written = self._end(runid.PREEMPTED, lambda: self._own_preemption_text(checkpoint, step, why), wait_s)
        if first and self.stop_wanted is not None and self.stop_wanted.startswith("received signal 15 "):
            safe_log(logging.WARNING, "exiting program after receiving SIGTERM.")
        return written

    def left_early(self, *, wait_s: float | None = None) -> bool:
        """:meth:`preempted` for an end on request if training has reported no checkpoint."""
        return self._end(runid.PREEMPTED, lambda: _preemption_text("", None, self.stop_wanted or ""), wait_s)

    def _own_preemption_text(self, checkpoint: object, step: object, why: object) -> str:
        if step is None and self.latest is not None:
            step = self.latest[0]
        reason = short_text(why) if why is not None else self.stop_wanted or ""
        return _preemption_text(short_text(checkpoint) if checkpoint is not None else "", immediate_int(step), reason)

    @property
    def _ends_early(self) -> bool:
        """Whether training left its loop because of a stop, before its last step."""
        return self._stop_seen and not self.is_done

    @property
    def is_done(self) -> bool:
        """Whether the latest step is the last one; False if that is unknown. Steps are counted from 0 or from 1."""
        step, total = (
            immediate_int(self.latest[0]) if self.latest is not None else None,
            immediate_int(self.total_steps),
        )
        return step is not None and total is not None and step >= total - 1

    def terminated(self, how: str) -> bool:
        """End the run as cancelled because of SIGTERM, without waiting for the sentinel."""
        return self.cancel(f"KeyboardInterrupt ({self.stopped}); {how}" if self.stopped else how, wait_s=0.0)

    def end_with(self, error: BaseException | None, *, wait_s: float | None = None) -> bool:
        """End the run as its block or process ends: with this exception, or without one."""
        if error is None:
            return self._end_well(wait_s)
        if issubclass(type(error), SystemExit):
            code = exit_code(error)
            if is_success(code):
                return self._end_well(wait_s)
            said = short_text(code)
            if issubclass(type(code), int):
                if self.rerun is not None and self.rerun.exit_code == code:
                    return self.fail(self.rerun.error(), wait_s=wait_s)
                said = f"training ended with exit status {said}"
            return self.fail_unexplained(f"SystemExit: {said}", wait_s=wait_s)
        if issubclass(type(error), KeyboardInterrupt):
            return self.cancel(f"KeyboardInterrupt ({self.stopped or 'Ctrl-C'})", wait_s=wait_s)
        return self.fail(error, wait_s=wait_s)

    def _end_well(self, wait_s: float | None) -> bool:
        return self.left_early(wait_s=wait_s) if self._ends_early else self.complete(wait_s=wait_s)

    def thread_died(self, error: "ThreadError") -> None:
        """An exception has ended one of training's threads. The first is reported at once: training may hang now."""
        if self.thread_error is None and not self.ended and self._reporter is not None:
            self.thread_error = error
            self._reporter.beat_now()

    @property
    def ended(self) -> bool:
        """Whether training has ended this run."""
        return self.ending is not None

    @property
    def status(self) -> str:
        """The run's status in its documents: running, completed, preempted, cancelled or failed."""
        if self.ending is None:
            return "running"
        if self.ending[0] == "_complete":
            return "completed"
        if self.ending[0] == runid.PREEMPTED:
            return "preempted"
        return "cancelled" if is_cancelled(self.ending) else "failed"

    @property
    def end_pending(self) -> bool:
        """Whether training has ended this run, and its sentinel is not written yet but may still be."""
        return self.ended and self._reporter is not None and self._reporter.end_pending

    def __enter__(self) -> "Run":
        if self.phase_now[0] is STARTING:
            self.set_phase("training")
        self._of_termination(lambda termination: termination.watch(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_with(error)
        self._of_termination(lambda termination: termination.leave(self))

    def _of_termination(self, call: "Callable[[Termination], None]") -> None:
        if self._reporter is None or os.getpid() != self._pid:
            return
        try:
            call(sdk.termination.termination())
        except Exception as fault:  # noqa: BLE001 - whatever it is, training goes on
            safe_log(logging.DEBUG, "lastbeat cannot see SIGTERM: %s", fault_text(fault))

    def _end(self, sentinel: str, make_text: Callable[[], str], wait_s: object) -> bool:
        """End the run, and wait for the sentinel. Returns whether it is written.

        1. Do nothing if watching is off, or in a forked child: the end of a DataLoader worker is not the run's.
        2. The first call decides the sentinel and its text. Making the text may take seconds, and if a signal handler
           ends the run meanwhile, that end stays.
        3. Wake the beat thread and wait: for ``wait_s``, or until ``END_WAIT_S`` after the first call without it.
        """
        if self._reporter is None or os.getpid() != self._pid:
            return False
        if self.ending is None:
            text = make_text()
            self.ending = self.ending or (sentinel, text)
        if wait_s is not None:
            return self._reporter.finish(monotonic() + as_seconds(wait_s, END_WAIT_S))
        if self.end_deadline is None:
            self.end_deadline = monotonic() + END_WAIT_S
        return self._reporter.finish(self.end_deadline)


def _preemption_text(checkpoint: str, step: int | None, why: str) -> str:
    return model.preemption.encode_preemption(model.preemption.Preemption(checkpoint, step, why)).decode()


def _following(step: object) -> object:
    """The step after ``step``; ``step`` itself if it is not a plain int."""
    return step + 1 if type(step) is int else step


def is_cancelled(ending: tuple[str, str]) -> bool:
    """Whether a sentinel and its text mean a cancelled run, not a failed one; see :meth:`Run.cancel`."""
    return ending[0] == "_error" and ending[1].startswith(CANCELLED)


def exit_code(error: BaseException) -> object:
    """The exit code that a SystemExit carries."""
    if type(error) is SystemExit:
        return error.code
    return call_with_timeout(lambda: getattr(error, "code", None), _EXIT_CODE_LIMIT_S, None)


def is_success(code: object) -> bool:
    """Whether the argument of ``sys.exit`` means success."""
    return code is None or (issubclass(type(code), int) and int.__int__(code) == 0)  # type: ignore[arg-type]


class _Latest:
    run: "weakref.ref[Run] | None" = None
    pid = 0


def remember(run: Run) -> None:
    """Note that ``run`` has begun in this process."""
    _Latest.run, _Latest.pid = weakref.ref(run), os.getpid()


def open_run() -> Run | None:
    """The run that began last in this process, or None if it has ended or no run has begun."""
    run = _Latest.run() if _Latest.run is not None and _Latest.pid == os.getpid() else None
    return run if run is not None and not run.ended else None
