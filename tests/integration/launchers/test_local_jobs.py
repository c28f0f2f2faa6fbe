"""Jobs as processes of this machine, when whoever looks after them dies."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.jobs.launchers import processes
from lastbeat.jobs.launchers.local import launcher as local
from lastbeat.jobs.launchers.local.launcher import LocalLauncher
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.model.job import JobSpec, JobState
from support.checkout import ROOT
from support.waiting import text_in, until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
SUBMIT = """
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from lastbeat.jobs.launchers.local.launcher import launcher
from lastbeat.model.job import JobSpec
launcher(Path(sys.argv[1])).submit(JobSpec(("sh", "-c", sys.argv[2]), sys.argv[1], grace_s=1.0), "run-r0",
    datetime.now(timezone.utc) - timedelta(minutes=10))
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[LocalLauncher]:
    made = local.launcher(tmp_path)
    yield made
    made.cancel("run-r0")
    until(lambda: made.state("run-r0"), lambda report: report.state.ended)


def spec(folder: Path, script: str) -> JobSpec:
    return JobSpec(("sh", "-c", script), str(folder), grace_s=1.0)


def keeper_of(folder: Path) -> int:
    (job,) = folder.glob("jobs/*/job.json")
    return int(job.read_text(encoding="utf-8").partition('"keeper": ')[2].partition(",")[0])


def test_one_of_many_that_start_a_job_at_once_does(launcher: LocalLauncher, tmp_path: Path) -> None:
    log = tmp_path / "log"
    answers: list[str | LauncherError] = []

    def submit() -> None:
        try:
            answers.append(
                local.launcher(tmp_path).submit(spec(tmp_path, f"echo begun >> {log}; sleep 300"), "run-r0", SINCE)
            )
        except LauncherError as error:
            answers.append(error)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "run-r0" in answers
    assert text_in(log) == "begun\n"
    assert launcher.state("run-r0").state is JobState.RUNNING


def test_what_the_supervisor_itself_belongs_to_is_not_adopted() -> None:
    adopts = "import sys; from lastbeat.jobs.launchers.local import launcher; launcher.adoption(sys.argv[1])"
    script = f'"{sys.executable}" -c "{adopts}" $$; exit 0'
    above = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "is the supervisor's own, or one that it runs under" in above.stderr
    with pytest.raises(JobRefusedError, match="is the supervisor's own"):
        local.adoption(str(os.getpid()))


def test_a_relative_output_lies_in_the_folder_of_the_job(launcher: LocalLauncher, tmp_path: Path) -> None:
    wanted = JobSpec(("echo", "hello"), str(tmp_path), output="out/of-the-job.log")
    launcher.submit(wanted, "run-r0", SINCE)
    report = until(lambda: launcher.state("run-r0"), lambda report: report.state.ended)
    assert (report.state, report.reason) == (JobState.SUCCEEDED, "")
    assert (tmp_path / "out/of-the-job.log").read_text(encoding="utf-8") == "hello\n"
    assert report.outputs == (str(tmp_path / "out/of-the-job.log"),)


@pytest.mark.parametrize("script", ["exit 0", "sleep 300"])
def test_a_clock_that_is_behind_the_stores_does_not_hide_the_job_that_was_just_started(
    launcher: LocalLauncher, tmp_path: Path, script: str
) -> None:
    assert launcher.submit(spec(tmp_path, script), "run-r0", SINCE + timedelta(hours=1)) == "run-r0"
    assert launcher.state("run-r0").state is not JobState.UNKNOWN


def test_a_job_that_has_lost_its_description_is_known_and_can_be_ended(launcher: LocalLauncher, tmp_path: Path) -> None:
    launcher.submit(spec(tmp_path, "sleep 300"), "run-r0", SINCE)
    (description,) = tmp_path.glob("jobs/*/spec.json")
    description.unlink()
    assert launcher.state("run-r0").state is JobState.RUNNING
    assert launcher.find("run-r0", SINCE) == "run-r0"
    launcher.cancel("run-r0")
    assert until(lambda: launcher.state("run-r0"), lambda report: report.state.ended).state is JobState.CANCELLED


@pytest.mark.parametrize("milliseconds", [0, 60, 200])
def test_a_submitter_that_is_killed_leaves_one_job_or_none(
    launcher: LocalLauncher, tmp_path: Path, milliseconds: int
) -> None:
    log = tmp_path / "log"
    script = f"echo begun >> {log}; sleep 300"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
    submitter = subprocess.Popen([sys.executable, "-c", SUBMIT, str(tmp_path), script], env=environment)
    try:
        submitter.wait(milliseconds / 1000)
    except subprocess.TimeoutExpired:
        submitter.kill()
        submitter.wait()

    def found() -> str | LauncherError | None:
        try:
            return launcher.find("run-r0", SINCE)
        except LauncherError as error:
            return error

    known = until(found, lambda answer: not isinstance(answer, LauncherError))
    if known is None:
        launcher.submit(spec(tmp_path, script), "run-r0", SINCE)
    assert text_in(log) == "begun\n"
    assert launcher.state("run-r0").state is JobState.RUNNING


def test_a_job_whose_keeper_is_killed_is_known_to_run_until_all_of_it_has_ended(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    marks = [tmp_path / "one", tmp_path / "two"]
    script = f"setsid sh -c 'echo $$ > {marks[1]}; sleep 300' & echo $$ > {marks[0]}; sleep 300"
    job = launcher.submit(spec(tmp_path, script), "run-r0", SINCE)
    for mark in marks:
        text_in(mark)
    os.kill(keeper_of(tmp_path), signal.SIGKILL)
    keeper_is_gone = until(lambda: processes.identity(keeper_of(tmp_path)), lambda left: left is None)
    assert keeper_is_gone is None
    assert launcher.state(job).state is JobState.RUNNING
    os.kill(int(marks[0].read_text()), signal.SIGKILL)
    assert launcher.state(job).state is JobState.RUNNING, "what it started in a session of its own lives on"
    launcher.cancel(job)
    report = until(lambda: launcher.state(job), lambda report: report.state.ended)
    assert (report.state, report.reason) == (JobState.GONE, "its keeper is gone, so how it ended is unknown")
    assert launcher.find("run-r0", SINCE) == job


def test_what_a_job_leaves_behind_is_ended_with_it(launcher: LocalLauncher, tmp_path: Path) -> None:
    mark = tmp_path / "left"
    script = f"setsid sh -c 'echo $$ > {mark}; sleep 300' & until [ -s {mark} ]; do sleep 0.05; done; exit 4"
    job = launcher.submit(spec(tmp_path, script), "run-r0", SINCE)
    report = until(lambda: launcher.state(job), lambda report: report.state.ended)
    assert (report.state, report.exit_code) == (JobState.FAILED, 4)
    assert processes.identity(int(mark.read_text())) is None


def test_a_job_of_an_earlier_boot_was_lost_with_its_machine(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.submit(spec(tmp_path, "sleep 300"), "run-r0", SINCE)
    (document,) = tmp_path.glob("jobs/*/job.json")
    whole = document.read_text(encoding="utf-8")
    document.write_text(whole.replace(processes.boot(), "another-boot"), encoding="utf-8")
    assert launcher.state(job).state is JobState.NODE_LOST
    document.write_text(whole, encoding="utf-8")
    assert launcher.state(job).state is JobState.RUNNING


def test_nobody_can_tell_of_a_job_of_another_machine(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.submit(spec(tmp_path, "sleep 300"), "run-r0", SINCE)
    elsewhere = local.launcher(tmp_path / "elsewhere").state(job)
    assert (elsewhere.state, "ask where it was started" in elsewhere.reason) == (JobState.UNKNOWN, True)
    (document,) = tmp_path.glob("jobs/*/job.json")
    whole = document.read_text(encoding="utf-8")
    there = {**json.loads(whole), "boot": "another-boot", "host": "node17"}
    document.write_text(json.dumps(there), encoding="utf-8")
    report = launcher.state(job)
    assert (report.state, report.reason) == (
        JobState.UNKNOWN,
        "it was started on node17, so only node17 can tell of it",
    )
    document.write_text(whole, encoding="utf-8")


def test_what_a_job_started_is_found_whatever_it_did_to_its_session_environment_and_files(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    mark = tmp_path / "left"
    hidden = f"import os, time; os.closerange(0, 64); open('{mark}', 'w').write(str(os.getpid())); time.sleep(600)"
    # Forked twice, with nothing of the job in its environment, files or session.
    script = f'(env -i setsid {sys.executable} -S -c "{hidden}" &) ; sleep 300'
    job = launcher.submit(spec(tmp_path, script), "run-r0", SINCE)
    left = processes.identity(int(text_in(mark)))
    assert left is not None
    # The shell may not have got so far yet.
    (command,) = until(lambda: [each for each in processes.below(keeper_of(tmp_path)) if "sleep" in _name(each.pid)])
    keeper = processes.identity(keeper_of(tmp_path))
    assert keeper is not None
    for each in (keeper, command):
        processes.send(each, signal.SIGKILL)
    until(lambda: processes.lives(keeper) or processes.lives(command), lambda lives: not lives)
    assert launcher.state(job).state is JobState.RUNNING
    with pytest.raises(LauncherError, match="a part of it still runs"):
        launcher.submit(spec(tmp_path, "true"), "run-r0", datetime.now(timezone.utc) + timedelta(days=1))
    launcher.cancel(job)
    until(lambda: launcher.state(job), lambda report: report.state is JobState.GONE)
    assert not processes.lives(left)


def test_where_that_limit_leaves_no_room_jobs_run_all_the_same(launcher: LocalLauncher, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
    narrow = f"import resource; resource.setrlimit(12, (0, 0))\n{SUBMIT}"
    subprocess.run([sys.executable, "-c", narrow, str(tmp_path), "exit 3"], env=environment, check=True)
    assert until(lambda: launcher.state("run-r0"), lambda report: report.state.ended).exit_code == 3


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_job_without_a_keeper_that_ignores_sigterm_is_killed_after_its_grace(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    mark = tmp_path / "ready"
    job = launcher.submit(
        spec(tmp_path, f"trap '' TERM HUP INT; touch {mark}; while :; do sleep 0.1; done"), "run-r0", SINCE
    )
    until(mark.exists, bool)
    os.kill(keeper_of(tmp_path), signal.SIGKILL)

    def asked_again() -> JobState:
        launcher.cancel(job)
        return launcher.state(job).state

    assert asked_again() is JobState.RUNNING
    assert until(asked_again, lambda state: state.ended) is JobState.GONE


def test_a_suspended_keeper_ends_its_job_all_the_same(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.submit(spec(tmp_path, "sleep 300"), "run-r0", SINCE)
    os.kill(keeper_of(tmp_path), signal.SIGSTOP)
    launcher.cancel(job)
    assert until(lambda: launcher.state(job), lambda report: report.state.ended).state is JobState.CANCELLED


def test_a_process_that_got_the_number_of_a_keeper_is_left_alone(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.submit(spec(tmp_path, "exit 0"), "run-r0", SINCE)
    until(lambda: launcher.state(job), lambda report: report.state.ended)
    (document,) = tmp_path.glob("jobs/*/job.json")
    whole = json.loads(document.read_text(encoding="utf-8"))
    innocent = subprocess.Popen(["sleep", "300"])
    try:
        document.write_text(json.dumps({**whole, "keeper": innocent.pid}), encoding="utf-8")
        (document.parent / "exit.json").rename(document.parent / "kept")
        launcher.cancel(job)
        assert launcher.state(job).state is JobState.GONE
        processes.send(processes.ProcessIdentity(innocent.pid, 1, processes.boot()), signal.SIGKILL)
        assert innocent.poll() is None
    finally:
        (document.parent / "kept").rename(document.parent / "exit.json")
        innocent.kill()
        innocent.wait()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.getuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system, and not in every container")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


FILL = "head -c 1000000 /dev/zero > {0}/fill 2>/dev/null; "


def test_a_job_that_fills_the_disk_and_ends_well_has_ended_well(small_disk: Path, tmp_path: Path) -> None:
    launcher = local.launcher(small_disk)
    job = launcher.submit(
        JobSpec(("sh", "-c", FILL.format(small_disk) + "exit 0"), "/", output=str(tmp_path / "log")), "run-r0", SINCE
    )
    report = until(lambda: launcher.state(job), lambda report: report.state.ended)
    assert (report.state, report.exit_code) == (JobState.SUCCEEDED, 0)
    assert os.statvfs(small_disk).f_bavail == 0


def test_a_result_that_cannot_be_written_is_held_until_it_can(small_disk: Path, tmp_path: Path) -> None:
    launcher = local.launcher(small_disk)
    script = f"rm {small_disk}/jobs/*/exit.new; {FILL.format(small_disk)} echo over; exit 5"
    job = launcher.submit(JobSpec(("sh", "-c", script), "/", output=str(tmp_path / "log")), "run-r0", SINCE)
    text_in(tmp_path / "log")
    until(lambda: [*processes.below(keeper_of(small_disk))], lambda left: not left)
    assert launcher.state(job).state is JobState.RUNNING
    launcher.cancel(job)
    assert launcher.state(job).state is JobState.RUNNING
    (small_disk / "fill").unlink()
    report = until(lambda: launcher.state(job), lambda report: report.state.ended)
    assert (report.state, report.exit_code) == (JobState.FAILED, 5)


def test_on_a_full_disk_nothing_is_started(small_disk: Path, tmp_path: Path) -> None:
    launcher = local.launcher(small_disk)
    subprocess.run(["sh", "-c", FILL.format(small_disk)], check=False)
    job = JobSpec(("touch", str(tmp_path / "begun")), "/", output=str(tmp_path / "log"))
    with pytest.raises(NotLaunchedError, match="No space left on device"):
        launcher.submit(job, "run-r0", SINCE)
    assert not (tmp_path / "begun").exists()
    (small_disk / "fill").unlink()
    launcher.submit(job, "run-r0", SINCE)
    assert until(lambda: launcher.state("run-r0"), lambda report: report.state.ended).state is JobState.SUCCEEDED


def test_of_an_adopted_process_all_that_it_started_counts(tmp_path: Path) -> None:
    mark = tmp_path / "child"
    process = subprocess.Popen(["sh", "-c", f"setsid sh -c 'echo $$ > {mark}; exec sleep 300' & wait"])
    text_in(mark)
    launcher = local.launcher(tmp_path)
    job = local.adoption(str(process.pid)).id
    assert launcher.state(job).state is JobState.RUNNING
    process.kill()
    process.wait()
    assert launcher.state(job).state is JobState.RUNNING, "its child might still write checkpoints"
    launcher.cancel(job)
    assert until(lambda: launcher.state(job), lambda report: report.state.ended).state is JobState.GONE
    with pytest.raises(JobRefusedError, match="there is no process"):
        local.adoption(str(process.pid))
    elsewhere = job.rpartition(":")[0] + ":node17"
    assert local.launcher(tmp_path).state(elsewhere).state is JobState.UNKNOWN


def test_the_job_gets_no_signal_mask_and_no_descriptor_of_ours(launcher: LocalLauncher, tmp_path: Path) -> None:
    job = launcher.submit(
        spec(tmp_path, "grep -E 'SigBlk|SigIgn' /proc/self/status; ls -l /proc/self/fd"), "run-r0", SINCE
    )
    report = until(lambda: launcher.state(job), lambda report: report.state.ended)
    said = Path(report.outputs[0]).read_text(encoding="utf-8")
    assert "SigBlk:\t0000000000000000" in said
    ignored = int(said.partition("SigIgn:")[2].split()[0], 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        assert not ignored & 1 << (number - 1), number
    assert "lock" not in said


HIDDEN = """
import os
from lastbeat.jobs.launchers import processes
known = processes.identity(os.getppid())
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(processes.identity(os.getppid()), processes.lives(known))
"""


def test_a_process_that_proc_hides_from_this_user_may_live() -> None:
    hide = "mount -t proc -o hidepid=2 proc /proc"
    if os.getuid() or subprocess.run(["unshare", "-m", "sh", "-c", hide], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a /proc that hides processes, and not in every container")
    script = f"{hide} && '{sys.executable}' -c \"$0\"; exit $?"
    command = ["unshare", "-m", "sh", "-c", script, HIDDEN]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert said.stdout == "None True\n", said.stderr
