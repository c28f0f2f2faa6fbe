"""A training with Lightning that is told to stop in its fifth step, and goes on in the next process.

``lit_stops.py NAME [HOW]``: ``handler`` is a training that has put a handler of its own before it; ``ranks`` is one of
two processes, of which the second alone is told. The steps are written down.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

pl: Any = importlib.import_module(sys.argv[1])

from lastbeat.integrations.lightning import LastbeatCallback  # noqa: E402 - after the framework, as users do it

how = sys.argv[2] if len(sys.argv) > 2 else ""
rank = int(os.environ.get("LOCAL_RANK", "0"))
resumed = json.loads(Path("runs/stops/_preempted").read_text()) if Path("runs/stops/_preempted").exists() else None
seen: list[int] = []


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        seen.append(self.trainer.global_step)
        if resumed is None and self.trainer.global_step == 4 and rank == (1 if how == "ranks" else 0):
            os.kill(os.getpid(), signal.SIGTERM)
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if self.trainer.global_step not in (0, 12, 24):
            raise AssertionError("it evaluates before it stops")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def mine(number: int, _frame: object) -> None:
    Path("mine").write_text(str(number), encoding="utf-8")


if how == "handler":
    signal.signal(signal.SIGTERM, mine)
before = signal.getsignal(signal.SIGTERM)
data = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.ones(24, 1)), batch_size=1 if how == "ranks" else 2
)
trainer = pl.Trainer(
    max_epochs=2,
    min_epochs=2,
    accelerator="cpu",
    devices=2 if how == "ranks" else 1,
    strategy="ddp" if how == "ranks" else "auto",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir="kept",
    callbacks=[LastbeatCallback("stops", stop_early=True)],
)
try:
    trainer.fit(Model(), data, data, ckpt_path=resumed["checkpoint"] if resumed else None)
finally:
    restored = signal.getsignal(signal.SIGTERM) is before if how == "handler" else None
    told = {"steps": seen, "restored": restored}
    Path(f"seen-{rank}.json").write_text(json.dumps(told), encoding="utf-8")
