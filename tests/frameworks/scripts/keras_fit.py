"""Two trainings with Keras on torch in one process; the second one raises."""

import json
import os
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

from lastbeat.integrations.keras import LastbeatCallback

phases: dict[str, list[str]] = {"evaluation": [], "saving": []}
callbacks: list[LastbeatCallback] = []


class Witness(keras.callbacks.Callback):
    def __init__(self, reported: LastbeatCallback, raises_at: int | None) -> None:
        super().__init__()
        self.reported, self.raises_at = reported, raises_at

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self.reported.run is not None
        phases["evaluation"].append(self.reported.run.phase_now[0])

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.raises_at:
            raise ValueError(f"bad batch {batch}")


class Saving(keras.Sequential):
    """Notes the phase in which it is saved."""

    def save_weights(self, *args: Any, **kwargs: Any) -> Any:
        assert callbacks[-1].run is not None
        phases["saving"].append(callbacks[-1].run.phase_now[0])
        return super().save_weights(*args, **kwargs)


def fit(run_id: str, raises_at: int | None = None) -> None:
    model = Saving([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    x, y = np.ones((12, 4), "float32"), np.zeros((12, 1), "float32")
    reported = LastbeatCallback(run_id)
    callbacks.append(reported)
    saves = keras.callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True)
    model.fit(
        x,
        y,
        batch_size=2,
        epochs=2,
        verbose=0,
        validation_data=(x, y),
        callbacks=[reported, Witness(reported, raises_at), saves],
    )


fit("completes")
Path(os.environ["SEEN"]).write_text(json.dumps(phases), encoding="utf-8")
fit("raises", raises_at=3)
