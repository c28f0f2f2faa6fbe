"""``lastbeat check-node`` as the prolog of a real Slurm: a bad node is drained before a job runs there."""

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import slurm
from support.cli import LASTBEAT
from support.waiting import text_in, until

pytestmark = [
    pytest.mark.skipif(slurm.WHY_NOT is not None, reason=str(slurm.WHY_NOT)),
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver, and n1 is to lack its GPUs"),
]
_PROLOG = """\
#!/bin/sh
# Of this machine only that is known: it has no GPUs. So one node asks for eight, and the other for nothing.
[ "$SLURMD_NODENAME" = n1 ] || exit 0
exec {lastbeat} check-node --prolog --gpus 8
"""


@pytest.fixture
def conf() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="sl"))
    # Slurm's user has to get there.
    folder.chmod(0o755)
    prolog = folder / "prolog"
    prolog.write_text(_PROLOG.format(lastbeat=shlex.join(LASTBEAT)), encoding="utf-8")
    prolog.chmod(0o755)
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
