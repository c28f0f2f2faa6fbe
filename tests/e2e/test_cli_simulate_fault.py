"""``lastbeat simulate-fault``: a rank that runs on this machine is stopped, killed, slowed or asked to end."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import LASTBEAT, call, environment, popen
from support.training import Site, directory_site, end
from support.waiting import LIMIT_S, until

TRAINS = """\
import time, lastbeat
with lastbeat.run("run-1") as run:
    for step in range(100_000):
        time.sleep(0.01)
        run.step(step)
        print(step, flush=True)
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return directory_site(tmp_path)


@pytest.fixture
def ranks(site: Site) -> Iterator[list["subprocess.Popen[str]"]]:
    """Two ranks of a training that is under way."""
    env = {"WORLD_SIZE": "2", "LASTBEAT_BEAT_SECONDS": "0.2,ranks:0.2"}
    started = [site.start(TRAINS, log=f"{rank}.log", RANK=str(rank), **env) for rank in range(2)]
    try:
        until(lambda: all(site.read(f"ranks/{rank}.json") for rank in range(2)))
        yield started
    finally:
        for process in started:
            end(process)


def simulate(site: Site, *arguments: str, after: str = "0") -> "subprocess.CompletedProcess[str]":
    return call(
        LASTBEAT, "simulate-fault", "--root", site.root, "--run-id", "run-1", "--after", after, *arguments,
        cwd=site.folder,
    )  # fmt: skip


def test_a_rank_is_killed(site: Site, ranks: list["subprocess.Popen[str]"]) -> None:
    done = simulate(site, "--type", "rank_killed", "--rank", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("FT: Simulating fault: rank_killed; rank to fail: 1\n")
    assert ranks[1].wait(LIMIT_S) == -signal.SIGKILL
    assert ranks[0].poll() is None


def test_a_rank_hangs_until_it_is_let_go_on(site: Site, ranks: list["subprocess.Popen[str]"]) -> None:
    done = simulate(site, "--type", "rank_hung", "--rank", "0")
    assert f"kill -CONT {ranks[0].pid}" in done.stdout
    # The kernel stops it a moment after the signal.
    until(lambda: state(ranks[0].pid), lambda now: now == "T")
    ranks[0].send_signal(signal.SIGCONT)
    until(lambda: state(ranks[0].pid), lambda now: now != "T")


def state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_rank_is_asked_to_end(site: Site, ranks: list["subprocess.Popen[str]"]) -> None:
    done = simulate(site, "--type", "preempt", "--rank", "1", "--json")
    told = json.loads(done.stdout)
    assert (told["type"], told["rank"], told["process"], told["happened"]) == ("preempt", 1, ranks[1].pid, True)
    assert ranks[1].wait(LIMIT_S) != 0


def test_a_slow_rank_goes_on_when_the_command_ends_and_ends_it_when_it_ends(
    site: Site, ranks: list["subprocess.Popen[str]"]
) -> None:
    command = [*LASTBEAT, "simulate-fault", "--root", site.root, "--run-id", "run-1", "--after", "0"]
    slowing = popen([*command, "--type", "slow_rank", "--rank", "1"], env=environment(site.folder))
    try:
        until(lambda: state(ranks[1].pid), lambda now: now == "T")
        until(lambda: state(ranks[1].pid), lambda now: now != "T")
        until(lambda: state(ranks[1].pid), lambda now: now == "T")
        slowing.send_signal(signal.SIGTERM)
        assert slowing.wait(LIMIT_S) == 143
        assert state(ranks[1].pid) != "T"
        assert ranks[1].poll() is None
        slowing = popen([*command, "--type", "slow_rank", "--rank", "1"], env=environment(site.folder))
        until(lambda: state(ranks[1].pid), lambda now: now == "T")
        end(ranks[1])
        assert slowing.wait(LIMIT_S) == 1
    finally:
        slowing.kill()
        slowing.wait(LIMIT_S)


def test_a_command_under_lastbeat_exec_is_no_rank(site: Site) -> None:
    """It may be a launcher, and exec itself is none in any case."""
    site.folder.mkdir()
    Path(site.root).mkdir()
    command = [*LASTBEAT, "exec", "--run-id", "run-1", "--root", site.root, "--", "sleep", "600"]
    wrapped = popen(command, env=environment(site.folder, LASTBEAT_BEAT_SECONDS="600"), cwd=site.folder)
    try:
        until(lambda: site.read("metadata.json"))
        done = simulate(site, "--type", "rank_killed", "--rank", "0")
        assert (done.returncode, wrapped.poll()) == (3, None)
    finally:
        wrapped.terminate()
        wrapped.wait(LIMIT_S)


def test_a_process_that_has_ended_is_left_alone(site: Site, ranks: list["subprocess.Popen[str]"]) -> None:
    """Its number may mean another by then."""
    end(ranks[1])
    done = simulate(site, "--type", "rank_killed", "--rank", "1")
    assert done.returncode == 3
    assert "rank 1 of run run-1 does not run on this machine as your user" in done.stderr
    assert ranks[0].poll() is None
