"""``lastbeat check-node`` as the prolog of a real Slurm: a bad node is drained before a job runs there."""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import slurm
from support.checkout import ROOT
from support.cli import LASTBEAT
from support.waiting import text_in, until

pytestmark = [
    pytest.mark.skipif(slurm.WHY_NOT is not None, reason=str(slurm.WHY_NOT)),
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver, and n1 is to lack its GPUs"),
]


def script(folder: Path, name: str, gpus: str) -> Path:
    """That of infra/slurm, with this lastbeat and these GPUs in its first lines."""
    text = (ROOT / "infra" / "slurm" / f"{name}.sh").read_text(encoding="utf-8")
    program = folder / "lastbeat"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(LASTBEAT)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    text = re.sub(r"^LASTBEAT=.*$", f"LASTBEAT={shlex.quote(str(program))}", text, flags=re.MULTILINE)
    made = folder / name
    made.write_text(re.sub(r"^GPUS=.*$", f"GPUS={gpus}", text, flags=re.MULTILINE), encoding="utf-8")
    made.chmod(0o755)
    return made


@pytest.fixture
def conf() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sl"))
    # Slurm's user has to get there.
    folder.chmod(0o755)
    # Of this machine only that is known: it has no GPUs. So one node asks for eight, and the other for none.
    prolog = script(folder, "prolog", '$([ "$SLURMD_NODENAME" = n1 ] && echo 8 || echo 0)')
    try:
        with slurm.cluster(folder, nodes=2, prolog=prolog) as conf:
            yield conf
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def submit(conf: Path, node: str, ran: Path) -> str:
    script = f"echo $SLURMD_NODENAME > {shlex.quote(str(ran))}"
    return slurm.ask(conf, "sbatch", "--parsable", "-o", "/dev/null", "-w", node, "--wrap", script).strip()


def test_a_node_without_its_gpus_is_drained_and_runs_nothing(conf: Path, tmp_path: Path) -> None:
    assert submit(conf, "n1", tmp_path / "n1")
    assert submit(conf, "n2", tmp_path / "n2")

    assert text_in(tmp_path / "n2") == "n2\n", "a node that is well runs its job"
    drained = until(
        lambda: slurm.ask(conf, "sinfo", "-h", "-n", "n1", "-p", "main", "-o", "%T %E"), lambda said: "drain" in said
    )
    assert "rolog" in drained
    assert not (tmp_path / "n1").exists()


@pytest.mark.parametrize(
    ("gpus", "status"),
    [
        pytest.param("0", 0, id="a node that is well stays in use"),
        pytest.param("8", 1, id="a node that lost its GPUs is drained"),
        pytest.param("many", 0, id="a node that could not be checked stays in use"),
    ],
)
def test_after_a_job(tmp_path: Path, gpus: str, status: int) -> None:
    done = subprocess.run([script(tmp_path, "epilog", gpus)], capture_output=True, check=False)
    assert done.returncode == status
