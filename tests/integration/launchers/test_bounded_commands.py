"""A policy's command has a time limit, and bounds on its output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat.jobs.supervision import bounded

LIMIT_S = 60


def run(limit_s: float, *command: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-I", bounded.__file__, f"{limit_s:g}", "--", *command],
        cwd=cwd,
        env={**os.environ, **more},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (("sh", "-c", "echo out; echo err >&2; exit 3"), 3, b"out\nerr\n"),
        (("sh", "-c", "kill -9 $$"), 137, b""),
        (("no-such-program",), 127, b"no-such-program: No such file or directory\n"),
        (("/etc",), 126, b"/etc: Permission denied\n"),
        (("printf", "%s|", "a b", "$(touch x)", "; rm -rf /", "*"), 0, b"a b|$(touch x)|; rm -rf /|*|"),
    ],
)
def test_how_it_ends_and_what_it_says(tmp_path: Path, command: tuple[str, ...], status: int, said: bytes) -> None:
    done = run(LIMIT_S, *command, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, said, b"")
    assert list(tmp_path.iterdir()) == []


def test_it_is_ended_after_its_limit(tmp_path: Path) -> None:
    done = run(0.3, "sh", "-c", "echo begun; exec sleep 600", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (124, b"begun\n\nlastbeat: ended after its limit of 0.3 s\n")


def test_of_endless_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    print_much = "import sys; sys.stdout.write('first\\n' + 'x' * 5_000_000 + '\\nlast\\n')"
    done = run(LIMIT_S, sys.executable, "-c", print_much, cwd=tmp_path)
    assert (done.returncode, done.stdout[:6], done.stdout[-6:]) == (0, b"first\n", b"\nlast\n")
    assert b"bytes left out]" in done.stdout
    assert len(done.stdout) < 2 * bounded.KEPT_BYTES + 100


def test_it_is_not_taken_for_the_run_that_it_is_run_for(tmp_path: Path) -> None:
    done = run(LIMIT_S, "sh", "-c", "env", cwd=tmp_path, LASTBEAT_RUN_ID="run", LASTBEAT_ATTEMPT="2", KEPT="yes")
    assert b"KEPT=yes" in done.stdout
    assert b"LASTBEAT_RUN_ID" not in done.stdout
    assert b"LASTBEAT_ATTEMPT" not in done.stdout


def test_what_goes_on_beside_it_keeps_nobody_waiting(tmp_path: Path) -> None:
    done = run(LIMIT_S, "sh", "-c", "(sleep 5 &) ; echo done", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"done\n")
