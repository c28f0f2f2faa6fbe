"""``lastbeat logs``: the end of a run's log, printed, searched and listed."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call
from support.proxy import FaultProxy, s3_error
from support.s3 import S3Server
from support.waiting import LIMIT_S

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
        pytest.param(STEPS, ["-n", "100000"], LINES, id="more than there are"),
        pytest.param(f"{STEPS}no end", ["-n", "2"], [LINES[-1], "no end"], id="a line that has not ended is one"),
        pytest.param(STEPS, ["--grep", "step 1[34]/"], [LINES[12], LINES[13]], id="what is looked for, in all of it"),
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
        pytest.param([], ["main"], id="the run's own log where nothing is said"),
        pytest.param(["--file", "rank1.log"], ["one"], id="a file by its name"),
        pytest.param(["--rank", "1"], ["one"], id="a rank"),
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
        from support.cli import start  # noqa: PLC0415 - this test alone has no end to read from

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
