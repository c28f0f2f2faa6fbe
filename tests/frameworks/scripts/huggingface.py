"""Several trainings of a tiny random GPT-2 in one process; the last one raises, and nobody catches that."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from lastbeat.integrations.transformers import LastbeatCallback

STEPS = 8
seen: dict[str, list[str]] = {"evaluation": [], "saving": []}


class Data(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(8) % 16
        return {"input_ids": tokens, "labels": tokens}


class Watching(Trainer):
    """Notes the phase in which it saves."""

    reported: LastbeatCallback

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        assert self.reported.run is not None
        seen["saving"].append(self.reported.run.phase_now[0])
        return super()._save_checkpoint(*args, **kwargs)


class Witness(TrainerCallback):
    """Notes the phase in which it evaluates, and raises, or is sent SIGTERM, where it is told to."""

    def __init__(self, reported: LastbeatCallback, raises_at: int | None, told_at: int | None) -> None:
        self.reported = reported
        self.raises_at = raises_at
        self.told_at = told_at

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        assert self.reported.run is not None
        seen["evaluation"].append(self.reported.run.phase_now[0])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.told_at:
            signal.raise_signal(signal.SIGTERM)
        if state.global_step == self.raises_at:
            raise ValueError(f"bad batch at step {state.global_step}")


def trainer(reported: LastbeatCallback, raises_at: int | None = None, told_at: int | None = None) -> Trainer:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    args = TrainingArguments(
        output_dir="checkpoints",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        save_steps=8,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    witness = Witness(reported, raises_at, told_at)
    made = Watching(model, args, train_dataset=Data(), eval_dataset=Data(), callbacks=[reported, witness])
    made.reported = reported
    return made


completes = LastbeatCallback("completes")
trainer(completes).train()
assert completes.run is not None
seen["heeds_stop"] = [str(completes.run.heeds_stop)]
Path(os.environ["SEEN"]).write_text(json.dumps(seen), encoding="utf-8")

trainer(LastbeatCallback("stops", stop_early=True), told_at=3).train()

with suppress(ValueError), LastbeatCallback("raises-in-a-block") as callback:
    trainer(callback, raises_at=3).train()

with suppress(ValueError):
    trainer(LastbeatCallback("is-left"), raises_at=5).train()

again = LastbeatCallback("is-begun-again")
with suppress(ValueError):
    trainer(again, raises_at=2).train()
trainer(again).train()

trainer(LastbeatCallback("raises"), raises_at=5).train()
