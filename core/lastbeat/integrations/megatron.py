"""Megatron-LM: reports ``pretrain`` by the functions that its loop calls, because none of its hooks names a save.

with reported("my-run"):
    pretrain(datasets_provider, model_provider, model_type, forward_step)
"""

import functools
import inspect
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from megatron.training import training

import lastbeat
from lastbeat.integrations.session import never_raises
from lastbeat.model import rerun
from lastbeat.training.sdk.run import Run, exit_code, is_success
from lastbeat.training.sdk.safe_log import safe_log

_PHASES: Final = {"evaluate_and_print_results": "evaluation", "save_checkpoint": "saving"}
_WHO: Final = re.compile(r"Rank (\d{1,9}), node (\S{1,200}), device (\S{1,99}), iteration #(\d{1,15}): ")


@contextmanager
def reported(run_id: str | None = None, **options: Any) -> Iterator[Run]:
    """Report the ``pretrain`` in the block as an attempt of ``run_id``; ``options`` go to :func:`lastbeat.run`. For
    every process.

    With ``--exit-signal-handler``, a request to stop makes Megatron-LM save and end. An end with status 0 before the
    last iteration is no success: the run is preempted.
    """
    with lastbeat.run(run_id, **options) as run, ExitStack() as replaced:
        run.set_phase("setup")
        loop, log = _Loop(run), logging.getLogger("megatron.core.rerun_state_machine")
        for name in ("training_log", *_PHASES):
            original = getattr(training, name, None)
            if original is None:
                safe_log(logging.WARNING, "lastbeat finds no %s in this Megatron-LM, and goes without it", name)
                continue
            setattr(training, name, loop.following(original, _PHASES.get(name)))
            replaced.callback(setattr, training, name, original)
        log.addFilter(loop.hear)
        replaced.callback(log.removeFilter, loop.hear)
        try:
            yield run
        except SystemExit as error:
            loop.note_exit(exit_code(error))
            raise


class _Loop:
    """What Megatron-LM's loop has come to."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._findings: tuple[rerun.RerunFinding, ...] = ()
        self._samples: int | None = None
        self._saved: object = None
        """The last iteration that was saved."""

    def following(self, original: Callable[..., Any], phase: str | None) -> Callable[..., Any]:
        """``original`` with its phase, or with a report of the step that it logs."""
        signature = inspect.signature(original)

        @functools.wraps(original)
        def followed(*args: Any, **kwargs: Any) -> Any:
            if phase is None:
                # Each version has other arguments.
                self._step(lambda: signature.bind(*args, **kwargs).arguments)
                return original(*args, **kwargs)
            with self._run.phase(phase):
                found = original(*args, **kwargs)
            if phase == "saving":
                self._saved = args[0] if args else kwargs.get("iteration")
            return found

        return followed

    @never_raises
    def _step(self, arguments: Callable[[], dict[str, Any]]) -> None:
        given, settings = arguments(), training.get_args()
        if self._samples is None:
            self._run.total_steps = settings.train_iters
            self._run.set_phase("training")
            if settings.exit_signal_handler:
                number = training.get_signal_handler().sig
                self._run.on_stop, self._run.heeds_stop = functools.partial(os.kill, os.getpid(), number), True
        before, self._samples = self._samples, settings.consumed_train_samples
        tokens = (self._samples - before) * settings.seq_length if before is not None else 0
        # Empty but on the last stage of the pipeline.
        losses, norm, rate = given.get("loss_dict") or {}, given.get("grad_norm"), given.get("learning_rate")
        loss = losses.get("lm loss", next(iter(losses.values()), None))
        metrics = {} if norm is None else {"grad_norm": norm}
        self._run.step(given["iteration"], loss=loss, learning_rate=rate, tokens=tokens, **metrics)

    def hear(self, record: logging.LogRecord) -> bool:
        """Note a verdict about this rank; the line is logged all the same."""
        self._note(record)
        return True

    @never_raises
    def _note(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        who, verdict = _WHO.match(text), next((each for each in rerun.RerunVerdict if each.told in text), None)
        if who is not None and verdict is not None:
            found = rerun.RerunFinding(verdict, int(who[1]), who[2], who[3], int(who[4]), text[who.end() :])
            self._findings = (*self._findings, found)[-rerun.MOST_FINDINGS :]
            self._run.report_rerun(rerun.RerunReport(self._findings))

    @never_raises
    def note_exit(self, code: object) -> None:
        """Note that the loop has ended the process with ``code``."""
        codes = (rerun.EXIT_CODE_RESUME_TO_DISAMBIGUATE, rerun.EXIT_CODE_FAILED_ON_RESULT_VALIDATION)
        if isinstance(code, int) and code in codes:
            self._run.report_rerun(rerun.RerunReport(self._findings, code))
            return
        step, settings = self._run.latest[0] if self._run.latest is not None else 0, training.get_args()
        if is_success(code) and step < settings.train_iters:
            place, why = settings.save if self._saved is not None else None, "Megatron-LM ended its loop early"
            self._run.preempted(place, step=self._saved, why=self._run.stop_wanted or why)
