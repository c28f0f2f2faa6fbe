"""What the kernel's files say of a node, on trees of such files; what is not there is not known."""

from pathlib import Path

import pytest

from lastbeat.training.node.node import Cpu, Network, NodeReading, Places, read_disk, read_node

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
