"""How much memory training can have, as the kernel's files tell it."""

from pathlib import Path

import pytest

from lastbeat.training.node.node import Memory, available_memory

G = 1 << 30
MEMINFO = f"MemTotal: {64 * G // 1024} kB\nMemFree: 1 kB\nMemAvailable: {40 * G // 1024} kB\n"
V1, V2 = "4:cpu,memory:{0}\n1:cpuset:/\n", "0::{0}\n"


def v2(limit: object, current: object, cached: int = 0) -> dict[str, str]:
    return {
        "memory.max": f"{limit}\n",
        "memory.current": f"{current}\n",
        "memory.stat": f"inactive_file {cached // 2}\nactive_file {cached // 2}\n",
    }


def v1(limit: object, usage: object, cached: int = 0) -> dict[str, str]:
    return {
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.usage_in_bytes": f"{usage}\n",
        "memory.stat": f"cache 5\ntotal_inactive_file {cached // 2}\ntotal_active_file {cached // 2}\n",
    }


CASES = [
    pytest.param("", {}, Memory(40 * G, 64 * G), id="no cgroups: the machine's"),
    pytest.param(V2.format("/job"), {"job": v2(8 * G, 6 * G, G)}, Memory(3 * G, 8 * G),
                 id="a group's limit; caches count as free"),
    pytest.param(V2.format("/job"), {"job": v2("max", 6 * G)}, Memory(40 * G, 64 * G), id="a group without a limit"),
    pytest.param(V2.format("/pod/job"), {"pod": v2(4 * G, 3 * G), "pod/job": v2("max", G)}, Memory(G, 4 * G),
                 id="the limit of a group around it"),
    pytest.param(V2.format("/job"), {"job": v2(G, 2 * G)}, Memory(0, G), id="above its limit there is nothing left"),
    pytest.param(V2.format("/job"), {"unified/job": v2(G, 0)}, Memory(G, G), id="version 2 beside version 1"),
    pytest.param(V1.format("/job"), {"memory/job": v1(8 * G, 5 * G, G)}, Memory(4 * G, 8 * G), id="version 1"),
    pytest.param(V1.format("/docker/abc"), {"memory": v1(8 * G, G)}, Memory(7 * G, 8 * G),
                 id="a container that sees its own only"),
    pytest.param(V2.format("/job"), {"job": {"memory.max": f"{G}"}}, Memory(40 * G, G),
                 id="a limit whose use nobody tells"),
    pytest.param(V2.format("/../../etc"), {}, Memory(40 * G, 64 * G), id="a path that leads elsewhere"),
    pytest.param("nonsense\n::\n0::\n", {}, Memory(40 * G, 64 * G), id="lines that nobody understands"),
]  # fmt: skip


@pytest.mark.parametrize(("cgroup", "groups", "expected"), CASES)
def test_memory(tmp_path: Path, cgroup: str, groups: dict[str, dict[str, str]], expected: Memory) -> None:
    processes, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (processes / "self").mkdir(parents=True)
    (processes / "meminfo").write_text(MEMINFO)
    (processes / "self" / "cgroup").write_text(cgroup)
    for name, files in groups.items():
        (cgroups / name).mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (cgroups / name / file).write_text(text)
    assert available_memory(cgroups, processes) == expected


def test_without_proc_the_system_says_how_much_there_is(tmp_path: Path) -> None:
    found = available_memory(tmp_path, tmp_path)
    assert found.available is None
    assert found.total is None or found.total > 1 << 20
