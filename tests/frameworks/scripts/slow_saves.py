"""A training of the framework that is named, whose checkpoint and evaluation take SLOW_S seconds each."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

SLOW_S = float(os.environ["SLOW_S"])


def with_lightning() -> None:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint

    from lastbeat.integrations.lightning import LastbeatCallback

    class Slow(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return self.layer(batch[0]).square().mean()

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 0 and not self.trainer.sanity_checking:
                time.sleep(SLOW_S)

        def on_save_checkpoint(self, checkpoint: Any) -> None:
            time.sleep(SLOW_S)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)), batch_size=2)
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LastbeatCallback("slow"), ModelCheckpoint(every_n_train_steps=3, dirpath="checkpoints")],
    )
    trainer.fit(Slow(), data, data)


def with_keras() -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy as np

    from lastbeat.integrations.keras import LastbeatCallback

    class Slow(keras.Sequential):
        def save_weights(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(SLOW_S)
            return super().save_weights(*args, **kwargs)

    class SlowTest(keras.callbacks.Callback):
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 0:
                time.sleep(SLOW_S)

    model = Slow([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((8, 4), "float32"), np.zeros((8, 1), "float32")
    Path("checkpoints").mkdir()
    saves = keras.callbacks.ModelCheckpoint("checkpoints/{epoch}.weights.h5", save_weights_only=True)
    callbacks = [LastbeatCallback("slow"), SlowTest(), saves]
    model.fit(x, y, batch_size=2, epochs=1, verbose=0, validation_data=(x, y), callbacks=callbacks)


globals()[f"with_{sys.argv[1]}"]()
