"""How a process ended that is somebody else's child."""

import os
import select
import signal
import subprocess
import sys

import pytest

from lastbeat.training.guardian.process import Process
from support.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guardians are for Linux alone")

ENDS = [
    pytest.param("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, id="SIGKILL"),
    pytest.param(
        "import os, threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); os._exit(4)",
        4,
        id="with a thread that went on",
    ),
]


def _started(script: str) -> "subprocess.Popen[bytes]":
    """A process that goes on once its standard input is closed."""
    code = f"import sys; sys.stdin.read(); {script}"
    return subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)


def _end(child: "subprocess.Popen[bytes]") -> None:
    assert child.stdin is not None
    child.stdin.close()


@pytest.mark.parametrize(("script", "status"), ENDS)
def test_an_end_that_its_parent_has_not_seen_yet(script: str, status: int) -> None:
    with _started(script) as child:
        process = Process(child.pid)
        assert not process.ended()
        assert process.pidfd is not None
        _end(child)
        assert select.select([process.pidfd], [], [], 60)[0]
        assert process.ended()
        found = process.wait_status()
        assert found is not None
        assert os.waitstatus_to_exitcode(found) == status
        process.close()


@pytest.mark.parametrize(("script", "status"), ENDS)
def test_an_end_that_its_parent_has_seen_is_known_or_not_but_never_wrong(script: str, status: int) -> None:
    with _started(script) as child:
        process = Process(child.pid)
        _end(child)
        assert child.wait(LIMIT_S) == status
        assert process.ended()
        found = process.wait_status()
        # Kernels before 6.15 forget it.
        assert found is None or os.waitstatus_to_exitcode(found) == status
        process.close()


def test_an_end_that_is_waited_for_closely_is_seen_before_its_parent_sees_it() -> None:
    with _started("import os; os._exit(3)") as child:
        process = Process(child.pid)
        _end(child)
        process.catch_end()
        assert process.wait_status() in {3 << 8, None}
        process.close()


def test_a_process_that_is_gone_has_ended_nobody_knows_how() -> None:
    with _started("pass") as child:
        _end(child)
        child.wait(LIMIT_S)
    process = Process(child.pid)
    assert (process.pidfd, process.ended(), process.wait_status()) == (None, True, None)
    process.close()
