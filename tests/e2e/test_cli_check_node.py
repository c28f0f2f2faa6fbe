"""``check-node`` as a prolog runs it: with GPUs, without, and with a driver that hangs. The driver is a small library
of our own; no real GPU was at hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, call
from support.nvml import StubDriver, compiled

QUIET = ("memory_used 0", "processes 0")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    return compiled(tmp_path_factory.mktemp("driver"))


def check_node(folder: Path, driver: StubDriver | None, *arguments: str) -> Any:
    return call(LASTBEAT, "check-node", *arguments, cwd=folder, **(driver.env if driver is not None else {}))


NODES = [
    pytest.param(QUIET, (), "ok", "2 GPUs well: Stub A, Stub B", id="a node that is well"),
    pytest.param((*QUIET, "1.handle error 15"), (), "fail", "GPU 1 is lost", id="a GPU that is lost"),
    pytest.param(("init hang",), ("--wait", "2"), "fail", "NVIDIA's driver hangs", id="a driver that hangs"),
]


@pytest.mark.parametrize(("says", "arguments", "word", "detail"), NODES)
def test_what_is_said_of_the_gpus(
    library: StubDriver, tmp_path: Path, says: tuple[str, ...], arguments: tuple[str, ...], word: str, detail: str
) -> None:
    said = check_node(tmp_path, library.says(*says), "--json", *arguments)

    checks = json.loads(said.stdout)["checks"]
    [about_gpus] = [check for check in checks if check["name"] == "gpus"]
    assert (about_gpus["word"], detail in about_gpus["detail"]) == (word, True), about_gpus
    worst = {check["word"] for check in checks}
    assert said.returncode == (2 if "fail" in worst else 1 if "warn" in worst else 0)


def test_without_a_gpu_a_node_is_judged_by_the_rest(tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    said = check_node(tmp_path, None, "--path", str(tmp_path))

    lines = said.stdout.splitlines()
    assert lines[0].startswith("ok    gpus: there are none here")
    assert [line.split()[1] for line in lines] == [
        "gpus:", "kernel", "memory:", "disk:", "disk:", "disk:", "network:",
    ]  # fmt: skip
    assert said.returncode in {0, 1}
