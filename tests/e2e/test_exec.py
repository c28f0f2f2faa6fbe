"""``lastbeat exec``: how a command ends and what is then said, its signals, its memory, its input and output."""

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lastbeat.jobs.launchers import processes
from lastbeat.watch.observe.run import innermost
from support.cgroup import memory_cgroup
from support.cli import popen, run
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, left, python, run_exec, settings, start_exec, watched

TRACE = "import sys\ndef f():\n    raise ValueError('loss is gone')\nprint('step 7/9 loss 0.5', flush=True)\nf()"


def test_an_exception_is_told_with_what_was_printed_last(tmp_path: Path) -> None:
    done = run_exec(tmp_path, *python(TRACE))
    assert done.returncode == 1
    error, log = (left(tmp_path, name) or "" for name in ("_error", "logs/training_log_latest.txt"))
    assert error.startswith("ValueError: loss is gone (exit status 1)\n")
    assert "step 7/9 loss 0.5" in error
    assert "Traceback (most recent call last):" in error
    assert "step 7/9 loss 0.5\n" in log
    assert "ValueError: loss is gone\n" in log
    assert left(tmp_path, "_complete") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"], said["cause"]) == ("FAILED", 1, "exception")
    assert error.splitlines()[0] in said["reason"]
    assert (said["step"], said["total_steps"]) == (7, 9)


def test_exit_0_is_a_success_also_of_a_second_attempt(tmp_path: Path) -> None:
    run_exec(tmp_path, "false")
    assert watched(tmp_path)["status"] == "FAILED"
    done = run_exec(tmp_path, "sh", "-c", "echo fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert left(tmp_path, "_complete") == ""
    assert left(tmp_path, "_error") is None
    said = watched(tmp_path)
    assert (said["status"], said["attempt"]) == ("SUCCEEDED", 2)


def _file(folder: Path, text: str, mode: int) -> Path:
    path = folder / "it's a script.sh"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


NOT_STARTED = [
    pytest.param("no-such-command", None, 0, 127, "command not found", id="no such command"),
    pytest.param("./it's a script.sh", "#!/bin/sh\n", 0o644, 126, "permission denied", id="not executable"),
    pytest.param("./it's a script.sh", "#!/no/such/sh\n", 0o755, 126, "interpreter", id="a missing interpreter"),
    pytest.param("./", None, 0, 126, "directory", id="a folder"),
]


@pytest.mark.parametrize(("command", "text", "mode", "status", "why"), NOT_STARTED)
def test_what_cannot_be_started(
    tmp_path: Path, command: str, text: str | None, mode: int, status: int, why: str
) -> None:
    if text is not None:
        _file(tmp_path, text, mode)
    done = run_exec(tmp_path, command)
    assert done.returncode == status
    assert why in done.stderr
    assert why in (left(tmp_path, "_error") or "").splitlines()[0]
    assert watched(tmp_path)["status"] == "FAILED"


def test_a_fault_in_the_environment_leaves_training_unwatched_and_alone(tmp_path: Path) -> None:
    done = run_exec(tmp_path, "sh", "-c", "echo trained", MONITORING_ROOT="ftp://b/p")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "nothing watches this command, which runs all the same: MONITORING_ROOT='ftp://b/p'" in done.stderr


def test_a_script_without_its_first_line_is_run_as_shells_run_it(tmp_path: Path) -> None:
    path = _file(tmp_path, 'echo "got $1"; exit 4\n', 0o755)
    done = run_exec(tmp_path, str(path), "an argument")
    assert (done.returncode, done.stdout) == (4, "got an argument\n")


BELOW = """
import subprocess
print("loading", flush=True)
subprocess.run(["sleep", "600"])
"""


def test_a_hang_is_shown_where_it_is(tmp_path: Path) -> None:
    waits = " sleep: sleeping in "
    environment = settings(tmp_path, LASTBEAT_STALL_MINUTES="0.02")
    command = exec_command(*python(BELOW))
    null = subprocess.DEVNULL
    with popen(
        command, cwd=tmp_path, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    ) as process:
        try:
            told = until(lambda: left(tmp_path, "logs/stacks.txt") or "", lambda told: waits in told)
            assert told.startswith("No new output for "), told
            assert any(waits in line for line in innermost(told)), told
            assert process.poll() is None, "nobody stopped the command"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


# Not print(): a handler may interrupt another's.
TELLS = """
import os, signal, sys, time
def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b'\\n')
    if number == signal.SIGTERM: sys.exit(42)
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCONT,
               signal.SIGWINCH, signal.SIGTERM):
    signal.signal(number, tell)
os.write(1, b'ready\\n')
# Not pause(): a signal that comes just before it would be told of only after the next.
while True: time.sleep(0.05)
"""


def _ready(wrapper: "subprocess.Popen[bytes]") -> None:
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == b"ready\n"


def test_signals_are_passed_on_one_by_one(tmp_path: Path) -> None:
    wrapper = start_exec(tmp_path, *python(TELLS))
    _ready(wrapper)
    assert wrapper.stdout is not None
    for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGCONT", "SIGWINCH", "SIGINT"):
        os.kill(wrapper.pid, signal.Signals[name])
        assert wrapper.stdout.readline() == name.encode() + b"\n"
    os.kill(wrapper.pid, signal.SIGTERM)
    assert wrapper.communicate(timeout=LIMIT_S)[0] == b"SIGTERM\n"
    assert wrapper.returncode == 42


ENDINGS = [
    pytest.param(signal.SIGTERM, "SIGTERM", id="SIGTERM"),
    pytest.param(signal.SIGINT, "SIGINT, KeyboardInterrupt", id="SIGINT"),
]


@pytest.mark.parametrize(("number", "name"), ENDINGS)
def test_a_signal_that_ends_it_is_a_cancelled_run(tmp_path: Path, number: signal.Signals, name: str) -> None:
    wrapper = start_exec(tmp_path, "sh", "-c", "echo ready; exec sleep 1000")
    _ready(wrapper)
    os.kill(wrapper.pid, number)
    wrapper.communicate(timeout=LIMIT_S)
    assert wrapper.returncode == -number, "shells and schedulers see what they would have seen"
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert first.startswith("Cancelled: ")
    assert f"received signal {int(number)} ({name}); sh was killed by" in first
    # A person presses Ctrl-C; other signals are a scheduler's.
    assert watched(tmp_path)["status"] == ("CANCELLED" if number == signal.SIGINT else "FAILED")
    assert watched(tmp_path)["cause"] == "cancelled"


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    wrapper = start_exec(
        tmp_path, "sh", "-c", "echo ready; read line; exit 5",
        stdin=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    _ready(wrapper)
    os.kill(wrapper.pid, signal.SIGHUP)
    wrapper.communicate(b"\n", timeout=LIMIT_S)
    assert wrapper.returncode == 5, "as under nohup"


def test_a_kill_of_the_whole_group_reaches_the_command_once(tmp_path: Path) -> None:
    source = TELLS.replace("if number == signal.SIGTERM: sys.exit(42)", "signal.alarm(1)").replace(
        "os.write(1, b'ready", "signal.signal(signal.SIGALRM, lambda *_: sys.exit(43))\nos.write(1, b'ready"
    )
    wrapper = start_exec(tmp_path, *python(source), start_new_session=True)
    _ready(wrapper)
    os.killpg(wrapper.pid, signal.SIGTERM)
    assert wrapper.communicate(timeout=LIMIT_S)[0] == b"SIGTERM\n"
    assert wrapper.returncode == 43


def test_a_wrapper_that_is_killed_leaves_a_run_that_times_out(tmp_path: Path) -> None:
    wrapper = start_exec(tmp_path, "sh", "-c", "echo $$; exec sleep 1000")
    assert wrapper.stdout is not None
    child = int(wrapper.stdout.readline())
    until(lambda: "training" in (left(tmp_path, "metadata.json") or ""))
    assert watched(tmp_path)["status"] == "RUNNING"
    os.kill(wrapper.pid, signal.SIGKILL)
    wrapper.wait(LIMIT_S)
    last = json.loads(left(tmp_path, "metadata.json") or "")["last_update"]
    until(lambda: watched(tmp_path, "--stale-minutes", "0.01")["status"] == "TIMED_OUT")
    assert json.loads(left(tmp_path, "metadata.json") or "")["last_update"] == last
    assert (left(tmp_path, "_error"), left(tmp_path, "_complete")) == (None, None)
    os.kill(child, signal.SIGKILL)
    wrapper.communicate()


LIMIT_BYTES = 160 * 1024 * 1024
EATS = """
print('eats', flush=True)
whole = []
for _ in range(256): whole.append(b'x' * 4 * 1024 * 1024)
print('had enough')
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    with memory_cgroup(LIMIT_BYTES) as folder:
        yield folder


def test_the_oom_killer_is_named(tmp_path: Path, cgroup: Path) -> None:
    # As in a job or a container: both are in the group, and the kernel takes the larger one.
    wrapper = start_exec(
        tmp_path, *python(EATS), preexec_fn=lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    )
    out, err = wrapper.communicate(timeout=LIMIT_S)
    assert (wrapper.returncode, out, err) == (-signal.SIGKILL, b"eats\n", b"")
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert "the kernel's OOM killer (oom-kill) killed it" in first
    said = watched(tmp_path)
    assert (said["status"], said["cause"]) == ("FAILED", "oom")
    assert "memory" in said["action"]


def test_a_group_that_the_command_moves_to_counts_as_well(tmp_path: Path, cgroup: Path) -> None:
    # exec looks once a second where its command is.
    script = f'echo $$ > "{cgroup}/cgroup.procs"; sleep 5; "$@"; exit $?'
    done = run_exec(tmp_path, "sh", "-c", script, "sh", *python(EATS))
    assert done.returncode == 128 + signal.SIGKILL
    first = (left(tmp_path, "_error") or "").splitlines()[0]
    assert "exit status 137" in first
    assert "OOM killer (oom-kill)" in first
    assert watched(tmp_path)["cause"] == "oom"


MANY = 3 * 1024 * 1024
# Every byte there is, in pieces of odd sizes, the same on stderr but turned round.
NOISE = f"""
import os, random
pieces = random.Random(1)
data = bytes(pieces.randrange(256) for _ in range(64 * 1024)) * {MANY // (64 * 1024)}
for stream, whole in ((1, data), (2, data[::-1])):
    at = 0
    while at < len(whole):
        at += os.write(stream, whole[at : at + pieces.choice((1, 77, 4096, 70001))])
"""


def piped(folder: Path, *command: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return run(exec_command(*command), data=data, cwd=folder, env=settings(folder))


def test_megabytes_of_anything_arrive_byte_by_byte_and_apart(tmp_path: Path) -> None:
    plain = subprocess.run(python(NOISE), capture_output=True, timeout=LIMIT_S, check=True)
    done = piped(tmp_path, *python(NOISE))
    assert done.returncode == 0
    for ours, theirs in ((done.stdout, plain.stdout), (done.stderr, plain.stderr)):
        assert len(ours) == MANY
        assert hashlib.sha256(ours).digest() == hashlib.sha256(theirs).digest()
    assert watched(tmp_path)["status"] == "SUCCEEDED"


def test_input_passes(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    assert piped(tmp_path, "cat", data=data).stdout == data


def test_what_the_command_uses_is_reported(tmp_path: Path) -> None:
    # It ends with the shell that started it, which alone is told to.
    source = "import os\nwhole, shell = b'x' * 60_000_000, os.getppid()\nwhile os.getppid() == shell: pass"
    wrapper = start_exec(tmp_path, "sh", "-c", '"$@"; exit $?', "sh", *python(source))

    def used() -> dict[str, float]:
        found: dict[str, float] = json.loads(left(tmp_path, "metadata.json") or "{}").get("resources", {})
        return found

    try:
        until(lambda: used().get("cpu", 0) > 0 and used().get("rss_bytes", 0) > 60_000_000)
    finally:
        wrapper.send_signal(signal.SIGTERM)
        wrapper.communicate(timeout=LIMIT_S)
    assert "rss_bytes" not in used(), "of a command that has ended nothing is known"
    assert used()["memory_total_bytes"] > 0


def test_what_is_printed_is_seen_at_once(tmp_path: Path) -> None:
    wrapper = start_exec(tmp_path, "sh", "-c", "printf 'no newline'; read answer", stdin=subprocess.PIPE)
    assert wrapper.stdout is not None
    assert os.read(wrapper.stdout.fileno(), 100) == b"no newline"
    wrapper.communicate(b"\n", timeout=LIMIT_S)
    assert wrapper.returncode == 0


def test_a_reader_that_is_slow_slows_the_command_and_loses_nothing(tmp_path: Path) -> None:
    source = "import os\nfor i in range(40): os.write(1, b'%07d\\n' % i * 10000)\nos._exit(5)"
    wrapper = start_exec(tmp_path, *python(source))
    assert wrapper.stdout is not None
    got = b""
    while piece := os.read(wrapper.stdout.fileno(), 200_000):
        got += piece
        time.sleep(0.005)
    assert got == b"".join(b"%07d\n" % i * 10000 for i in range(40))
    assert wrapper.wait(LIMIT_S) == 5
    wrapper.communicate()


def test_a_reader_that_leaves_ends_the_command_as_it_would_have(tmp_path: Path) -> None:
    line = " ".join(f"'{word}'" for word in exec_command("yes"))
    done = subprocess.run(
        ["bash", "-c", f"{line} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        env=settings(tmp_path), cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert done.stdout == b"y\n%d\n" % (128 + signal.SIGPIPE)
    assert "SIGPIPE" in (left(tmp_path, "_error") or "")


def test_what_a_command_leaves_running_holds_nobody_up_for_long(tmp_path: Path) -> None:
    wrapper = start_exec(
        tmp_path, "sh", "-c", "echo begun; (while :; do echo still; sleep 0.1; done) & echo $! ; exit 6"
    )
    out, _ = wrapper.communicate(timeout=LIMIT_S)
    assert wrapper.returncode == 6
    assert out.startswith(b"begun\n")
    assert "ended with exit status 6" in (left(tmp_path, "_error") or "")
    # Whoever goes on printing gets a SIGPIPE from then on, as from any pipe whose reader left.
    process = processes.identity(int(next(line for line in out.splitlines() if line.isdigit())))
    until(lambda: process is None or not processes.lives(process))


def test_a_store_that_hangs_changes_nothing_but_the_report(tmp_path: Path) -> None:
    # A server that takes connections and never answers.
    import socket  # noqa: PLC0415 - for this alone

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
        wrapper = popen(
            exec_command("sh", "-c", "echo begun; exit 9", options=("--bucket", "runs")),
            env=settings(tmp_path, AWS_ENDPOINT_URL=endpoint, **keys),
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert wrapper.stdout is not None
        assert os.read(wrapper.stdout.fileno(), 100) == b"begun\n", "the command does not wait for the store"
        assert wrapper.poll() is None, "the end waits for its sentinel"
        _, err = wrapper.communicate(timeout=LIMIT_S)
    assert wrapper.returncode == 9
    assert b"could not write how sh ended" in err


SURROUNDINGS = """
import json, os, signal
ignored = [int(number) for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN]
held_back = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print(json.dumps([dict(os.environ), ignored, held_back, os.getcwd(), sorted(os.listdir('/proc/self/fd'))]))
"""


def test_the_command_finds_everything_as_it_would_have(tmp_path: Path) -> None:
    plain = subprocess.run(
        python(SURROUNDINGS),
        env=settings(tmp_path), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=True,
    )  # fmt: skip
    wrapper = start_exec(tmp_path, *python(SURROUNDINGS))
    found = json.loads(wrapper.communicate(timeout=LIMIT_S)[0])
    # But for what tells the SDK in the command that its end is seen already.
    assert found[0].pop("_LASTBEAT_EXEC_RUN") == "run-1"
    # And what has PyTorch record its collectives.
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT"):
        assert found[0].pop(name).isdecimal()
    assert found[0].pop("TORCH_FR_DUMP_TEMP_FILE") == f"{tmp_path}/runs/run-1/flight/rank_"
    assert found == json.loads(plain.stdout)


def test_streams_that_are_closed_stay_closed(tmp_path: Path) -> None:
    script = 'for n in 0 1 2; do test -e /proc/$$/fd/$n && open="$open$n"; done; echo "open: $open" > found; exit 8'
    line = " ".join(f'"{word}"' for word in exec_command("sh", "open.sh"))
    (tmp_path / "open.sh").write_text(script, encoding="utf-8")
    closed = ["bash", "-c", f"{line} <&- >&- 2>&-"]
    done = subprocess.run(closed, env=settings(tmp_path), cwd=tmp_path, timeout=LIMIT_S, check=False)
    ours, status = (tmp_path / "found").read_text(), done.returncode
    subprocess.run(["bash", "-c", "sh open.sh <&- >&- 2>&-"], cwd=tmp_path, timeout=LIMIT_S, check=False)
    assert (ours, status) == ((tmp_path / "found").read_text(), 8)
