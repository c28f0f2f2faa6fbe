"""A training of thirty steps, which saves after each ten: ``train.py CHECKPOINTS HOW``."""

import json
import os
import sys
import time
from pathlib import Path

STEPS = 30
CUT = 15


def save(folder: Path, step: int) -> None:
    """A checkpoint as Transformers writes it."""
    folder.mkdir(exist_ok=True)
    header = b"{}      "
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / "config.json").write_text("{}")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def main(checkpoints: Path, how: str) -> None:
    step, resumed = int(os.environ.get("LASTBEAT_RESUME_STEP") or 0), os.environ.get("LASTBEAT_RESUME_FROM")
    print(f"resumed from {resumed}, token {os.environ.get('HF_TOKEN')}", flush=True)  # noqa: T201 - it is a training
    while step < STEPS:
        step += 1
        print(f"step {step}/{STEPS} loss {10 / step:.2f} | throughput 512.5 tokens/s", flush=True)  # noqa: T201
        time.sleep(0.05)
        if step % 10 == 0:
            save(checkpoints / f"checkpoint-{step}", step)
        if step == CUT and how == "crash" and resumed is None:
            sys.exit("RuntimeError: NCCL error: unhandled system error")
        if step == CUT and how == "hang" and resumed is None:
            time.sleep(3600)
        if how == "always":
            sys.exit(3)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
