"""The re-run state machine for training: runs a step with a bad result again, and reports the fault."""

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeAlias

from lastbeat.model.rerun import (
    MOST_FINDINGS,
    RerunFinding,
    RerunReport,
    RerunVerdict,
    read_findings,
)
from lastbeat.model.text import counted
from lastbeat.rerun.attribution import (
    VERDICTS,
    CheckedResult,
    PassEvent,
    PassOutcome,
    RerunPhase,
    Suspect,
    following,
    look,
)
from lastbeat.rerun.data import RerunDataIterator
from lastbeat.rerun.given import GivenResult, GivenResults, number, shown, shown_apart
from lastbeat.rerun.injection import ErrorInjector, read_injection
from lastbeat.rerun.peers import decides_alone, from_all, on_any, own_rank, present_device, tells_for_all
from lastbeat.rerun.random_state import RandomState
from lastbeat.rerun.results import UsualMagnitude, not_finite, relative_difference
from lastbeat.rerun.variation import MARGIN, Measurement, VariationSummary
from lastbeat.training.sdk.run import open_run
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text, safe_log

_EVENTS: Final = tuple(PassEvent)
_FORMAT: Final = 1
_RANDOM: Final = "the state of the random numbers"
_ALERTED: Final = (RerunVerdict.TRANSIENT_ERROR, RerunVerdict.CORRECT_RESULT)
"""Verdicts after which training goes on, so that an alert has to report them."""


class RerunMode(str, Enum):
    """Which steps are run again."""

    DISABLED = "disabled"
    VALIDATE_RESULTS = "validate_results"
    """Steps with a rejected result."""
    REPORT_STATS = "report_stats"
    """Every step, to measure the variation of its results."""


class Rewindable(Protocol):
    """The interface of :class:`lastbeat.rerun.RerunDataIterator` for re-runs."""

    def rewind(self) -> None:
        """Start the batches of the step again."""

    def advance(self) -> None:
        """Drop the batches of the finished step."""

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""


Iterators: TypeAlias = Rewindable | Sequence[Rewindable] | None


class RerunStateMachine:
    """Runs steps again, and attributes bad results; see docs/rerun.md.

    ::

        rerun = RerunStateMachine(mode="validate_results")
        batches = RerunDataIterator(loader)
        for step in range(steps):
            while rerun.should_run_forward_backward(batches):
                optimizer.zero_grad()
                loss = loss_of(next(batches))
                rerun.validate(loss)
                loss.backward()
            should_checkpoint, should_exit, exit_code = rerun.should_checkpoint_and_exit()
            if should_checkpoint:
                save(model, optimizer, rerun.state_dict(batches))
            if should_exit:
                sys.exit(exit_code)
            optimizer.step()

    All ranks make the same calls. With torch.distributed, each pass ends with an all-reduce of eight numbers, and
    raises what that raises when a peer has died. Nothing else is raised into training.
    """

    latest: "ClassVar[RerunStateMachine | None]" = None

    def __init__(  # noqa: PLR0913 - independent options, by name
        self,
        *,
        mode: "RerunMode | str" = RerunMode.DISABLED,
        device: str | None = None,
        check_for_nan_in_loss: bool = True,
        check_for_spiky_loss: bool = False,
        spike_factor: float = 10.0,
        tolerance: float | None = None,
        error_injection_rate: int = 0,
        error_injection_type: "RerunVerdict | str" = RerunVerdict.TRANSIENT_ERROR,
        state_save_func: Callable[[], Any] | None = None,
        state_restore_func: Callable[[Any], None] | None = None,
    ) -> None:
        """``device`` identifies this rank's hardware; the default is the UUID of torch's CUDA device. A loss is a spike
        if its magnitude is more than ``spike_factor`` times the median of the last 64. Two results are the same up to
        the relative difference ``tolerance``; the default is the one that ``report_stats`` has measured, or else 0. One
        result in ``error_injection_rate`` is made bad, 0 for none, and re-runs should find ``error_injection_type``.
        ``state_save_func`` and ``state_restore_func`` keep further state that a pass changes.

        :func:`get_rerun_state_machine` returns the latest machine. Raises ValueError for an invalid mode, rate or type,
        because training has not begun yet.
        """
        try:
            self.mode = RerunMode(mode)
        except ValueError:
            known = ", ".join(each.value for each in RerunMode)
            raise ValueError(f"mode={mode!r} is none of {known}") from None
        kind = error_injection_type.value if isinstance(error_injection_type, RerunVerdict) else error_injection_type
        self._injector = ErrorInjector(error_injection_rate, kind, own_rank() if error_injection_rate else 0)
        self._named_device = device
        self._present_device: str | None = None
        self._checks_finite, self._checks_spikes = check_for_nan_in_loss, check_for_spiky_loss
        self._spike_factor, self._tolerance = spike_factor, tolerance
        self._save_other, self._restore_other = state_save_func, state_restore_func
        self._phase = RerunPhase.READY
        self._resumed = False
        """Whether the next step was already run before the resume."""
        self._reruns = 0
        """Number of re-runs of the step in place."""
        self.iteration = -1
        """Number of the current step, from 0."""
        self._warnings = WarnOnce()
        self._given = GivenResults(self._warnings)
        self._suspect: Suspect | None = None
        self._settled: set[str] = set()
        """Names of results that are bad because of the computation, until one is good again."""
        self._usual: dict[str, UsualMagnitude] = {}
        self._measurement = Measurement()
        self._measured: dict[str, float] = {}
        """Name → the largest relative difference that ``report_stats`` saw on any rank."""
        self._random: RandomState | None = None
        self._other: Any = None
        self._batches: list[Any] | None = None
        """States of the data iterators of a step that will be run again after a resume."""
        self._iterators: tuple[Rewindable, ...] = ()
        self._findings: tuple[RerunFinding, ...] = ()
        self.verdicts: tuple[RerunFinding, ...] = ()
        """Findings of the current step, on all ranks."""
        RerunStateMachine.latest = self

    # The loop.

    def should_run_forward_backward(self, data_iterator: Iterators = None) -> bool:
        """Whether to run the step's forward and backward pass now, for the first time or again."""
        self._give_up_step(_listed(data_iterator))
        if self.mode is RerunMode.DISABLED:
            self._phase = RerunPhase.INITIAL if self._phase is RerunPhase.READY else RerunPhase.READY
            if self._phase is RerunPhase.INITIAL:
                self._iterators = _listed(data_iterator)
            self._advance()
            return self._phase is RerunPhase.INITIAL
        if not self._phase.in_step:
            self._begin(data_iterator)
            return True
        if self.mode is RerunMode.REPORT_STATS:
            return self._after_measured_pass()
        return self._after_pass()

    def validate(
        self, result: object, *, name: str = "loss", tolerance: float | None = None, fatal: bool = False
    ) -> None:
        """Check a loss (a number, or a tensor with one): NaN and Inf are bad, and so are spikes if enabled.

        Returns at once; a tensor is read after the pass. ``name`` distinguishes several losses. ``fatal`` ends training
        with exit status 17 if the bad loss turns out to be correct, not an error of the hardware.
        """
        if not self._looks():
            return
        name = self._given.name_of(name)
        if tolerance is None:
            tolerance = self._tolerance
        if tolerance is None:
            tolerance = MARGIN * self._measured.get(name, 0.0)
        rejects = partial(self._bad_loss, name)
        self._given.take(result, name, rejects, relative_difference, tolerance, fatal=fatal, is_loss=True)

    def validate_result(
        self,
        result: Any,
        rejection_func: Callable[[Any], object],
        message: str = "unexpected result",
        comparison_func: Callable[[Any, Any], float] | None = None,
        tolerance: float = 0.0,
        fatal: bool = True,
    ) -> None:
        """Check any result. ``rejection_func(result)`` returns whether it is bad, and ``comparison_func(one, other)``
        the relative difference of two. Both are called after the pass, and their exceptions are logged."""
        if not self._looks():
            return
        name = self._given.name_of(message)

        def rejects(value: Any) -> str | None:
            return name if rejection_func(value) else None

        compare = comparison_func or relative_difference
        self._given.take(result, name, rejects, compare, tolerance, fatal=fatal, is_loss=False)

    def _looks(self) -> bool:
        """Whether results are checked now."""
        if self.mode is RerunMode.DISABLED:
            return False
        if not self._phase.in_step:
            self._warnings.warn("outside", "lastbeat.rerun looks at results in its loop alone: see docs/rerun.md")
        return self._phase.in_step

    def should_checkpoint_and_exit(self) -> tuple[bool, bool, int]:
        """Whether to save a checkpoint (without applying the step), whether to end then, and the exit status. Call it
        after the passes, before the optimizer's step."""
        return self._phase.leaves if self.mode is RerunMode.VALIDATE_RESULTS else (False, False, 0)

    def stats(self) -> dict[str, VariationSummary]:
        """Name of a result → variation that ``report_stats`` has measured on this rank so far."""
        return self._measurement.summaries()

    # Checkpoints.

    def state_dict(self, data_iterator: Iterators = None) -> dict[str, Any]:
        """The state for a checkpoint, one for each rank. It holds only numbers and text, except the batches of
        ``data_iterator`` and results that are not numbers."""
        again = self._resumed or self._phase in {RerunPhase.LEAVING, RerunPhase.STUCK}
        injected = self._injector.active if again else None
        # Without its batches, a re-run would be a different step.
        iterators = _listed(data_iterator) or (self._iterators if again else ())
        batches = self._batches
        if batches is None and iterators:
            batches = [each.state_dict() for each in iterators]
        return {
            "format": _FORMAT,
            "mode": self.mode.value,
            "rank": own_rank(),
            "iteration": self.iteration,
            "reruns_step": again,
            "suspect": asdict(self._suspect) if again and self._suspect is not None else None,
            "injected": asdict(injected) if injected is not None else None,
            "settled": sorted(self._settled),
            "usual": {name: each.latest for name, each in self._usual.items()},
            "measured": dict(self._measured),
            "random": self._random.document() if again and self._random is not None else None,
            "batches": batches,
            "findings": [each.document() for each in self._findings],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`. Mode and arguments stay those of this machine. Invalid state is left out,
        with a line in the log."""
        if self.mode is RerunMode.DISABLED:
            safe_log(logging.INFO, "lastbeat.rerun is disabled, and leaves the state in the checkpoint alone")
            return
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
            # Without all of it the step would be a different one, and prove nothing about the first.
            self._suspect, self._batches = None, None
            safe_log(logging.WARNING, "lastbeat.rerun cannot use its state in the checkpoint: %s", fault_text(fault))

    def _load(self, state: Mapping[str, Any]) -> None:
        self.iteration = int(state["iteration"])
        self._settled = set(map(str, state["settled"]))
        self._usual = {str(name): UsualMagnitude(latest) for name, latest in state["usual"].items()}
        self._measured = {str(name): float(largest) for name, largest in state["measured"].items()}
        self._findings = read_findings(state["findings"])
        self._phase, self._suspect, self._random, self._batches = RerunPhase.READY, None, None, None
        self._resumed = bool(state["reruns_step"]) and self.mode is RerunMode.VALIDATE_RESULTS
        if state["rank"] != own_rank():
            # Its random numbers and its batches are not this rank's, nor is its result.
            what = "lastbeat.rerun was given the state of rank %s on rank %s: save one for each rank"
            safe_log(logging.WARNING, what, state["rank"], own_rank())
            return
        self._batches = _read_batches(state["batches"])
        if self._resumed:
            self._suspect = Suspect(**state["suspect"]) if state["suspect"] is not None else None
            self._injector.active = read_injection(state["injected"])
            self._random = RandomState.read(state["random"]) if state["random"] is not None else None

    # A step.

    def _begin(self, data_iterator: Iterators) -> None:
        """Begin a step: a new one, or the one that was run before the resume."""
        self._iterators = _listed(data_iterator)
        if self._phase.leaves[1]:
            self._ignored()
        self._reruns, self.verdicts = 0, ()
        self._advance()
        for iterator in self._iterators:
            if isinstance(iterator, RerunDataIterator):
                iterator.note_random(partial(self._guarded, _RANDOM))
        self._put_batches()
        if self._resumed:
            self._resumed, self._phase = False, RerunPhase.ELSEWHERE
            self._restore()
        else:
            self.iteration += 1
            self._phase, self._suspect = RerunPhase.INITIAL, None
            self._injector.begin()
        self._present_device = None
        self._random = self._guarded(_RANDOM, RandomState.now)
        self._other = self._guarded("state_save_func", self._save_other) if self._save_other is not None else None
        self._given.begin()

    def _put_batches(self) -> None:
        """Restore the saved states of the data iterators."""
        saved, self._batches = self._batches or [], None
        if len(saved) == len(self._iterators):
            for iterator, state in zip(self._iterators, saved, strict=True):
                iterator.load_state_dict(state)
        elif self._resumed:
            what = "lastbeat.rerun has the batches of %d iterators of this step, which has %d: it gives no verdict"
            safe_log(logging.WARNING, what, len(saved), len(self._iterators))
            self._suspect = None

    def _give_up_step(self, iterators: tuple[Rewindable, ...]) -> None:
        """Give up the step if a fetch has raised and training comes with new ``iterators``, so that it has left the
        step. With the same iterators, or after a fetch from the new ones, it may have continued within the pass. Other
        ranks may wait for the end of this pass, so it then ends normally."""
        raised = any(isinstance(each, RerunDataIterator) and each.raised for each in self._iterators)
        if not self._phase.in_step or not raised or iterators == self._iterators:
            return
        if any(isinstance(each, RerunDataIterator) and each.fetched for each in iterators):
            return
        if self.mode is RerunMode.DISABLED:
            self._phase = RerunPhase.READY
        elif decides_alone():
            self._phase, self.iteration = RerunPhase.READY, self.iteration - 1

    def _advance(self) -> None:
        for iterator in self._iterators:
            iterator.advance()

    def _ignored(self) -> None:
        """Note that training goes on although it should end. Results that it accepts are not run again with each
        step."""
        what = "lastbeat.rerun had asked for the end of this training (exit status %d), and it goes on"
        self._warnings.warn("ignored", what, self._phase.leaves[2])
        if self._suspect is not None:
            self._settled.add(self._suspect.name)
        tell(RerunReport(self._findings, None), (), leads=tells_for_all())

    def _again(self) -> bool:
        """Start the same pass once more."""
        self._phase = RerunPhase.IN_PLACE
        self._reruns += 1
        self._given.begin()
        self._rewind()
        return True

    def _rewind(self) -> None:
        for iterator in self._iterators:
            iterator.rewind()
        self._restore()

    def _restore(self) -> None:
        if self._random is not None:
            self._guarded(_RANDOM, self._random.restore)
        if self._restore_other is not None and self._other is not None:
            self._guarded("state_restore_func", partial(self._restore_other, self._other))

    def _guarded(self, what: str, call: Callable[[], Any]) -> Any:
        """The result of ``call``. None if it raised, with a line in the log, because training goes on without it."""
        try:
            return call()
        except Exception as fault:  # noqa: BLE001 - training's own function may raise anything
            self._warnings.warn(what, "lastbeat.rerun runs steps again without %s: %s", what, fault_text(fault))
            return None

    def _after_pass(self) -> bool:
        """Decide what follows the pass that has just ended. Returns whether to run it again.

        1. Check its results on this rank.
        2. Exchange the findings of all ranks, which then draw the same conclusion.
        3. If a result was in doubt, exchange the verdicts, and report them in the log, metadata.json and an alert.
        4. Run the step again, or leave it. If it will be run again elsewhere, restore its beginning first.
        """
        found, results = self._check_results()
        agreed = {
            each for each, on in zip(_EVENTS, on_any([each in found.events for each in _EVENTS]), strict=True) if on
        }
        was, self._phase = self._phase, following(self._phase, agreed, self._reruns)
        if agreed & VERDICTS.keys():
            self._judge(found)
        if self._suspect is not None and PassEvent.SAME_RESULT in found.events:
            self._settled.add(self._suspect.name)
        if found.fresh is not None and (was is not RerunPhase.ELSEWHERE or self._phase is RerunPhase.IN_PLACE):
            self._say_rejected(found.fresh)
        self._suspect = self._next_suspect(found)
        if self._phase is RerunPhase.IN_PLACE:
            return self._again()
        if self._phase is RerunPhase.READY:
            self._done(results)
        else:
            self._rewind()
        return False

    def _check_results(self) -> tuple[PassOutcome, list[CheckedResult]]:
        results = [each for each in map(self._checked, self._given.all) if each is not None]
        device = self._device() if self._suspect is not None else ""
        return look(self._phase, self._suspect, results, device, self._settled), results

    def _next_suspect(self, found: PassOutcome) -> Suspect | None:
        """The result that is in doubt on this rank from now on, or None."""
        if found.events & {PassEvent.REPRODUCED, PassEvent.SAME_DEVICE}:
            return self._suspect
        fresh = found.fresh
        if fresh is None or self._phase not in {RerunPhase.IN_PLACE, RerunPhase.LEAVING}:
            return None
        value, device = number(fresh.value), self._device()
        return Suspect(
            fresh.name, fresh.number, fresh.value if value is None else value, fresh.why or "",
            self.iteration, own_rank(), device, platform.node(), fresh.fatal, fresh.injected,
            once=self._phase is RerunPhase.LEAVING,
        )  # fmt: skip

    def _done(self, results: Sequence[CheckedResult]) -> None:
        """Accept the step's results."""
        bad = {each.name for each in results if each.why is not None}
        self._settled -= {each.name for each in results} - bad
        self._settled |= bad
        for given in self._given.all:
            value = number(given.value) if given.is_loss and given.name not in bad else None
            if value is not None:
                self._usual.setdefault(given.name, UsualMagnitude()).add(value)
        self._given.begin()
        self._suspect, self._random, self._other = None, None, None
        self._advance()

    def _judge(self, found: PassOutcome) -> None:
        """Exchange the verdicts of all ranks, and report them."""
        mine = list[dict[str, Any]]()
        suspect = self._suspect
        verdict = next((VERDICTS[each] for each in _EVENTS if each in found.events and each in VERDICTS), None)
        if suspect is not None and verdict is not None:
            then, now = shown(suspect.value), "nothing"
            if found.again is not None:
                then, now = shown_apart(suspect.value, found.again.value)
            what = f"{suspect.why} ({then}, then {now})"
            finding = RerunFinding(verdict, suspect.rank, suspect.host, suspect.device, suspect.iteration, what)
            self._say_verdict(finding, suspect, then, now)
            mine.append(finding.document())
        new = tuple(each for document in from_all(mine) for each in read_findings(document))
        self.verdicts = (*self.verdicts, *new)
        self._findings = (*self._findings, *new)[-MOST_FINDINGS:]
        leaves = self._phase.leaves
        report = RerunReport(self._findings, leaves[2] if leaves[1] else None)
        tell(report, new, leads=tells_for_all())

    def _say_rejected(self, fresh: CheckedResult) -> None:
        what = "Unexpected result %s on rank %d at iteration #%d invocation #%d (message='%s')"
        safe_log(logging.ERROR, what, shown(fresh.value), own_rank(), self.iteration, fresh.number, fresh.why)

    def _say_verdict(self, finding: RerunFinding, suspect: Suspect, then: str, now: str) -> None:
        same, differs = f"{now}, after {then}", f"{now} != {then}"
        if now == then:
            once = "the first time" if finding.verdict is RerunVerdict.TRANSIENT_ERROR else "on the first GPU"
            twice = f"{now} both times" if number(suspect.value) is not None else now
            differs = twice if suspect.injected else f"{twice}, rejected {once} alone"
        if suspect.injected:
            same, differs = (f"{each}: the error was injected on purpose" for each in (same, differs))
        first = {
            RerunVerdict.TRANSIENT_ERROR: (
                f"First rerun: unexpected result is not reproducible within the tolerance ({differs})"
            ),
            RerunVerdict.REPRODUCED: (f"First rerun: unexpected result is reproducible within the tolerance ({same})"),
            RerunVerdict.PERSISTENT_ERROR: (
                "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect"
                f" ({differs})"
            ),
            RerunVerdict.CORRECT_RESULT: (
                "Second rerun: unexpected result is reproducible on a different GPU, therefore it was likely correct"
                f" ({same})"
            ),
        }.get(finding.verdict)
        if first is not None:
            safe_log(logging.ERROR, "%s", first)
        safe_log(logging.ERROR, "%s: %s", finding.who, finding.verdict.told)

    # Results.

    def _checked(self, given: GivenResult) -> CheckedResult | None:
        """``given`` with its value read and checked; None if it cannot be read."""
        read = self._given.read(given)
        if read is None:
            return None
        value, why = read
        injected = why is None and self._injects(given)
        if injected:
            why = "error injected on purpose"
        return CheckedResult(
            given.name, given.number, value, why, partial(self._same, given, value), given.fatal, injected
        )

    def _injects(self, given: GivenResult) -> bool:
        if not self._injector.is_on:
            return False
        return self._injector.strikes(given.name, given.number, self._device(), self._phase)

    def _same(self, given: GivenResult, value: object, other: object) -> bool | None:
        found = self._given.difference(given, other, value)
        return found <= given.tolerance if found is not None else None

    def _bad_loss(self, name: str, value: float) -> str | None:
        found = not_finite(value)
        if found is not None:
            return f"{name} is {found}" if self._checks_finite else None
        usual = self._usual.get(name)
        found = usual.spike(value, self._spike_factor) if usual is not None and self._checks_spikes else None
        return f"{name} is {found}" if found is not None else None

    def _device(self) -> str:
        """The current device, determined at most once a step; empty if that failed."""
        if self._present_device is None:
            self._present_device = self._guarded("the device's name", partial(present_device, self._named_device)) or ""
        return self._present_device

    def _after_measured_pass(self) -> bool:
        """Run the step twice, and continue with its second results. Returns whether to run it again."""
        if self._phase is RerunPhase.INITIAL:
            self._measurement.first(self._given.all)
            return self._again()
        self._measurement.second(self._given)
        self._given.begin()
        self._phase, self._random, self._other = RerunPhase.READY, None, None
        self._advance()
        largest = self._measurement.report(self.iteration + 1)
        self._measured = self._measured if largest is None else largest
        return False


def tell(report: RerunReport, new: Sequence[RerunFinding], *, leads: bool) -> None:
    """Put ``report`` into the metadata.json of the run that is open in this process, if any. With ``leads``, also raise
    an alert for findings in ``new`` that no end of training will report. Never raises, and waits for nothing."""
    run = open_run()
    if run is None:
        return
    run.report_rerun(report)
    if leads and report.exit_code is None:
        for verdict in _ALERTED:
            those = [each for each in new if each.verdict is verdict]
            if those:
                more = f"; the same on {counted(len(those) - 1, 'other rank')}" if len(those) > 1 else ""
                run.alert(verdict.told, f"{those[0]}{more}", level="warning")


def get_rerun_state_machine() -> RerunStateMachine:
    """The latest machine of this process, or a disabled one."""
    return RerunStateMachine.latest or RerunStateMachine()


def _listed(given: Iterators) -> tuple[Rewindable, ...]:
    if given is None:
        return ()
    several = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(each for each in several if each is not None)


def _read_batches(value: object) -> list[Any] | None:
    """The iterators' states in ``value``, or None. Raises ValueError for other values than those of
    :meth:`RerunStateMachine.state_dict`."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise ValueError("batches are no list of iterators' states")
    return value
