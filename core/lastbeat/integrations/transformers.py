"""Hugging Face Transformers: a callback for ``Trainer`` and its subclasses.

trainer = Trainer(model, args, train_dataset=data, callbacks=[LastbeatCallback("my-run")])
trainer.train()
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from lastbeat.integrations.session import ContextCallback, Session, metrics_of, never_raises
from lastbeat.training.sdk.values import immediate_int


class LastbeatCallback(ContextCallback, TrainerCallback):
    """Reports each ``trainer.train()`` as an attempt of ``run_id``.

    ``options`` go to :func:`lastbeat.start` (``root``, ``resume``, …). ``Trainer`` does not report exceptions to its
    callbacks. Uncaught exceptions, ``sys.exit`` and SIGTERM are noticed nevertheless. If exceptions are caught, as in a
    notebook, use the callback as a context manager around ``trainer.train()``.

    With ``stop_early``, a request to stop (SIGTERM and the others of ``run.should_stop``) makes training save a
    checkpoint after its step and end. All ranks then synchronise after every step, so set it on all of them or on none,
    or training hangs.
    """

    def __init__(self, run_id: str | None = None, *, stop_early: bool = False, **options: Any) -> None:
        self._session = Session(run_id, options)
        self._stop_early = stop_early
        self._metrics: dict[str, object] = {}
        self._loss: object = None
        self._rate: object = None
        self._tokens = 0

    @never_raises
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin an attempt. A retry with a smaller batch that fits into memory is the same attempt."""
        total = state.max_steps if state.max_steps > 0 else None
        self._metrics, self._loss, self._rate, self._tokens = {}, None, None, _tokens_seen(state)
        if self._session.active and args.auto_find_batch_size and self._session.run is not None:
            self._session.run.total_steps = total
        else:
            self._session.begin(total, args.process_index, args.world_size, args)

    @never_raises
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report one optimizer step. With ``stop_early`` and a request to stop, save a checkpoint and end training."""
        self._step(state)
        if self._stop_early and self._session.stops():
            control.should_save = control.should_training_stop = True
        self._phase(control)

    @never_raises
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take loss and learning rate, which come only with the logs. Between two logs the last ones are used."""
        found = logs or {}
        self._loss = found.get("loss", self._loss)
        self._rate = found.get("learning_rate", self._rate)
        self._metrics |= metrics_of(found)
        self._step(state)

    @never_raises
    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Enter the phase of an evaluation or a save, if one follows."""
        self._phase(control)

    @never_raises
    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Enter the phase of an evaluation at each of its batches."""
        self._session.set_phase("evaluation")

    @never_raises
    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Enter the phase after an evaluation."""
        self._phase(control)

    @never_raises
    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note a written checkpoint."""
        self._session.saved(f"{args.output_dir}/checkpoint-{state.global_step}", state.global_step)
        self._session.set_phase("training")

    @never_raises
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the run, also after an early stop."""
        self._session.end()

    def _step(self, state: TrainerState) -> None:
        run = self._session.run
        if run is None:
            return
        seen = _tokens_seen(state)
        tokens, self._tokens = max(0, seen - self._tokens), seen
        run.step(
            state.global_step,
            loss=self._loss,
            learning_rate=self._rate,
            epoch=state.epoch,
            tokens=tokens,
            **self._metrics,
        )

    def _phase(self, control: TrainerControl) -> None:
        # The trainer acts on these flags right after this, in this order.
        self._session.set_phase(
            "evaluation" if control.should_evaluate else "saving" if control.should_save else "training"
        )


def _tokens_seen(state: TrainerState) -> int:
    """Tokens so far; 0 if they cannot be read without waiting."""
    return immediate_int(state.num_input_tokens_seen) or 0
