"""Several trainings with Lightning in one process, under the name that is given; the last one is stopped by SIGTERM."""

import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

pl: Any = importlib.import_module(sys.argv[1])

from lastbeat.integrations.lightning import LastbeatCallback  # noqa: E402 - after the framework, as users do it

phases: dict[str, list[str]] = {"evaluation": [], "saving": []}


class Model(pl.LightningModule):
    def __init__(self, at_step_3: Any = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.at_step_3 = at_step_3

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.at_step_3 is not None and self.trainer.global_step == 3:
            self.at_step_3(self.trainer)
        return self.layer(batch[0]).square().mean() + 0.5

    def note(self, what: str) -> None:
        reported = next(each for each in self.trainer.callbacks if isinstance(each, LastbeatCallback))
        assert reported.run is not None
        phases[what].append(reported.run.phase_now[0])

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.note("evaluation")

    def on_save_checkpoint(self, checkpoint: Any) -> None:
        self.note("saving")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(run_id: str, at_step_3: Any = None) -> None:
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(12, 4)), batch_size=2)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[LastbeatCallback(run_id)],
    )
    trainer.fit(Model(at_step_3), data, data)


def save(trainer: Any) -> None:
    trainer.save_checkpoint("kept.ckpt")


def fail(_: Any) -> None:
    raise ValueError("bad batch")


def interrupt(_: Any) -> None:
    raise KeyboardInterrupt


def terminate(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


fit("completes", save)
Path(os.environ["SEEN"]).write_text(json.dumps(phases), encoding="utf-8")
with suppress(ValueError):
    fit("raises", fail)
with suppress(SystemExit):
    fit("is-interrupted", interrupt)
# Lightning ignores Ctrl-C from then on; SIGTERM is what schedulers send.
fit("is-terminated", terminate)
