"""Keras 3, on any backend: a callback for ``model.fit``.

model.fit(x, y, epochs=3, callbacks=[LastbeatCallback("my-run")])
"""

from collections.abc import Mapping
from typing import Any

from keras.callbacks import Callback

from lastbeat.integrations.session import ContextCallback, Session, metrics_of, never_raises
from lastbeat.training.sdk.values import immediate_int


class LastbeatCallback(ContextCallback, Callback):
    """Reports each ``model.fit()`` as an attempt of ``run_id``.

    ``options`` go to :func:`lastbeat.start` (``root``, ``resume``, …). Keras does not report exceptions to its
    callbacks. Uncaught exceptions, ``sys.exit`` and SIGTERM are noticed nevertheless. If exceptions are caught, as in a
    notebook, use the callback as a context manager around ``model.fit()``.
    """

    def __init__(self, run_id: str | None = None, **options: Any) -> None:
        super().__init__()
        self._session = Session(run_id, options)
        self._steps = 0
        self._epoch = 0

    @never_raises
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin an attempt."""
        self._steps, self._epoch = 0, 0
        self._session.begin(_total_steps(self.params or {}))
        # No hook is called when ModelCheckpoint saves; these are what it calls.
        self._session.report_saves(self.model, "save")
        self._session.report_saves(self.model, "save_weights")

    @never_raises
    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Note the epoch. Epochs count from 0, or from ``initial_epoch`` in resumed training."""
        self._epoch = epoch

    @never_raises
    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report one batch. The loss is the mean of the epoch so far, as in Keras."""
        run = self._session.run
        if run is not None:
            self._steps += 1
            found = logs or {}
            run.step(self._steps, loss=found.get("loss"), epoch=self._epoch, **metrics_of(found))

    @never_raises
    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Enter the phase of an evaluation during training."""
        self._session.set_phase("evaluation")

    @never_raises
    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Return to the phase of training."""
        self._session.set_phase("training")

    @never_raises
    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the run, also after an early stop."""
        self._session.end()


def _total_steps(params: Mapping[str, Any]) -> int | None:
    epochs, steps = immediate_int(params.get("epochs")), immediate_int(params.get("steps"))
    return epochs * steps if epochs is not None and steps is not None else None
