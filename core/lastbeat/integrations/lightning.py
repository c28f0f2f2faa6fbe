"""Lightning, under both of its names (``lightning`` and ``pytorch_lightning``): a callback for ``Trainer``.

trainer = Trainer(max_epochs=3, callbacks=[LastbeatCallback("my-run")])
trainer.fit(model)
"""

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from lastbeat.integrations.session import ContextCallback, Session, never_raises

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules or "lightning" in sys.modules:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback
else:
    # The two names are two copies of one package. Take the base class from the one in use.
    from pytorch_lightning import Callback


class LastbeatCallback(ContextCallback, Callback):
    """Reports each ``trainer.fit()`` as an attempt of ``run_id``; validate, test and predict alone are not reported.

    ``options`` go to :func:`lastbeat.start` (``root``, ``resume``, …).

    With ``stop_early``, a request to stop (SIGTERM and the others of ``run.should_stop``) makes training save a
    checkpoint after its step and end. It ends with ``SystemExit(0)`` out of ``trainer.fit()``, like Lightning's own
    handler of SIGTERM, which is not called then. All ranks synchronise after every step, so set it on all of them or on
    none, or training hangs. The checkpoint is beside those of ``ModelCheckpoint``; pass its path from ``_preempted`` to
    ``trainer.fit(ckpt_path=…)``.
    """

    def __init__(self, run_id: str | None = None, *, stop_early: bool = False, **options: Any) -> None:
        super().__init__()
        self._session = Session(run_id, options)
        self._total_known = False
        self._stop_early = stop_early
        self._stops = False
        self._asked_step = 0
        self._sigterm_before: Any = None

    @never_raises
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin an attempt, before any long operation."""
        if stage == "fit":
            config = getattr(pl_module, "hparams", None)
            self._session.begin(None, trainer.global_rank, trainer.world_size, config or None)
            self._total_known = False
            self._stops, self._asked_step = False, -1
            self._session.set_phase("setup")
            # ``on_save_checkpoint`` comes before a save, and no hook after it.
            self._session.report_saves(trainer, "save_checkpoint")
            # Lightning installs its own handler after this.
            self._sigterm_before = signal.getsignal(signal.SIGTERM)

    @never_raises
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Enter the phase of training when the first epoch begins."""
        self._session.set_phase("training")
        self._asked_step = trainer.global_step
        in_main = threading.current_thread() is threading.main_thread()
        if self._stop_early and in_main and self._sigterm_before is not None:
            # Lightning's handler ends training at once, and waits for the other ranks, which may have got no signal.
            # When training is over, it restores the previous handler.
            signal.signal(signal.SIGTERM, self._sigterm_before)
            self._session.heed()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Report one batch with the optimizer's step. With ``stop_early`` and a request to stop, save a checkpoint and
        end training."""
        self._report(trainer, outputs)
        if self._stop_early:
            self._ask(trainer)
        if self._stops:
            # Not guarded, because an error during the save is an error of training.
            self._save_and_leave(trainer)

    @never_raises
    def _ask(self, trainer: Any) -> None:
        # Never between two batches of one step, because the gradients of the first would be lost.
        if trainer.global_step == self._asked_step:
            return
        self._asked_step = trainer.global_step
        self._stops = self._session.stops() and self._session.run is not None and not self._session.run.is_done

    def _save_and_leave(self, trainer: Any) -> None:
        beside = getattr(trainer.checkpoint_callback, "dirpath", None)
        folder = str(beside or f"{trainer.default_root_dir}/checkpoints")
        # The same name as Lightning's own checkpoints.
        path = f"{folder}/epoch={trainer.current_epoch}-step={trainer.global_step}.ckpt"
        trainer.save_checkpoint(path)
        self._session.saved(path, trainer.global_step)
        self._session.end()
        raise SystemExit(0)

    @never_raises
    def _report(self, trainer: Any, outputs: Any) -> None:
        run = self._session.run
        if run is None:
            return
        if not self._total_known:
            # At the first batch, Lightning has loaded its data, so the total is free to read. Only once, even if it
            # fails.
            self._total_known = True
            total = trainer.estimated_stepping_batches
            run.total_steps = total if 0 < total < float("inf") else None
        # Not read here: the beat thread reads the tensor if it beats now.
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        rate = trainer.optimizers[0].param_groups[0].get("lr") if trainer.optimizers else None
        run.step(trainer.global_step, loss=loss, learning_rate=rate, epoch=trainer.current_epoch)

    @never_raises
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Enter the phase of an evaluation, also for the few batches that Lightning tries before training."""
        self._session.set_phase("evaluation")

    @never_raises
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Return to the phase of training, or to the setup before it."""
        self._session.set_phase("setup" if trainer.sanity_checking else "training")

    @never_raises
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End the run with the exception. Lightning passes every one here, including Ctrl-C and SIGTERM."""
        if type(exception).__name__ == "SIGTERMException" and self._session.active and self._session.run is not None:
            # From Lightning's own handler: a SystemExit without a code, which would look like success.
            self._session.run.cancel("received signal 15 (SIGTERM)")
        self._session.end(exception)

    @never_raises
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """End the run, also after an early stop."""
        self._session.end()
