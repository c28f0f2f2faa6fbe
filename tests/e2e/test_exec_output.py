"""``lastbeat exec``: input and output pass through as if it were not there."""

import hashlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from support.cli import popen, run
from support.waiting import LIMIT_S, until
from support.wrapped import exec_command, left, python, settings, start_exec, watched

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
    process = int(next(line for line in out.splitlines() if line.isdigit()))
    until(lambda: not _lives(process))


def _lives(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


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
