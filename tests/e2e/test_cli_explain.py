"""``lastbeat explain``: from a log, or a run, to its cause, as a user calls it."""

import gzip
import json
import os
import subprocess
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from support.cli import LASTBEAT, RunFolder, call, environment, popen, run
from support.terminal import terminal
from support.waiting import LIMIT_S

STEPS = [f"2024-01-02 03:04:{second:02d} [INFO] step {second}/1000 loss 2.5" for second in range(30)]
FAILED = (
    "\n".join(STEPS)
    + """
[rank3]: Traceback (most recent call last):
[rank3]:   File "/workspace/train.py", line 214, in <module>
[rank3]:     loss.backward()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB
W0102 03:04:40.000000 17 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 19 closing signal SIGTERM
E0102 03:04:41.000000 17 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
)
OOM_LINE = 34
HEALTHY = "\n".join([*STEPS, ""])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(FAILED)
    return path


def explained(*arguments: str, cwd: Path, status: int = 0, **settings: str) -> dict[str, Any]:
    done = call(LASTBEAT, "explain", *arguments, "--json", cwd=cwd, **settings)
    assert done.returncode == status, done.stderr
    (line,) = done.stdout.splitlines()
    document: dict[str, Any] = json.loads(line)
    return document


def piped(data: bytes, *arguments: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    return run([*LASTBEAT, "explain", *arguments], data=data, cwd=cwd, env=environment(cwd))


def test_people_get_the_cause_first_and_what_to_do(log: Path) -> None:
    done = call(LASTBEAT, "explain", "train.log", cwd=log.parent)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Cause: oom (")
    assert f"  At: train.log:{OOM_LINE}, rank 3" in done.stdout
    assert f"> {OOM_LINE}  [rank3]: torch.OutOfMemoryError: CUDA out of memory." in done.stdout
    assert "What to do" in lines
    assert "last step 29 of 1000 (2%), loss 2.5" in done.stdout
    assert "\x1b" not in done.stdout, "no colours into a pipe"


@pytest.mark.parametrize("named", [("-",), ()], ids=["asked for by name", "without a name"])
def test_what_is_piped_in_is_explained_with_its_neighbours(tmp_path: Path, named: tuple[str, ...]) -> None:
    done = piped(gzip.compress(FAILED.encode()), *named, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"  At: line {OOM_LINE} of standard input, rank 3".encode() in done.stdout
    assert b"  33  [rank3]:     loss.backward()" in done.stdout


def test_a_named_pipe_is_a_log(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(FAILED,))
    writer.start()
    told = explained("pipe", cwd=tmp_path)
    writer.join()
    assert told["cause"]["evidence"]["line"] == OOM_LINE


def test_without_a_log_on_a_terminal_it_says_how_it_is_used(tmp_path: Path) -> None:
    with terminal(LASTBEAT, "explain", cwd=tmp_path) as screen:
        assert screen.wait_for_end() == 3
        assert screen.shown.startswith("Usage: lastbeat explain [OPTIONS] [FILE|DIR|RUN]...")
        assert "lastbeat explain train.log" in screen.shown


def test_a_pipe_in_which_nothing_comes_is_waited_for_and_that_is_said(tmp_path: Path) -> None:
    with popen(
        [*LASTBEAT, "explain"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"Waiting for a log on standard input")
        out, err = process.communicate(FAILED.encode(), timeout=LIMIT_S)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"Cause: oom")


def test_the_files_of_a_folder_are_the_ranks_of_one_run(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for rank in (0, 1):
        (logs / f"rank{rank}.log").write_text(HEALTHY)
    (logs / "rank3.log.gz").write_bytes(gzip.compress(FAILED.replace("[rank3]: ", "").encode()))
    (logs / "model.pt").write_bytes(bytes(range(256)) * 100)
    told = explained("logs", cwd=tmp_path)
    evidence = told["cause"]["evidence"]
    assert (evidence["file"], evidence["line"], evidence["rank"]) == ("logs/rank3.log.gz", OOM_LINE, 3)
    done = call(LASTBEAT, "explain", "logs", cwd=tmp_path)
    assert f"At: logs/rank3.log.gz:{OOM_LINE}, rank 3" in done.stdout
    assert "Read: 3 logs in logs, " in done.stdout


def test_a_run_of_the_fleet_is_found_by_its_id(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "my-run")
    run.metadata()
    run.put("logs/training_log_latest.txt", HEALTHY)
    run.put("_error", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    told = explained("my-run", cwd=tmp_path)
    assert told["cause"]["error_type"] == "oom"
    assert told["cause"]["evidence"]["file"].endswith("my-run/_error")
    there = explained("my-run", "--root", str(tmp_path / "training-runs"), cwd=tmp_path)
    assert there["cause"]["error_type"] == "oom"


def test_what_an_earlier_attempt_said_does_not_count(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs", "my-run")
    run.metadata(start_time=datetime.now(timezone.utc).isoformat())
    run.put("logs/training_log_latest.txt", HEALTHY)
    run.put("_error", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n", minutes_old=60)
    told = explained("my-run", cwd=tmp_path)
    assert told["cause"] is None
    assert "_error: from before this attempt began" in told["notes"][0]


def test_an_exit_code_speaks_where_no_line_does(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(HEALTHY)
    assert explained("train.log", "--exit-code", "137", cwd=tmp_path)["cause"]["error_type"] == "oom"
    assert explained("train.log", "--scheduler-state", "TIMEOUT", cwd=tmp_path)["cause"]["error_type"] == "time_limit"
    told = explained("train.log", "--scheduler-state", "BANANA", cwd=tmp_path)
    assert (told["cause"], told["notes"]) == (None, ["the scheduler's state 'BANANA' tells no cause"])


def test_a_catalogue_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "error_types:\n  licence:\n    restartable: true\n    meaning: No seat.\n    hint: Ask for one.\n"
        "signals:\n  no_seat:\n    pattern: 'no seat for (?P<product>[a-z]+)'\n    error_type: licence\n"
        "    verdict: crash\n    severity: critical\n    hint: 'Free a seat of {product}.'\n"
    )
    (tmp_path / "train.log").write_text(HEALTHY + "FATAL: no seat for fluent\n")
    for told in (
        explained("train.log", "--signals", "./own.yaml", cwd=tmp_path),
        explained("train.log", cwd=tmp_path, LASTBEAT_SIGNALS="./own.yaml"),
    ):
        assert (told["cause"]["error_type"], told["cause"]["restartable"]) == ("licence", True)
        assert told["hint"] == "Free a seat of fluent."


def test_what_can_be_read_is_explained_beside_what_cannot(log: Path) -> None:
    (log.parent / "model.pt").write_bytes(bytes(range(256)) * 100)
    assert explained("model.pt", "train.log", cwd=log.parent, status=3)["cause"]["error_type"] == "oom"


def test_wrong_settings_do_not_keep_anybody_from_a_log(log: Path) -> None:
    told = explained("train.log", cwd=log.parent, STALE_MINUTES="ten", MONITORING_ROOT="ftp://x")
    assert told["cause"]["error_type"] == "oom"
    assert any("settings are wrong" in note for note in told["notes"])


def test_on_a_terminal_it_fits_and_the_cause_stands_out(log: Path) -> None:
    columns = 80
    with terminal(LASTBEAT, "explain", "train.log", cwd=log.parent, COLUMNS=str(columns)) as screen:
        assert screen.wait_for_end() == 0
        lines = screen.shown.splitlines()
        assert max(map(len, lines)) <= columns
        assert max(map(len, lines)) > 70
        assert b"\x1b[1;31moom\x1b[0m" in screen.raw
        assert f"> {OOM_LINE}  [rank3]: torch.OutOfMemoryError" in screen.shown, "a sign, and not the colour alone"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what a process took")
def test_a_large_log_takes_little_memory(tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    with big.open("wb") as file:
        block = HEALTHY.encode() * 1000
        for _ in range(20):
            file.write(block)
        file.write(FAILED.encode())
    size = big.stat().st_size
    assert size > 25_000_000
    # Of the process itself: what getrusage says may be its parent's, from before it became another program.
    code = (
        "import sys; from pathlib import Path; from lastbeat_cli.main import main\n"
        "status = main(['explain', 'big.log', '--json'])\n"
        "took = next(line for line in Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM'))\n"
        "print(took.split()[1], file=sys.stderr); sys.exit(status)"
    )
    done = call([LASTBEAT[0], "-c", code], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cause"]["evidence"]["line"] == 20_000 * len(STEPS) + OOM_LINE
    assert int(done.stderr) < 100_000, "kilobytes"


SOME_STEPS = "step 100/1000 loss 2.5\nstep 200/1000 loss 2.4\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.fixture
def my_run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "training-runs", "my-run")
    folder.metadata()
    return folder


def test_a_run_whose_program_was_never_changed_is_explained_from_the_logs_of_this_machine(my_run: RunFolder) -> None:
    (my_run.root.parent / "train.log").write_text(SOME_STEPS + OOM)
    done = call(LASTBEAT, "explain", "my-run", "--json", cwd=my_run.root.parent, LASTBEAT_LOGS="train*.log")
    told = json.loads(done.stdout)["cause"]
    assert (told["error_type"], told["evidence"]["file"], told["evidence"]["line"]) == ("oom", "train.log", 3)


def test_the_logs_of_this_machine_may_be_of_another_run_than_one_that_has_its_own(my_run: RunFolder) -> None:
    my_run.put("logs/train.log", SOME_STEPS)
    (my_run.root.parent / "train.log").write_text(SOME_STEPS + OOM)
    done = call(LASTBEAT, "explain", "my-run", "--json", cwd=my_run.root.parent, LASTBEAT_LOGS="train.log")
    assert json.loads(done.stdout)["cause"] is None


def test_without_any_log_it_is_said_where_one_could_be(my_run: RunFolder) -> None:
    done = call(LASTBEAT, "explain", "my-run", cwd=my_run.root.parent)
    assert done.returncode == 3
    assert "LASTBEAT_LOGS" in done.stderr


def test_a_fleet_root_in_place_of_a_run(my_run: RunFolder) -> None:
    for number in range(7):
        other = RunFolder(my_run.root, f"run-{number}")
        other.metadata()
        other.put("_error", OOM)
    my_run.put("logs/train.log", SOME_STEPS)
    done = call(LASTBEAT, "explain", "training-runs", cwd=my_run.root.parent)
    assert (done.returncode, done.stdout) == (3, "")
    assert "training-runs is a fleet root" in done.stderr
    assert "run-6, " in done.stderr
    assert "(8 in all)" in done.stderr
    assert "Name one: lastbeat explain training-runs/" in done.stderr
    named = done.stderr.rpartition("lastbeat explain ")[2].strip()
    assert call(LASTBEAT, "explain", named, cwd=my_run.root.parent).returncode == 0


def test_a_name_that_no_file_can_have(tmp_path: Path) -> None:
    done = call(LASTBEAT, "explain", "x" * 5000, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "File name too long" in done.stderr
    assert len(done.stderr) < 500


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "latest.log").symlink_to("gone.log")
    done = call(LASTBEAT, "explain", "latest.log", cwd=tmp_path)
    assert done.returncode == 3
    assert "latest.log is a link to gone.log, which is not there" in done.stderr
