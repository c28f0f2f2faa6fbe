"""What is said of a node before a job starts on it."""

import os
from pathlib import Path
from typing import Any

import pytest

from lastbeat.model.health import REMEDIES
from lastbeat.model.status import GPU_ECC, GPU_LOST
from lastbeat.training.node.asking import GpusAsked
from lastbeat.training.node.checking import Sources, check_disk, check_gpus, check_node, recent_xids
from lastbeat.training.node.gpus import XidLine
from lastbeat.training.node.node import Places

WELL = {"name": "H100", "utilization": 0.0, "memory_used_bytes": 4 << 20, "temperature_c": 31, "throttle": []}
ABSENT = GpusAsked(why="libnvidia-ml.so.1: cannot open shared object file")
HANGS = GpusAsked(why="it has not answered within 30 s", hangs=True)


def gpu(index: int, **more: Any) -> dict[str, Any]:
    return {**WELL, "index": index, "bus": f"00000000:{0x3B + index:02X}:00.0", **more}


def asked(*gpus: dict[str, Any]) -> GpusAsked:
    return GpusAsked(gpus)


GPUS = [
    pytest.param(asked(gpu(0), gpu(1)), None, ["ok"], "2 GPUs well: H100", id="all are well"),
    pytest.param(asked(gpu(0)), 2, ["fail"], "1 of 2 are there", id="one is missing"),
    pytest.param(asked(gpu(0), gpu(1, lost=True)), None, ["fail"], "GPU 1 is lost", id="one is lost"),
    pytest.param(asked(gpu(0, lost=True), gpu(1, lost=True)), 2, ["fail", "fail"], "GPUs 0-1 are lost",
                 id="all are lost"),
    pytest.param(asked({"index": 0, "name": "GPU"}), None, ["ok"], "1 GPU well",
                 id="one that tells nothing is not ill"),
    pytest.param(asked(), None, ["ok"], "there are none", id="a driver without GPUs"),
    pytest.param(asked(gpu(0, ecc_uncorrected=2)), None, ["fail"],
                 "GPU 0: 2 memory errors that could not be corrected", id="memory errors"),
    pytest.param(asked(gpu(0, rows_pending=True)), None, ["fail"], "waits for a reset", id="a repair that waits"),
    pytest.param(asked(gpu(0, rows_failed=True)), None, ["fail"], "could not be remapped", id="a repair that failed"),
    pytest.param(asked(gpu(0, throttle=["hw_thermal"], temperature_c=92)), None, ["warn"],
                 "GPU 0: too hot, slowed down by its hardware (92 °C)", id="heat"),
    pytest.param(asked(gpu(0, temperature_c=84)), None, ["warn"], "GPU 0: 84 °C", id="hot before anything runs"),
    pytest.param(asked(gpu(0, memory_used_bytes=30 << 30, processes=2)), None, ["warn"],
                 "GPU 0: 30.0 GB of its memory are in use, by 2 processes", id="somebody else uses it"),
    pytest.param(ABSENT, None, ["ok"], "there are none here", id="a machine without GPUs"),
    pytest.param(ABSENT, 8, ["fail"], "their state is unknown", id="a job wants GPUs, and no driver is there"),
    pytest.param(HANGS, None, ["fail"], "NVIDIA's driver hangs", id="a driver that hangs"),
]  # fmt: skip


@pytest.mark.parametrize(("told", "wanted", "words", "detail"), GPUS)
def test_gpus(told: GpusAsked, wanted: int | None, words: list[str], detail: str) -> None:
    checks = list(check_gpus(told, wanted, has_devices=False))
    assert [check.word for check in checks] == words
    assert detail in " ".join(check.detail for check in checks)
    assert all(check.remedy for check in checks if check.word != "ok")


@pytest.mark.parametrize("wanted", [None, 8])
def test_gpus_that_lastbeat_alone_cannot_ask_are_no_reason_to_refuse_a_node(wanted: int | None) -> None:
    """Nobody knows of them: that is a warning, and neither well nor ill."""
    [check] = check_gpus(GpusAsked(why="the package nvidia-ml-py is not installed"), wanted, has_devices=True)
    assert (check.word, "is unknown" in check.detail) == ("warn", True)


NOW_S = 10_000.0

XIDS = [
    pytest.param([(79, 9_900.0)], [("GPU 0: Xid 79 (the GPU has fallen off the bus)", GPU_LOST)], id="a lost GPU"),
    pytest.param(
        [(48, 9_900.0), (48, 9_950.0)],
        [("GPU 0: Xid 48 (memory error that could not be corrected), 2 times", GPU_ECC)],
        id="each kind once, with how often",
    ),
    pytest.param([(13, 9_900.0), (31, 9_950.0)], [], id="what a program caused is no fault of the GPU's"),
    pytest.param([(79, 100.0)], [], id="what was long ago is over"),
]


@pytest.mark.parametrize(("lines", "expected"), XIDS)
def test_xids_of_the_last_hour(lines: list[tuple[int, float]], expected: list[tuple[str, str]]) -> None:
    assert recent_xids([XidLine(number, "0000:3b:00", at) for number, at in lines], NOW_S, [gpu(0)]) == expected


def test_an_xid_of_a_gpu_that_the_driver_does_not_show_any_more_is_told_by_its_place() -> None:
    assert recent_xids([XidLine(79, "0000:ff:00", NOW_S)], NOW_S, [gpu(0)])[0][0].startswith("the GPU at 0000:ff:00:")


def test_a_folder_that_can_be_written_to_is_well(tmp_path: Path) -> None:
    check = check_disk(str(tmp_path))
    assert check.detail.startswith(f"{tmp_path}: ")
    assert check.name == "disk"


def test_a_path_that_cannot_be_looked_at_refuses_the_node(tmp_path: Path) -> None:
    check = check_disk(str(tmp_path / ("x" * 300)))
    assert (check.word, "name too long" in check.detail) == ("fail", True)


def test_a_whole_node(tmp_path: Path) -> None:
    """Nothing of it is there but memory, which runs out, and a port that does not come up."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 20000 kB\n", encoding="utf-8")
    port = tmp_path / "sys" / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text("2: INIT\n", encoding="utf-8")
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "nvidia0")
    log = tmp_path / "kmsg"
    log.write_text("4,1,99000000000000,-;NVRM: Xid (PCI:0000:3b:00): 79, fell off\n", encoding="utf-8")
    places = Places(tmp_path / "proc", tmp_path / "cgroup", tmp_path / "sys")

    sources = Sources(places, tmp_path / "dev", log, lambda _: asked(gpu(0)))
    found = {check.name: check for check in check_node(None, (), 1.0, sources)}

    assert {name: check.word for name, check in found.items()} == {
        "gpus": "ok", "kernel log": "warn", "memory": "warn", "network": "warn",
    }  # fmt: skip
    assert found["kernel log"].remedy == REMEDIES[GPU_LOST]
    assert found["memory"].detail == "19.5 MB of 976.6 MB of memory left"
    assert found["network"].detail == "mlx5_0/1 has a link that does not come up"
