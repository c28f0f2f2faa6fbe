"""``lastbeat exec --max-restarts`` on several nodes: they are ended and started again together."""

import os
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cli import popen
from support.started_in_place import by_start, document
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, left, settings, watched

OPTIONS = ("--max-restarts", "1", "--grace", "2")
DEFAULT = ("--policy", "default")


NODE = """
node = sys.argv[1]
with open(f"starts-{node}", "a") as file: print(n, file=file)
print("step 7/100 loss 2.5", file=sys.stderr)
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.05)
"""


def on_nodes(
    folder: Path, script: str, *nodes: int, of: int = 2, policy: tuple[str, ...] = DEFAULT
) -> list["subprocess.Popen[bytes]"]:
    """``exec`` of ``script`` on each of these nodes; it may ask for its ``node``."""
    command = by_start(NODE + textwrap.dedent(script))
    found = []
    for node in nodes:
        options = (*OPTIONS, *policy, "--nodes", f"{of}", "--node-rank", f"{node}", "--launch-id", "job-1")
        with (folder / f"stderr-{node}").open("wb") as errors:
            found.append(
                popen(
                    exec_command(*command, f"{node}", options=options),
                    cwd=folder,
                    env=settings(folder),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    start_new_session=True,
                )
            )
    return found


def on_node(folder: Path, node: int) -> list[int]:
    path = folder / f"starts-{node}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


@contextmanager
def ended(processes: list["subprocess.Popen[bytes]"]) -> Iterator[None]:
    """Kills in the end what still runs of them."""
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def told(folder: Path, nodes: int = 2) -> str:
    return "\n".join((folder / f"stderr-{node}").read_text() for node in range(nodes))


def test_two_nodes_start_again_together(tmp_path: Path) -> None:
    script = """
    if n == 0 and node == "1":
        wait_for("starts-0")
        sys.exit("RuntimeError: NCCL error: unhandled system error")
    if n == 0:
        time.sleep(600)
    """
    processes = on_nodes(tmp_path, script, 0, 1)
    with ended(processes):
        assert [process.wait(LIMIT_S) for process in processes] == [0, 0], told(tmp_path)
    assert (on_node(tmp_path, 0), on_node(tmp_path, 1)) == ([0, 1], [0, 1])
    assert left(tmp_path, "_error") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("SUCCEEDED", 2)
    starts_made = document(tmp_path, "in_place.json")
    assert (starts_made["number"], len(starts_made["restarts"])) == (1, 1), "both know of one restart"


def test_a_failure_that_is_not_restarted_ends_all_nodes(tmp_path: Path) -> None:
    script = """
    if node == "1":
        wait_for("starts-0")
        sys.exit("torch.OutOfMemoryError: CUDA out of memory.")
    time.sleep(600)
    """
    processes = on_nodes(tmp_path, script, 0, 1, policy=())
    with ended(processes):
        assert [process.wait(LIMIT_S) for process in processes] == [1, 1], told(tmp_path)
    assert (on_node(tmp_path, 0), on_node(tmp_path, 1)) == ([0], [0])
    assert (left(tmp_path, "_error") or "").startswith("torch.OutOfMemoryError: CUDA out of memory.")
    said = watched(tmp_path)
    assert (said["status"], said["cause"], said["attempt"]) == ("FAILED", "oom", 1)


def test_a_signal_to_one_node_ends_all(tmp_path: Path) -> None:
    processes = on_nodes(tmp_path, "time.sleep(600)", 0, 1)
    with ended(processes):
        until(lambda: (on_node(tmp_path, 0), on_node(tmp_path, 1)) == ([0], [0]))
        until(lambda: document(tmp_path, "metadata.json").get("attempt") == 1)
        processes[1].send_signal(signal.SIGTERM)
        assert [process.wait(LIMIT_S) for process in processes] == [1, -signal.SIGTERM], told(tmp_path)
    assert (on_node(tmp_path, 0), on_node(tmp_path, 1)) == ([0], [0])
    assert "received signal 15 (SIGTERM)" in (left(tmp_path, "_error") or "")
