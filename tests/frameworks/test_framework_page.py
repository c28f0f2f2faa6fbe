"""The blocks of docs/frameworks.md and docs/sweeps.md, run as they stand with the real packages."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = "\n".join((ROOT / "docs" / each).read_text(encoding="utf-8") for each in ("frameworks.md", "sweeps.md"))
ACCELERATE = """\
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2)
"""
ROWS = [
    pytest.param("Accelerate", "accelerate", ACCELERATE, (), {"my-run": 3}, id="accelerate"),
    pytest.param(
        "Optuna: a run a trial", "optuna", "", (), {f"lr-search-{number}": None for number in range(5)}, id="optuna"
    ),
    pytest.param("Hydra: a run a job of a sweep", "hydra", "", ("-m", "+lr=0.1,0.2"), {"*-0": 1, "*-1": 1}, id="hydra"),
]


@pytest.mark.parametrize(("heading", "package", "before", "arguments", "runs"), ROWS)
def test_it_reports(
    tmp_path: Path, heading: str, package: str, before: str, arguments: tuple[str, ...], runs: dict[str, int | None]
) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; the group frameworks has it")
    section = PAGES.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    script = tmp_path / "train.py"
    script.write_text(before + block, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "core")}
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {path.name: path for path in (tmp_path / "training-runs").iterdir() if not path.name.startswith("_")}
    assert len(found) == len(runs)
    for name, step in runs.items():
        (run,) = [path for each, path in found.items() if Path(each).match(name)]
        assert (run / "_complete").exists(), done.stderr
        told = json.loads((run / "progress.json").read_text(encoding="utf-8"))
        assert step is None or told["step"] == step
        tags = json.loads((run / "metadata.json").read_text(encoding="utf-8")).get("tags")
        assert tags == (None if package == "accelerate" else [run.name.rpartition("-")[0]])
