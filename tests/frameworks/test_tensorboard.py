"""``lastbeat exec --tensorboard`` reads what PyTorch's writer has logged, with the real packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorboard", reason="tensorboard is not installed; the group frameworks has it")
pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from frameworks.trained import LIMIT_S, ROOT

TRAINS = """\
import torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("logs/run-1")
for step in range(1, 41):
    writer.add_scalar("train/loss", 2.5 / step, step)
    writer.add_scalar("train/learning_rate", 0.1, step, new_style=True)
    writer.add_scalar("train/grad_norm", 0.25, step, new_style=True, double_precision=True)
    writer.add_histogram("weights", torch.arange(1000.0), step)
writer.add_image("sample", torch.zeros(3, 256, 256), 40)
writer.add_scalar("eval/accuracy", 0.75, 40)
writer.add_hparams({"lr": 0.1}, {"hparam/accuracy": 0.75})
writer.close()
print("step 1/2 loss 99.0")
"""


def test_a_script_that_logs_needs_no_change(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS, encoding="utf-8")
    paths = os.pathsep.join(str(ROOT / each) for each in ("core", "cli"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "lastbeat_cli", "exec", "--run-id", "logs", "--tensorboard", "logs", "--"]
    done = subprocess.run(
        [*command, sys.executable, "train.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "training-runs/logs/progress.json").read_text(encoding="utf-8"))
    assert (told["step"], told["loss"], told["learning_rate"]) == (40, 0.0625, 0.1)
    assert told["metrics"]["train/grad_norm"] == 0.25
    assert told.get("total_steps") is None
    assert "found no scalars" not in done.stderr
