"""Two trainings with Keras on torch in one process; the second one raises."""

import json
import os
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

from lastbeat.integrations.keras import LastbeatCallback

phases: list[str] = []


class Witness(keras.callbacks.Callback):
    def __init__(self, reported: LastbeatCallback, raises_at: int | None) -> None:
        super().__init__()
        self.reported, self.raises_at = reported, raises_at

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self.reported.run is not None
        phases.append(self.reported.run.phase_now[0])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.raises_at:
            raise ValueError(f"bad batch {batch}")


def fit(run_id: str, raises_at: int | None = None) -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    x, y = np.ones((12, 4), "float32"), np.zeros((12, 1), "float32")
    reported = LastbeatCallback(run_id)
    model.fit(
        x,
        y,
        batch_size=2,
        epochs=2,
        verbose=0,
        validation_data=(x, y),
        callbacks=[reported, Witness(reported, raises_at)],
    )


fit("completes")
Path(os.environ["SEEN"]).write_text(json.dumps(phases), encoding="utf-8")
fit("raises", raises_at=3)
