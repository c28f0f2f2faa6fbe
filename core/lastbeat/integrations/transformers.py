"""Hugging Face Transformers: a callback for ``Trainer`` and what derives from it.

trainer = Trainer(model, args, train_dataset=data, callbacks=[LastbeatCallback("my-run")])
trainer.train()
"""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from lastbeat.integrations.session import Block, Session, metrics_of, quiet
from lastbeat.sdk.values import counted


class LastbeatCallback(Block, TrainerCallback):
    """Reports each ``trainer.train()`` as an attempt of ``run_id``.

    ``chosen`` goes to :func:`lastbeat.start` (``root``, ``resume``, …). ``Trainer`` tells its callbacks nothing of
    exceptions: one that nobody catches, ``sys.exit`` and SIGTERM are seen all the same. Where exceptions are caught, as
    notebooks do, use the callback as a block around ``trainer.train()``.
    """

    def __init__(self, run_id: str, **chosen: Any) -> None:
        self._session = Session(run_id, chosen)
        self._told: dict[str, object] = {}
        self._loss: object = None
        self._rate: object = None
        self._tokens = 0

    @quiet
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin an attempt; a batch size that did not fit into memory and is tried smaller is the same one."""
        total = state.max_steps if state.max_steps > 0 else None
        self._told, self._loss, self._rate, self._tokens = {}, None, None, _seen(state)
        if self._session.active and args.auto_find_batch_size and self._session.run is not None:
            self._session.run.total_steps = total
        else:
            self._session.begin(total, args.process_index, args.world_size)

    @quiet
    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """One optimizer step."""
        self._step(state)
        self._phase(control)

    @quiet
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Loss and learning rate come with the logs alone; between them the last ones stand."""
        found = logs or {}
        self._loss = found.get("loss", self._loss)
        self._rate = found.get("learning_rate", self._rate)
        self._told |= metrics_of(found)
        self._step(state)

    @quiet
    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluation and saving may follow."""
        self._phase(control)

    @quiet
    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """One batch of an evaluation."""
        self._set_phase("evaluation")

    @quiet
    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """An evaluation has ended."""
        self._phase(control)

    @quiet
    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """A checkpoint is written."""
        self._set_phase("training")

    @quiet
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """The training has come to its end, early or not."""
        self._session.end()

    def _step(self, state: TrainerState) -> None:
        run = self._session.run
        if run is None:
            return
        seen = _seen(state)
        tokens, self._tokens = max(0, seen - self._tokens), seen
        run.step(
            state.global_step,
            loss=self._loss,
            learning_rate=self._rate,
            epoch=state.epoch,
            tokens=tokens,
            **self._told,
        )

    def _phase(self, control: TrainerControl) -> None:
        # What the flags ask for is done right after, and in this order.
        self._set_phase("evaluation" if control.should_evaluate else "saving" if control.should_save else "training")

    def _set_phase(self, name: str) -> None:
        if self._session.run is not None and self._session.run.phase_now[0] != name:
            self._session.run.set_phase(name)


def _seen(state: TrainerState) -> int:
    """Tokens so far, as far as that can be had at once."""
    return counted(state.num_input_tokens_seen) or 0
