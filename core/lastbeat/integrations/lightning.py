"""Lightning, under both of its names (``lightning`` and ``pytorch_lightning``): a callback for ``Trainer``.

trainer = Trainer(max_epochs=3, callbacks=[LastbeatCallback("my-run")])
trainer.fit(model)
"""

import sys
from typing import TYPE_CHECKING, Any

from lastbeat.integrations.session import Block, Session, quiet

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules or "lightning" in sys.modules:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback
else:
    # The two names are two copies of one package: the base class comes from the one in use.
    from pytorch_lightning import Callback


class LastbeatCallback(Block, Callback):
    """Reports each ``trainer.fit()`` as an attempt of ``run_id``; validating, testing and predicting alone are no runs.

    ``chosen`` goes to :func:`lastbeat.start` (``root``, ``resume``, …).
    """

    def __init__(self, run_id: str, **chosen: Any) -> None:
        super().__init__()
        self._session = Session(run_id, chosen)
        self._total_known = False

    @quiet
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin an attempt, before the first thing that may take long."""
        if stage == "fit":
            self._session.begin(None, trainer.global_rank, trainer.world_size)
            self._total_known = False
            self._phase("setup")

    @quiet
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The first epoch begins."""
        self._phase("training")

    @quiet
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """One batch; the step is the optimizer's."""
        run = self._session.run
        if run is None:
            return
        if not self._total_known:
            # Not before the first batch: by then Lightning knows its data, and asking costs nothing. And once, whatever
            # comes of it.
            self._total_known = True
            total = trainer.estimated_stepping_batches
            run.total_steps = total if 0 < total < float("inf") else None
        # A tensor stays one: the beat thread reads it if it beats now.
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        rate = trainer.optimizers[0].param_groups[0].get("lr") if trainer.optimizers else None
        run.step(trainer.global_step, loss=loss, learning_rate=rate, epoch=trainer.current_epoch)

    @quiet
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Also the few batches that Lightning tries before training."""
        self._phase("evaluation")

    @quiet
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Training goes on, or begins."""
        self._phase("setup" if trainer.sanity_checking else "training")

    @quiet
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Lightning hands over whatever ends a training, Ctrl-C and SIGTERM among it."""
        if type(exception).__name__ == "SIGTERMException" and self._session.active and self._session.run is not None:
            # Lightning's own handler; it is a SystemExit without a code, which would look like success.
            self._session.run.cancel("received signal 15 (SIGTERM)")
        self._session.end(exception)

    @quiet
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """The training has come to its end, early or not."""
        self._session.end()

    def _phase(self, name: str) -> None:
        if self._session.active and self._session.run is not None:
            self._session.run.set_phase(name)
