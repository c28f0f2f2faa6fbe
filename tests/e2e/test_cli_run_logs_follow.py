"""``lastbeat logs -f``: what comes is printed as it comes, once, whatever is done to the files."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from support.cli import LASTBEAT, RunFolder, start
from support.proxy import FaultProxy, Reset
from support.s3 import S3Server
from support.waiting import LIMIT_S

if TYPE_CHECKING:
    import subprocess

LOG = "logs/training_log_latest.txt"
FAST = ["--interval", "0.1"]


class Tail:
    """A process whose output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self.said: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=each)
            for each in ((process.stdout, self.lines), (process.stderr, self.said))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], into: list[str]) -> None:
        with stream:
            into.extend(line.rstrip("\n") for line in stream)

    def until(self, line: str, among: list[str] | None = None) -> None:
        """Wait until a line with this in it was printed."""
        among = self.lines if among is None else among
        end = time.monotonic() + LIMIT_S
        while not any(line in each for each in list(among)):
            assert time.monotonic() < end, (line, self.lines, self.said)
            assert self.process.poll() is None or any(line in each for each in list(among)), (self.lines, self.said)
            time.sleep(0.02)

    def ended(self) -> int:
        code = self.process.wait(LIMIT_S)
        for reader in self._readers:
            reader.join(LIMIT_S)
        return code


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "training-runs", "my-run")
    folder.metadata()
    return folder


@pytest.fixture
def tails() -> Iterator[list[Tail]]:
    begun: list[Tail] = []
    yield begun
    for tail in begun:
        tail.process.kill()
        tail.ended()


def follow(run: RunFolder, tails: list[Tail], *arguments: str, **settings: Any) -> Tail:
    process = start(LASTBEAT, "logs", run.run_id, "-f", *FAST, *arguments, cwd=run.root.parent, **settings)
    tails.append(Tail(process))
    return tails[-1]


def add(run: RunFolder, text: str, name: str = LOG) -> None:
    with (run.path / name).open("a") as log:
        log.write(text)


def test_lines_come_as_they_are_written_and_it_ends_with_the_run(run: RunFolder, tails: list[Tail]) -> None:
    run.put(LOG, "".join(f"old {number}\n" for number in range(100)))
    tail = follow(run, tails, "-n", "2")
    tail.until("old 99")
    for number in range(3):
        add(run, f"new {number}\n")
        tail.until(f"new {number}")
    add(run, "no end")
    run.put("_complete")
    assert tail.ended() == 0
    assert tail.lines == ["old 98", "old 99", "new 0", "new 1", "new 2", "no end"]
    assert "the run is over: SUCCEEDED" in tail.said[-1]


def test_with_a_capital_letter_it_goes_on_with_the_next_attempt(run: RunFolder, tails: list[Tail]) -> None:
    run.put(LOG, "first\n")
    run.put("_error", "boom")
    tail = follow(run, tails, "-F")
    tail.until("first")
    # As long as another one needs to find out that the run is over, and to leave.
    assert follow(run, tails).ended() == 0
    add(run, "second\n")
    tail.until("second")


def test_ctrl_c_ends_it_without_a_word(run: RunFolder, tails: list[Tail]) -> None:
    run.put(LOG, "a\n")
    tail = follow(run, tails)
    tail.until("a")
    add(run, "b\n")
    # Now it follows, and imports nothing any more: what a Ctrl-C becomes there is a matter of tests of the frame.
    tail.until("b")
    tail.process.send_signal(signal.SIGINT)
    # A shell calls both 130; which it is depends on what the interpreter was just about to do.
    assert (tail.ended() in {130, -signal.SIGINT}, tail.said) == (True, [])


def test_it_ends_when_its_reader_leaves_though_nothing_comes(run: RunFolder) -> None:
    run.put(LOG, "a\n")
    process = start(LASTBEAT, "logs", "my-run", "-f", *FAST, cwd=run.root.parent)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "a\n"
    process.stdout.close()
    try:
        assert process.wait(LIMIT_S) == 128 + signal.SIGPIPE
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.stderr.close()


def test_a_bucket_is_followed_and_faults_in_between_are_survived(
    tmp_path: Path, s3_server: S3Server, fault_proxy: FaultProxy, tails: list[Tail]
) -> None:
    bucket = s3_server.bucket()
    run = RunFolder(tmp_path / "nothing-here", "my-run")

    def put(name: str, text: str) -> None:
        s3_server.client().put_object(Bucket=bucket, Key=f"training-runs/my-run/{name}", Body=text.encode())

    put("metadata.json", "{}")
    put(LOG, "first\n")
    settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}
    tail = follow(run, tails, "--bucket", bucket, **settings)
    tail.until("first")
    fault_proxy.inject(Reset())
    put(LOG, "first\nsecond\n")
    tail.until("it is tried again", tail.said)
    fault_proxy.clear()
    tail.until("second")
    # The fault met the listing, the log or both.
    tail.until("can be read again", tail.said)
    put("_complete", "")
    assert tail.ended() == 0
    assert tail.lines == ["first", "second"]
