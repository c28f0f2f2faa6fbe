"""What the kernel's files say of a node, and of the memory that training can have. What is not there is not known."""

from pathlib import Path

import pytest

from lastbeat.training.node.node import (
    Cpu,
    Memory,
    Network,
    NodeReading,
    Places,
    available_memory,
    read_disk,
    read_node,
)

STAT = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"
SNMP = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 5000 25\n"
DEV = """Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9
  eth0: 1000 10 3 7 0 0 0 0 2000 20 2 9 0 0 0 0
veth12: 1 1 5 0 0 0 0 0 1 1 5 0 0 0 0 0
"""
MEMINFO = "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 100 kB\nSwapFree: 30 kB\n"
PORT = "sys/class/infiniband/mlx5_0/ports/1"


def tree(root: Path, files: dict[str, str]) -> Places:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Places(root / "proc", root / "cgroup", root / "sys")


CPUS = [
    pytest.param({"proc/stat": STAT}, Cpu(150, 1000), id="waiting for a disk is idling"),
    pytest.param({"proc/stat": "intr 1 2 3\n"}, Cpu(), id="a file of another kind says nothing"),
    pytest.param({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/b/cpu.max": "max 100000\n",
                  "cgroup/a/cpu.max": "150000 100000\n",
                  "cgroup/a/b/cpu.stat": "usage_usec 5\nthrottled_usec 2500000\n"},
                 Cpu(limit_cores=1.5, throttled_s=2.5), id="version 2: the narrowest limit of all groups around"),
    pytest.param({"proc/self/cgroup": "4:cpu,cpuacct:/a\n", "cgroup/cpu/a/cpu.cfs_quota_us": "400000\n",
                  "cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
                  "cgroup/cpu/a/cpu.stat": "throttled_time 3000000000\n"}, Cpu(limit_cores=4.0, throttled_s=3.0),
                 id="version 1"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), CPUS)
def test_the_processor(tmp_path: Path, files: dict[str, str], expected: Cpu) -> None:
    assert read_node(tree(tmp_path, files)).cpu == expected


NETWORKS = [
    pytest.param({"proc/net/dev": DEV}, Network({"eth0": 5}), id="errors of what has a cable, and no dropped packets"),
    pytest.param({"proc/net/snmp": SNMP}, Network(sent=5000, retransmitted=25), id="segments of TCP"),
    pytest.param({"proc/net/snmp": "Tcp: A B\nTcp: 1\n"}, Network(), id="names without as many values"),
    pytest.param({f"{PORT}/state": "4: ACTIVE\n", f"{PORT}/counters/symbol_error": "3\n",
                  f"{PORT}/counters/link_downed": "1\n", f"{PORT}/counters/port_xmit_data": "99\n"},
                 Network({"mlx5_0/1": 4}), id="errors of an InfiniBand port"),
    pytest.param({f"{PORT}/state": "2: INIT\n"}, Network(down=("mlx5_0/1",)), id="a port that does not come up"),
    pytest.param({f"{PORT}/state": "1: DOWN\n", f"{PORT}/counters/symbol_error": "3\n"}, Network(),
                 id="a port without a cable is nobody's trouble"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), NETWORKS)
def test_the_network(tmp_path: Path, files: dict[str, str], expected: Network) -> None:
    assert read_node(tree(tmp_path, files)).network == expected


def test_memory_and_swap(tmp_path: Path) -> None:
    node = read_node(tree(tmp_path, {"proc/meminfo": MEMINFO}))
    assert (node.memory.available, node.memory.total) == (400 * 1024, 1000 * 1024)
    assert (node.swap_used_bytes, node.swap_total_bytes) == (70 * 1024, 100 * 1024)


def test_without_any_of_these_files_nothing_is_known_but_how_much_memory_there_is(tmp_path: Path) -> None:
    node = read_node(tree(tmp_path, {}))
    assert node == NodeReading(memory=node.memory)
    assert node.memory.available is None


def test_a_disk_is_found_by_a_folder_that_is_yet_to_be_made(tmp_path: Path) -> None:
    there, yet = read_disk(str(tmp_path)), read_disk(str(tmp_path / "checkpoints" / "run-1"))
    assert there.total_bytes == yet.total_bytes > 0
    assert 0 <= there.free_bytes <= there.total_bytes
    assert not there.read_only


G = 1 << 30
MACHINE = f"MemTotal: {64 * G // 1024} kB\nMemFree: 1 kB\nMemAvailable: {40 * G // 1024} kB\n"
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
    (processes / "meminfo").write_text(MACHINE)
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
