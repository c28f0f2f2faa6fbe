"""``lastbeat logs``: the end of a run's log, printed, searched, listed, and followed."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call, environment, popen, start
from support.proxy import FaultProxy, Reset, s3_error
from support.s3 import S3Server
from support.waiting import LIMIT_S, until

LOG = "logs/training_log_latest.txt"
LINES = [f"step {number}/1000 loss 2.5" for number in range(1, 201)]
STEPS = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "training-runs", "my-run")
    folder.metadata()
    return folder


def logs(run: RunFolder, *arguments: str, **settings: str) -> tuple[int, str, str]:
    done = call(LASTBEAT, "logs", run.run_id, *arguments, cwd=run.root.parent, **settings)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "lines"),
    [
        pytest.param(STEPS, [], LINES[-40:], id="forty lines where nothing is said"),
        pytest.param(STEPS, ["-n", "3"], LINES[-3:], id="as many as asked for"),
        pytest.param(STEPS, ["--grep", "LOSS", "-i", "-n", "2"], LINES[-2:], id="the last of what is looked for"),
        pytest.param(
            f"{'x' * 90_000} needle\n", ["--grep", "^x.{0,9}$|needle", "--json"], None, id="far in a long line"
        ),
    ],
)
def test_which_lines_are_printed(run: RunFolder, text: str, arguments: list[str], lines: list[str] | None) -> None:
    run.put(LOG, text)
    code, shown, said = logs(run, *arguments)
    assert (code, said) == (0, "")
    if lines is not None:
        assert shown.split("\n")[:-1] == lines
    else:
        assert json.loads(shown)["text"].endswith("needle")


def test_hostile_text_is_printed_harmlessly(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "a=b@c:d+1")
    run.metadata()
    run.put(LOG, "\x1b[2J\x1b[31mred\x1b[0m \x1b]0;owned\x07\x9b31m \u202egnp\x00.exe\n\xff\n")
    run.put("logs/\x1b[31mrank3.log", "from a file with an odd name\n")
    for arguments in (["--file", "*"], ["--list"], ["--file", "*", "--json"], ["--list", "--json"]):
        code, shown, _ = logs(run, *arguments)
        assert code == 0
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\x00"} & set(shown)
    assert "red" in logs(run, "--file", "training*")[1]


def test_secrets_are_masked(run: RunFolder) -> None:
    secret = "https://hooks.example.com/services/T0/B0/abcdefghijklmnop"
    run.put(LOG, f"posting to {secret}\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwx\n")
    for arguments in ([], ["--json"], ["--grep", "hf_abc|abcdefgh"]):
        _, shown, _ = logs(run, *arguments, LASTBEAT_WEBHOOK_URL=secret)
        assert "abcdefgh" not in shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param(
            ["--rank", "0", "--rank", "10"], ["rank0.log | zero", "rank10.log | ten"], id="two ranks, with their names"
        ),
        pytest.param(
            ["--file", "rank*.log"],
            ["rank0.log | zero", "rank1.log | one", "rank10.log | ten"],
            id="all that match, rank by rank",
        ),
        pytest.param(["--file", "_error"], ["boom"], id="what it said when it failed"),
    ],
)
def test_which_files_are_printed(run: RunFolder, arguments: list[str], shown: list[str]) -> None:
    texts = {LOG: "main", "logs/rank0.log": "zero", "logs/rank1.log": "one", "logs/rank10.log": "ten"}
    for name, text in {**texts, "_error": "boom", "logs/stacks.txt": "Thread 1"}.items():
        run.put(name, f"{text}\n")
    assert logs(run, *arguments) == (0, "".join(f"{line}\n" for line in shown), "")


def test_what_there_is_is_listed_the_newest_first(run: RunFolder) -> None:
    run.put("logs/rank3.log", "x" * 2000, minutes_old=5)
    run.put(LOG, "main\n")
    _, shown, _ = logs(run, "--list")
    assert re.findall(r"\S+$", shown, re.MULTILINE) == ["training_log_latest.txt", "rank3.log"]
    assert "1.95 KiB" in shown
    document = json.loads(logs(run, "--list", "--json")[1])
    assert [(log["file"], log["bytes"], log["rank"]) for log in document["logs"]] == [
        (LOG, 5, None),
        ("logs/rank3.log", 2000, 3),
    ]


def test_a_program_that_was_never_changed_has_its_log_on_this_machine(run: RunFolder) -> None:
    (run.root.parent / "train.log").write_text("from here\n")
    assert logs(run, LASTBEAT_LOGS="train*.log")[1] == "from here\n"


def test_a_reader_that_leaves_ends_it_quietly(run: RunFolder) -> None:
    run.put(LOG, STEPS * 2000)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        process = start(LASTBEAT, "logs", "my-run", "-n", "all", cwd=run.root.parent, stdout=gone)
        _, said = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, said) == (128 + signal.SIGPIPE, "")


class TestBucket:
    """The same through an object store, and when it refuses."""

    @pytest.fixture
    def bucket(self, s3_server: S3Server) -> str:
        bucket = s3_server.bucket()
        for name, text in {"metadata.json": "{}", LOG: STEPS * 100, "logs/rank1.log": "one\n"}.items():
            s3_server.client().put_object(Bucket=bucket, Key=f"training-runs/my-run/{name}", Body=text.encode())
        return bucket

    def test_the_end_is_read_and_no_more(
        self, tmp_path: Path, s3_server: S3Server, bucket: str, fault_proxy: FaultProxy
    ) -> None:
        settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}
        done = call(LASTBEAT, "logs", "my-run", "-n", "3", "--bucket", bucket, cwd=tmp_path, **settings)
        assert done.stdout.splitlines() == LINES[-3:]
        assert fault_proxy.count("GET") == 2, "one listing and one read"

    def test_a_log_that_may_not_be_read_is_named_and_the_others_are_shown(
        self, tmp_path: Path, s3_server: S3Server, bucket: str, fault_proxy: FaultProxy
    ) -> None:
        fault_proxy.inject(s3_error(403, "AccessDenied"), method="GET", contains="training_log_latest")
        settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}
        done = call(LASTBEAT, "logs", "my-run", "--file", "*", "--bucket", bucket, cwd=tmp_path, **settings)
        assert (done.returncode, done.stdout) == (3, "rank1.log | one\n")
        assert "training_log_latest.txt could not be read" in done.stderr


FAST = ["--interval", "0.1"]


class Tail:
    """``logs -f``: what it prints goes to files."""

    def __init__(self, run: RunFolder, number: int, *arguments: str, **settings: str) -> None:
        home = run.root.parent
        self._out, self._err = home / f"out-{number}.txt", home / f"err-{number}.txt"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = popen(
                [*LASTBEAT, "logs", run.run_id, "-f", *FAST, *arguments],
                cwd=home, env=environment(home, **settings), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def lines(self) -> list[str]:
        return self._out.read_text(encoding="utf-8").splitlines()

    @property
    def said(self) -> list[str]:
        return self._err.read_text(encoding="utf-8").splitlines()

    def prints(self, line: str) -> None:
        """Wait until it has printed ``line``."""
        until(lambda: self.lines, lambda lines: line in lines)

    def says(self, part: str) -> None:
        until(lambda: self._err.read_text(encoding="utf-8"), lambda said: part in said)


Follow = Callable[..., Tail]


@pytest.fixture
def follow() -> Iterator[Follow]:
    begun: list[Tail] = []

    def begin(run: RunFolder, *arguments: str, **settings: str) -> Tail:
        begun.append(Tail(run, len(begun), *arguments, **settings))
        return begun[-1]

    yield begin
    for tail in begun:
        tail.process.kill()
        tail.process.wait(LIMIT_S)


def add(run: RunFolder, text: str, name: str = LOG) -> None:
    with (run.path / name).open("a") as log:
        log.write(text)


def test_lines_come_as_they_are_written_and_it_ends_with_the_run(run: RunFolder, follow: Follow) -> None:
    run.put(LOG, "".join(f"old {number}\n" for number in range(100)))
    tail = follow(run, "-n", "2")
    tail.prints("old 99")
    for number in range(3):
        add(run, f"new {number}\n")
        tail.prints(f"new {number}")
    add(run, "no end")
    run.put("_complete")
    assert tail.process.wait(LIMIT_S) == 0
    assert tail.lines == ["old 98", "old 99", "new 0", "new 1", "new 2", "no end"]
    assert "the run is over: SUCCEEDED" in tail.said[-1]


def test_with_a_capital_letter_it_goes_on_with_the_next_attempt(run: RunFolder, follow: Follow) -> None:
    run.put(LOG, "first\n")
    run.put("_error", "boom")
    tail = follow(run, "-F")
    tail.prints("first")
    # As long as another one needs to find out that the run is over, and to leave.
    assert follow(run).process.wait(LIMIT_S) == 0
    add(run, "second\n")
    tail.prints("second")


def test_ctrl_c_ends_it_without_a_word(run: RunFolder, follow: Follow) -> None:
    run.put(LOG, "a\n")
    tail = follow(run)
    tail.prints("a")
    add(run, "b\n")
    # Now it follows, and imports nothing any more: what a Ctrl-C becomes there is a matter of tests of the frame.
    tail.prints("b")
    tail.process.send_signal(signal.SIGINT)
    # A shell calls both 130; which it is depends on what the interpreter was just about to do.
    assert (tail.process.wait(LIMIT_S) in {130, -signal.SIGINT}, tail.said) == (True, [])


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
    tmp_path: Path, s3_server: S3Server, fault_proxy: FaultProxy, follow: Follow
) -> None:
    bucket = s3_server.bucket()
    run = RunFolder(tmp_path / "nothing-here", "my-run")

    def put(name: str, text: str) -> None:
        s3_server.client().put_object(Bucket=bucket, Key=f"training-runs/my-run/{name}", Body=text.encode())

    put("metadata.json", "{}")
    put(LOG, "first\n")
    settings = {**s3_server.environment(), "AWS_ENDPOINT_URL": fault_proxy.url}
    tail = follow(run, "--bucket", bucket, **settings)
    tail.prints("first")
    fault_proxy.inject(Reset())
    put(LOG, "first\nsecond\n")
    tail.says("it is tried again")
    fault_proxy.clear()
    tail.prints("second")
    # The fault met the listing, the log or both.
    tail.says("can be read again")
    put("_complete", "")
    assert tail.process.wait(LIMIT_S) == 0
    assert tail.lines == ["first", "second"]
