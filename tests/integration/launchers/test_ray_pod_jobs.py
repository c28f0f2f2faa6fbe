"""Jobs in a pod that the cluster deletes, starts again and cuts off, and in one that says what it likes.

The kubectl here runs what it is told in processes of this machine; there is no API server (support.fake_kubectl)."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError
from lastbeat.jobs.launchers.ray_pod import launcher as ray_pod
from lastbeat.jobs.launchers.ray_pod.launcher import RayPodLauncher
from lastbeat.jobs.launchers.ray_pod.pod_python import PodPython
from lastbeat.model.job import GpuUse, JobReport, JobSpec, JobState
from support.fake_kubectl import FakeCluster
from support.row_by_row import labelled
from support.there import there
from support.waiting import text_in, until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
OPTIONS = ("--head-pod=ray-head", "--namespace=ml")


@pytest.fixture
def cluster(fake_cluster: FakeCluster) -> FakeCluster:
    fake_cluster.add_pod("ray-head", "ml")
    return fake_cluster


@pytest.fixture
def launcher(cluster: FakeCluster) -> RayPodLauncher:
    return ray_pod.launcher(Path("/nonexistent"), OPTIONS)


def job(script: str, **more: object) -> JobSpec:
    return JobSpec(("sh", "-c", script), "", grace_s=1.0, **more)  # type: ignore[arg-type]


def started(launcher: RayPodLauncher, script: str = "echo begun; sleep 300", name: str = "run-r0") -> str:
    return launcher.submit(job(script), name, SINCE)


def ended(launcher: RayPodLauncher, name: str) -> JobReport:
    return until(lambda: launcher.state(name), lambda report: report.state.ended)


def written(launcher: RayPodLauncher, name: str, text: str) -> str:
    """The job's log, once ``text`` is in it."""
    log = there(until(lambda: launcher.output(name, 1 << 20), lambda log: log is not None and text.encode() in log))
    return log.decode()


def home(cluster: FakeCluster) -> Path:
    return cluster.home("ray-head", "ml")


def programs(cluster: FakeCluster) -> Path:
    """The folder that comes first on the pod's PATH."""
    folder = home(cluster) / "bin"
    folder.mkdir(exist_ok=True)
    return folder


# What becomes of pods.


def anew(cluster: FakeCluster) -> None:
    cluster.add_pod("ray-head", "ml")


def restarted(cluster: FakeCluster, reason: str = "Error", *, keeps_tmp: bool = False) -> None:
    cluster.end_container("ray-head", reason, "ml")
    cluster.start_container("ray-head", "ml", keeps_tmp=keeps_tmp)


LOSSES: list[tuple[str, Callable[[FakeCluster], object], JobState, str, str]] = [
    ("it is made anew under the same name", anew, JobState.NODE_LOST, "restarted", "started again: it is another one"),
    ("it is deleted", lambda its: its.delete_pod("ray-head", "ml"), JobState.NODE_LOST, "NotFound", "has been deleted"),
    ("its container is started again", restarted, JobState.NODE_LOST, "Error", "ended or was started again (Error)"),
    ("its container is started again, and /tmp is a volume", lambda its: restarted(its, keeps_tmp=True),
     JobState.NODE_LOST, "Error", "ended or was started again (Error)"),
    ("its container is killed for its memory and waits", lambda its: its.end_container("ray-head", "OOMKilled", "ml"),
     JobState.FAILED, "OOMKilled", "out of memory"),
    ("it is evicted", lambda its: its.end_pod("ray-head", "Failed", "Evicted", "ml"), JobState.NODE_LOST, "Evicted",
     "Evicted"),
    ("it ends", lambda its: its.end_pod("ray-head", "Succeeded", namespace="ml"), JobState.NODE_LOST, "Error", "ended"),
]  # fmt: skip


@pytest.mark.parametrize(("lose", "state", "said", "reason"), labelled(LOSSES))
def test_with_its_pod_a_job_is_lost(
    cluster: FakeCluster,
    launcher: RayPodLauncher,
    lose: Callable[[FakeCluster], object],
    state: JobState,
    said: str,
    reason: str,
) -> None:
    name = started(launcher)
    assert launcher.state(name).state is JobState.RUNNING
    lose(cluster)
    report = launcher.state(name)
    assert (report.state, report.said) == (state, said)
    assert reason in report.reason
    launcher.cancel(name)


def test_how_a_container_ended_is_waited_for_where_it_runs_again_before_the_cluster_says_so(
    cluster: FakeCluster, launcher: RayPodLauncher
) -> None:
    name = started(launcher)
    cluster.end()
    (home(cluster) / "tmp").rename(home(cluster) / "old")
    (home(cluster) / "tmp").mkdir()
    earlier = f"{name.rpartition('/')[0]}/1"
    report = launcher.state(earlier)
    assert report.state is JobState.UNKNOWN
    assert "was started again; why is not known yet" in report.reason
    restarted(cluster, "OOMKilled")
    assert launcher.state(earlier).said == "OOMKilled"


def test_a_container_that_was_started_again_before_the_job_says_nothing_of_it(
    cluster: FakeCluster, launcher: RayPodLauncher
) -> None:
    restarted(cluster, "OOMKilled")
    name = started(launcher)
    os.kill(_keeper(cluster), signal.SIGKILL)
    cluster.end()
    report = launcher.state(name)
    assert (report.state, report.reason) == (JobState.GONE, "its keeper is gone, so how it ended is unknown")


def _keeper(cluster: FakeCluster) -> int:
    (document,) = (home(cluster) / "tmp").glob("*/*/job.json")
    return int(json.loads(document.read_text(encoding="utf-8"))["keeper"])


def test_what_was_submitted_in_the_lost_pod_is_not_found_in_the_new_one(
    cluster: FakeCluster, launcher: RayPodLauncher
) -> None:
    first = started(launcher)
    anew(cluster)
    assert launcher.find("run-r0", SINCE) is None
    second = started(launcher)
    assert second != first
    assert launcher.state(first).state is JobState.NODE_LOST
    assert launcher.state(second).state is JobState.RUNNING


SILENCES = [
    ("a connection that is refused", "refused", 1, "kubectl cluster-info"),
    ("no right to run anything there", "forbidden", 1, "kubectl auth can-i create pods/exec -n ml"),
    ("an answer that is cut off, of which kubectl says that all is well", "", 0, "the connection was cut"),
]


@pytest.mark.parametrize(("said", "code", "advice"), labelled(SILENCES))
def test_nothing_follows_from_what_could_not_be_asked(
    cluster: FakeCluster, launcher: RayPodLauncher, said: str, code: int, advice: str
) -> None:
    name = started(launcher)
    cluster.fail(said, code=code)
    report = launcher.state(name)
    assert report.state is JobState.UNKNOWN
    assert advice in report.reason
    assert {each.state for each in launcher.states([name, f"{name}0"]).values()} == {JobState.UNKNOWN}
    for call in (
        lambda: launcher.cancel(name),
        lambda: launcher.output(name, 100),
        lambda: launcher.find("run-r0", SINCE),
        lambda: launcher.submit(job("true"), "run-r1", SINCE),
    ):
        with pytest.raises(LauncherError):
            call()
    cluster.heal()
    assert launcher.state(name).state is JobState.RUNNING


def test_a_container_that_is_just_being_started_says_nothing_of_a_job_that_may_be_in_it(
    cluster: FakeCluster, launcher: RayPodLauncher
) -> None:
    name = started(launcher)
    cluster.fail("no container", verb="exec")
    assert launcher.state(name).state is JobState.UNKNOWN


def test_that_another_cluster_has_no_such_pod_says_nothing(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = started(launcher)
    program = (cluster.bin / "kubectl").read_text(encoding="utf-8")
    elsewhere = '{"clusters": [{"cluster": {"server": "https://10.9.9.9"}}]}'
    (cluster.bin / "kubectl").write_text(
        f"#!/bin/sh\ncase $* in *config*) echo '{elsewhere}';; "
        "*) echo 'Error from server (NotFound): pods \"ray-head\" not found' >&2; exit 1;; esac\n",
        encoding="utf-8",
    )
    report = launcher.state(name)
    assert report.state is JobState.UNKNOWN
    assert "its jobs are in 10.1.2.3:6443/ml/ray-head, and this is 10.9.9.9/ml/ray-head" in report.reason
    with pytest.raises(LauncherError, match=r"10\.9\.9\.9"):
        launcher.submit(job("true"), "run-r1", SINCE)
    later = ray_pod.launcher(Path("/nonexistent"), OPTIONS, "10.1.2.3:6443/ml/ray-head")
    assert later.state(name).state is JobState.UNKNOWN
    (cluster.bin / "kubectl").write_text(program, encoding="utf-8")
    assert later.state(name).state is JobState.RUNNING


def test_a_pod_that_does_not_run_starts_nothing(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    cluster.end_container("ray-head", "Error", "ml")
    with pytest.raises(NotLaunchedError, match="pod ray-head does not run"):
        started(launcher)
    cluster.delete_pod("ray-head", "ml")
    with pytest.raises(NotLaunchedError, match="not found") as raised:
        started(launcher)
    assert "kubectl get pods -n ml" in raised.value.told


# A start happens once.


def test_a_start_whose_answer_is_lost_has_happened_and_is_found(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    cluster.fail("error: unexpected EOF", verb="exec", times=1, after=True)
    log = home(cluster) / "log"
    with pytest.raises(LauncherError, match="unexpected EOF") as raised:
        started(launcher, f"echo begun >> {log}; sleep 300")
    assert not isinstance(raised.value, NotLaunchedError)
    found = there(launcher.find("run-r0", SINCE))
    assert started(launcher, f"echo begun >> {log}; sleep 300") == found
    assert launcher.state(found).state is JobState.RUNNING
    assert text_in(log) == "begun\n"


# Keepers.


def test_a_job_without_its_keeper_runs_on_and_can_be_ended(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = started(launcher, "trap '' TERM; while :; do sleep 0.1; done")
    os.kill(_keeper(cluster), signal.SIGKILL)
    assert launcher.state(name).state is JobState.RUNNING
    assert launcher.submit(job("true"), "run-r0", SINCE) == name

    def asked() -> JobReport:
        launcher.cancel(name)
        return launcher.state(name)

    report = until(asked, lambda report: report.state.ended)
    assert (report.state, report.reason) == (JobState.GONE, "its keeper is gone, so how it ended is unknown")


def test_a_job_whose_folder_somebody_has_cleared_away_still_runs(
    cluster: FakeCluster, launcher: RayPodLauncher
) -> None:
    name = started(launcher)
    written(launcher, name, "begun")
    (home(cluster) / "tmp").rename(home(cluster) / "old")
    (home(cluster) / "tmp").mkdir()
    assert launcher.state(name).state is JobState.RUNNING


# What a job writes.


def test_the_end_of_a_log_is_whole_lines_within_the_bound(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = started(launcher, "seq 1 20000")
    ended(launcher, name)
    whole = "".join(f"{number}\n" for number in range(1, 20001)).encode()
    assert launcher.output(name, 1 << 20) == whole
    tail = there(launcher.output(name, 1000))
    assert len(tail) <= 1000
    assert whole.endswith(b"\n" + tail)
    assert launcher.output(name, len(whole)) == whole
    assert launcher.output(name, len(whole) - 2) == whole[2:]


def test_a_log_is_hostile_bytes_and_comes_as_it_is(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = started(launcher, r"printf '\000\377\033[31m\r\n%s\n' 'command terminated with exit code 1'; exit 1")
    assert ended(launcher, name).exit_code == 1
    assert launcher.output(name, 1000) == b"\x00\xff\x1b[31m\r\ncommand terminated with exit code 1\n"


def test_a_log_that_has_not_changed_is_not_carried_again(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = started(launcher, "seq 1 1000")
    ended(launcher, name)
    first = launcher.output(name, 10_000)
    (home(cluster) / "tmp").rename(home(cluster) / "old")
    (home(cluster) / "tmp").mkdir()
    assert launcher.output(name, 10_000) == b""
    assert first


def test_no_secret_of_a_job_is_on_a_command_line(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    name = launcher.submit(job("echo $TOKEN; sleep 300", environment={"TOKEN": "hunter2-of-a-job"}), "run-r0", SINCE)
    assert "hunter2" in written(launcher, name, "hunter2")
    shown = subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True, check=True).stdout
    assert "hunter2" not in shown
    assert "hunter2" not in str(cluster.calls())
    (spec,) = (home(cluster) / "tmp").glob("*/*/spec.json")
    assert stat.S_IMODE(spec.parent.parent.stat().st_mode) == 0o700


# Processes that somebody else started.


@pytest.fixture
def stranger(cluster: FakeCluster) -> int:
    """A process in the pod, with its log, that nobody of lastbeat's has started."""
    script = "sh -c 'while :; do echo lives; sleep 0.1; done' > stranger.log 2>&1 < /dev/null & echo $!"
    return int(Kubectl("ml").exec("ray-head", ["sh", "-c", script]).out)


def test_a_process_of_the_pod_is_adopted_with_its_log_and_ended(
    cluster: FakeCluster, launcher: RayPodLauncher, stranger: int
) -> None:
    adopted = ray_pod.adoption(str(stranger), OPTIONS)
    assert adopted.cwd == str(home(cluster))
    assert adopted.outputs == ()
    assert adopted.began_at is not None
    assert abs(adopted.began_at - datetime.now(timezone.utc)) < timedelta(minutes=1)
    assert launcher.state(adopted.id).state is JobState.RUNNING
    assert "lives\n" in written(launcher, adopted.id, "lives")
    launcher.cancel(adopted.id)
    report = ended(launcher, adopted.id)
    assert (report.state, report.reason) == (JobState.GONE, "no process collected its exit status")
    assert "lives\n" in written(launcher, adopted.id, "lives")


@pytest.mark.parametrize(
    ("number", "said"), [("999999999", "there is no process"), ("1", "the container itself"), ("-1", "no number")]
)
def test_what_cannot_be_adopted_is_refused(cluster: FakeCluster, number: str, said: str) -> None:
    with pytest.raises(JobRefusedError, match=said):
        ray_pod.adoption(number, OPTIONS)


# What a pod may be like.


def test_the_pods_own_python_may_be_as_old_as_3_8(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    (programs(cluster) / "python3").symlink_to(oldest_python())
    name = started(launcher, "echo begun; sleep 300 & wait")
    written(launcher, name, "begun")
    launcher.cancel(name)
    assert ended(launcher, name).state is JobState.CANCELLED
    files = there(launcher.files(str(home(cluster))))
    assert any(each.key.startswith("tmp/lastbeat-") for each in files.list("").entries)


WHERE = "import sys; print(sys.executable)"


def oldest_python() -> str:
    """Of those on this machine that can be run."""
    for number in range(8, sys.version_info.minor):
        for program in (f"python3.{number}", *map(str, Path.home().glob(f".pyenv/versions/3.{number}.*/bin/python3"))):
            try:
                found = subprocess.run([program, "-c", WHERE], capture_output=True, text=True, check=False)
            except OSError:
                continue
            if found.returncode == 0:
                return found.stdout.strip()
    return sys.executable


def test_what_lies_where_commands_begin_has_no_part_in_it(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    for name in ("json", "types", "base64", "lastbeat", "sitecustomize"):
        (home(cluster) / f"{name}.py").write_text("raise SystemExit('evil')", encoding="utf-8")
    assert launcher.state(started(launcher)).state is JobState.RUNNING


def test_a_container_without_python_is_told_of(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    (programs(cluster) / "python3").write_text(
        "#!/bin/sh\necho 'exec: \"python3\": executable file not found in $PATH: unknown' >&2; exit 127\n"
    )
    (programs(cluster) / "python3").chmod(0o755)
    with pytest.raises(JobRefusedError, match="has no python3") as raised:
        started(launcher)
    assert "--container" in raised.value.advice


ANSWERS = ["[]", '{"runs": [], "known": 1, "ended": 7}', '{"fault": null}']


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_pod_that_answers_nonsense_tells_nothing(cluster: FakeCluster, launcher: RayPodLauncher, answer: str) -> None:
    name = started(launcher)
    program = programs(cluster) / "python3"
    program.write_text(
        f"#!{sys.executable}\nimport sys, json, zlib, base64\nmark = json.loads(sys.stdin.readline())['mark']\n"
        f"print('\\n' + mark + base64.b64encode(zlib.compress({answer!r}.encode())).decode())\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    assert launcher.state(name).state is JobState.UNKNOWN
    for call in (lambda: launcher.output(name, 100), lambda: launcher.find("run-r0", SINCE), lambda: started(launcher)):
        with pytest.raises(LauncherError):
            call()


def test_a_folder_that_somebody_else_has_prepared_is_not_used(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    (home(cluster) / "mine").mkdir()
    (home(cluster) / "tmp" / f"lastbeat-{os.getuid()}").symlink_to(home(cluster) / "mine")
    with pytest.raises(NotLaunchedError, match="no folder of this user's alone"):
        started(launcher)
    assert list((home(cluster) / "mine").iterdir()) == []


def test_gpus_that_compute_or_hold_memory_count_as_used_and_are_asked_for_once_a_minute(cluster: FakeCluster) -> None:
    clock = [0.0]
    launcher = RayPodLauncher(PodPython(Kubectl("ml"), "ray-head"), clock=lambda: clock[0])
    program = programs(cluster) / "nvidia-smi"
    program.write_text("#!/bin/sh\necho asked >> $HOME/asked; printf '0, 12\\n37, 12\\n0, 40000\\n0, 0\\n'\n")
    program.chmod(0o755)
    name = started(launcher)
    for clock[0] in (0.0, 30.0, 59.0):
        assert launcher.state(name).gpus == GpuUse(2, 4)
    assert text_in(home(cluster) / "asked") == "asked\n"
    program.write_text("#!/bin/sh\nprintf 'No devices were found\\n'; exit 6\n")
    clock[0] = 61.0
    assert launcher.state(name).gpus is None


# Names and options.


def test_what_is_no_id_of_a_job_here_is_gone_without_a_call(cluster: FakeCluster, launcher: RayPodLauncher) -> None:
    for name in ("", "run-r0", "../../x.00000000/u/0/1", "a/b.00000000/u/0/1", "pid:1:2:3", "a\n.00000000/u/0/1"):
        assert launcher.state(name).state is JobState.GONE, name
        launcher.cancel(name)
    assert cluster.calls() == []


@pytest.mark.parametrize("name", ["../../etc", "x\ny\x1b[31m", "ü" * 300, "\udcff"])
def test_a_hostile_name_of_a_job_is_a_name(cluster: FakeCluster, launcher: RayPodLauncher, name: str) -> None:
    found = started(launcher, "exit 3", name)
    assert found.isprintable()
    assert ended(launcher, found).exit_code == 3
    assert launcher.find(name, SINCE) == found
    (folder,) = (home(cluster) / "tmp").iterdir()
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "needs the pod of the cluster's head"),
        (("--head-pod=-x",), "no name of a pod"),
        (("--head-pod=a", "--namespace=-x"), "no name of a namespace"),
        (("--head-pod=a", "--ray-address=http://x"), "no option of ray-pod"),
    ],
)
def test_options_of_which_nothing_can_come_are_refused(
    cluster: FakeCluster, options: tuple[str, ...], said: str
) -> None:
    with pytest.raises(JobRefusedError, match=said) as raised:
        ray_pod.launcher(Path("/nonexistent"), options)
    assert raised.value.told.isprintable()
    assert cluster.calls() == []


def test_the_container_that_is_named_is_the_one(cluster: FakeCluster) -> None:
    cluster.add_pod("ray-head", "ml", ("istio-proxy", "ray"))
    named = ray_pod.launcher(Path("/nonexistent"), (*OPTIONS, "--container=ray"))
    assert named.state(started(named)).state is JobState.RUNNING
    assert all("--container=ray" in call for call in cluster.calls() if "exec" in call)
    other = ray_pod.launcher(Path("/nonexistent"), (*OPTIONS, "--container=trainer"))
    with pytest.raises(LauncherError):
        started(other)


# Many jobs.


def test_one_call_answers_for_many_jobs_as_each_one_by_itself(launcher: RayPodLauncher, cluster: FakeCluster) -> None:
    scripts = ("sleep 300", "true", "exit 3")
    runs, well, bad = (started(launcher, script, f"run-r{number}") for number, script in enumerate(scripts))
    for job in (well, bad):
        ended(launcher, job)
    before = len(cluster.calls())

    found = launcher.states([runs, well, bad])

    assert len(cluster.calls()) == before + 1
    assert [found[job].state for job in (runs, well, bad)] == [JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED]
    assert found == {job: launcher.state(job) for job in (runs, well, bad)}


def test_a_job_is_asked_about_by_itself_where_only_the_cluster_knows(
    launcher: RayPodLauncher, cluster: FakeCluster
) -> None:
    jobs = [started(launcher, name=f"run-r{number}") for number in range(2)]
    assert launcher.states(jobs[:1]) == {}, "one costs a call anyway"

    restarted(cluster)

    assert launcher.states(jobs) == {}
    assert {launcher.state(job).state for job in jobs} == {JobState.NODE_LOST}


def test_a_job_whose_files_cannot_be_read_leaves_the_others_known(
    launcher: RayPodLauncher, cluster: FakeCluster
) -> None:
    jobs = [started(launcher, name=f"run-r{number}") for number in range(2)]
    (spoilt,) = home(cluster).rglob("run-r0-*/job.json")
    spoilt.write_text("{")

    assert list(launcher.states(jobs)) == jobs[1:]
    assert launcher.state(jobs[0]).state is JobState.UNKNOWN
