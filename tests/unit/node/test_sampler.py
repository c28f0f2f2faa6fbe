"""What a sample puts into metadata.json, from trees of the kernel's files; what is not known is left out."""

import threading
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lastbeat.model.health import NODE_HEALTH
from lastbeat.training.node.judging import NodeJudge
from lastbeat.training.node.node import Places
from lastbeat.training.node.sampler import NodeSampler, activity_of
from lastbeat.training.sdk.run import Run

FILES = {
    "proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 900000 kB\nSwapTotal: 100 kB\nSwapFree: 30 kB\n",
    "proc/stat": "cpu  100 0 50 800 50 0 0 0\n",
    "proc/self/cgroup": "0::/job\n",
    "cgroup/job/cpu.max": "150000 100000\n",
    "cgroup/job/cpu.stat": "throttled_usec 2500000\n",
    "proc/net/dev": "eth0: 1 1 3 0 0 0 0 0 1 1 2 0 0 0 0 0\n",
    "proc/net/snmp": "Tcp: OutSegs RetransSegs\nTcp: 5000 25\n",
}


def sampled(root: Path, files: dict[str, str]) -> dict[str, Any]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    places = Places(root / "proc", root / "cgroup", root / "sys")
    sampler = NodeSampler(30.0, [str(root)], places, root / "kmsg")
    told = dict(sampler.sample(Run("r", None, 10)) or {})
    assert sampler.sample(Run("r", None, 10)) == told, "the next sample is not due yet"
    sampler.close()
    return told


def test_what_the_kernel_counts_is_told(tmp_path: Path) -> None:
    told = sampled(tmp_path, FILES)
    expected = {
        "conditions": [], "swap_used_bytes": 70 * 1024, "swap_total_bytes": 100 * 1024, "cpu_limit": 1.5,
        "cpu_throttled_s": 2.5, "network_errors": {"eth0": 5}, "tcp_sent": 5000, "tcp_retransmitted": 25,
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected
    Draft202012Validator(NODE_HEALTH.schema).validate(told)
    (disk,) = told["disks"]
    assert disk["path"] == str(tmp_path)


def test_a_file_system_that_hangs_hides_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def hang(path: str) -> None:
        answers.wait(30)
        raise OSError(path)

    monkeypatch.setattr("lastbeat.training.node.sampler.read_disk", hang)
    told = sampled(tmp_path, FILES)
    answers.set()
    assert told["cpu_limit"] == 1.5
    assert "disks" not in told


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    told = sampled(tmp_path, {})
    assert set(told) == {"sampled_at", "conditions", "disks", "history"}
    Draft202012Validator(NODE_HEALTH.schema).validate(told)


def test_where_nobody_says_where_checkpoints_are_saved_no_disk_is_worth_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []
    monkeypatch.setattr(NodeJudge, "judge", lambda _, look: judged.append(len(look.node.disks)) or [])
    for saves_there in (True, False):
        sampler = NodeSampler(30.0, [str(tmp_path)], kernel_log=tmp_path / "kmsg", saves_there=saves_there)
        told = sampler.sample(Run("r", None, 10)) or {}
        sampler.close()
        assert told["disks"], "drawn in any case"
    assert judged == [1, 0]


PLACES = [
    pytest.param(0, None, False, id="before its first step it may load and compile"),
    pytest.param(0, "step", True, id="unless it says that it is in a step"),
    pytest.param(3, None, True, id="after it, GPUs should be busy"),
    pytest.param(3, "checkpointing", False, id="not while a checkpoint is saved"),
    pytest.param(3, "evaluation", False, id="nor while it evaluates"),
]


@pytest.mark.parametrize(("steps", "section", "computes"), PLACES)
def test_where_gpus_should_be_busy(steps: int, section: str | None, computes: bool) -> None:
    run = Run("r", None, 10)
    for step in range(steps):
        run.step(step)
    if section is None:
        assert activity_of(run).computes is computes
        return
    with run.section(section):
        assert activity_of(run).computes is computes
