"""Keras 3, on whichever backend: a callback for ``model.fit``.

model.fit(x, y, epochs=3, callbacks=[LastbeatCallback("my-run")])
"""

from collections.abc import Mapping
from typing import Any

from keras.callbacks import Callback

from lastbeat.integrations.session import Block, Session, metrics_of, quiet
from lastbeat.sdk.values import counted


class LastbeatCallback(Block, Callback):
    """Reports each ``model.fit()`` as an attempt of ``run_id``.

    ``chosen`` goes to :func:`lastbeat.start` (``root``, ``resume``, …). Keras tells its callbacks nothing of
    exceptions: one that nobody catches, ``sys.exit`` and SIGTERM are seen all the same. Where exceptions are caught,
    as notebooks do, use the callback as a block around ``model.fit()``.
    """

    def __init__(self, run_id: str, **chosen: Any) -> None:
        super().__init__()
        self._session = Session(run_id, chosen)
        self._steps = 0
        self._epoch = 0

    @quiet
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin an attempt."""
        self._steps, self._epoch = 0, 0
        self._session.begin(_total(self.params or {}))

    @quiet
    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Epochs count from 0, and from ``initial_epoch`` where training is resumed."""
        self._epoch = epoch

    @quiet
    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """One batch. The loss is the mean of its epoch so far, as Keras shows it."""
        run = self._session.run
        if run is not None:
            self._steps += 1
            told = logs or {}
            run.step(self._steps, loss=told.get("loss"), epoch=self._epoch, **metrics_of(told))

    @quiet
    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """An evaluation within the training."""
        self._phase("evaluation")

    @quiet
    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Training goes on."""
        self._phase("training")

    @quiet
    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """The training has come to its end, early or not."""
        self._session.end()

    def _phase(self, name: str) -> None:
        if self._session.active and self._session.run is not None:
            self._session.run.set_phase(name)


def _total(params: Mapping[str, Any]) -> int | None:
    epochs, steps = counted(params.get("epochs")), counted(params.get("steps"))
    return epochs * steps if epochs is not None and steps is not None else None
