"""Trainings of the real frameworks, in processes of their own, that report to a directory.

Run them with ``pytest --confcutdir tests/frameworks tests/frameworks`` in an environment that has the dependency
group ``frameworks``; .ci/run does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
LIMIT_S = 600


@dataclass(frozen=True)
class Trained:
    """What a script left behind."""

    status: int
    output: str
    root: Path

    def document(self, run_id: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / run_id / name).read_text(encoding="utf-8"))
        return found

    def text(self, run_id: str, name: str) -> str:
        path = self.root / run_id / name
        assert path.exists(), f"{run_id} has no {name}; the training said:\n{self.output}"
        return path.read_text(encoding="utf-8")

    def names(self, run_id: str) -> set[str]:
        folder = self.root / run_id
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        return {name for name in found if "lock" not in name and not name.startswith(("logs/", "curves/"))}

    def seen(self) -> dict[str, Any]:
        """What the script wrote down of what it saw."""
        found: dict[str, Any] = json.loads((self.root.parent / "seen.json").read_text(encoding="utf-8"))
        return found


def torchrun(ranks: int, *options: str) -> list[str]:
    """What starts a script on ``ranks`` ranks as users do, for tests that are about torchrun: each loads torch."""
    return ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *options]


def forked(ranks: int) -> list[str]:
    """The same agent, whose ranks are forks of it and share its torch: a fraction of the work, for all other tests."""
    return [str(SCRIPTS / "forked.py"), str(ranks)]


def train(folder: Path, command: list[str], environ: Mapping[str, str] | None = None) -> Trained:
    """Run a script of ``scripts/`` with Python (or what else ``command`` begins with) to its end."""
    root = folder / "runs"
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("LASTBEAT", "MONITORING"))}
    told = {
        "PYTHONPATH": str(ROOT / "core"),
        "MONITORING_ROOT": str(root),
        "LASTBEAT_BEAT_SECONDS": "0.1,ranks:0.2",
        "SEEN": str(folder / "seen.json"),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=clean | told | dict(environ or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Trained(done.returncode, done.stdout, root)
