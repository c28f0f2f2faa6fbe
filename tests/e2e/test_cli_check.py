"""``lastbeat check``: the set-up, an alert, a node, the health of a run and of a cluster."""

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from lastbeat import __version__
from support.cli import LASTBEAT, RunFolder, call
from support.fake_kubectl import FakeCluster
from support.http_sink import Answer, closed_port, http_sink
from support.nvml import StubDriver, compiled

SECRET = "hush-hush-hush"


def test_a_test_alert_arrives_marked_as_one(tmp_path: Path) -> None:
    with http_sink() as sink:
        done = call(LASTBEAT, "test-alert", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
        assert done.returncode == 0
        assert done.stdout.startswith("ok ")
        assert SECRET not in done.stdout + done.stderr
        again = call(LASTBEAT, "test-alert", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
    assert [channel["ok"] for channel in json.loads(again.stdout)["channels"]] == [True]
    first, second = (json.loads(request.body) for request in sink.requests)
    assert first["event"] == "TEST"
    assert first["key"] != second["key"], "a receiver that drops repeats shows both"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            Answer(status=404), "nothing takes messages at that address; check LASTBEAT_WEBHOOK_URL", id="it is gone"
        ),
        pytest.param(Answer(status=503), "it should pass; alerts wait", id="it has trouble"),
    ],
)
def test_a_test_alert_that_is_not_taken_is_told_with_its_reason(tmp_path: Path, answer: Answer, told: str) -> None:
    with http_sink() as sink:
        sink.otherwise = answer
        done = call(LASTBEAT, "test-alert", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
    assert done.returncode == 2
    assert done.stdout.startswith("fail  webhook (127.0.0.1")
    assert done.stdout.count("webhook (") == 1
    assert told in done.stdout
    assert done.stdout.count("\n") == 1
    assert SECRET not in done.stdout + done.stderr


def test_a_test_alert_for_nobody_says_so(tmp_path: Path) -> None:
    done = call(LASTBEAT, "test-alert", cwd=tmp_path)
    assert done.returncode == 3
    assert "No channel is set up" in done.stdout
    told = json.loads(call(LASTBEAT, "test-alert", "--json", cwd=tmp_path).stdout)
    assert told == {"schema": 1, "version": __version__, "channels": [], "data": {"channels": []}, "errors": []}


def test_the_doctor_is_content_with_a_folder_and_a_channel(tmp_path: Path) -> None:
    root = RunFolder(tmp_path / "training-runs").root
    with http_sink() as sink:
        done = call(LASTBEAT, "doctor", "--root", str(root), cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert not sink.requests, "it bothers nobody"
    assert done.returncode == 0, done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert [path.name for path in root.rglob("*.json") if path.parent.name == "_watchdog"] == []


def test_the_doctor_sees_that_passes_leave_no_page(tmp_path: Path) -> None:
    root = tmp_path / "training-runs"
    RunFolder(root).metadata()

    def told(minutes: str) -> list[str]:
        done = call(LASTBEAT, "doctor", "--root", str(root), "--json", cwd=tmp_path, LASTBEAT_PAGE_MINUTES=minutes)
        return [check["word"] for check in json.loads(done.stdout)["checks"] if check["name"] == "page"]

    def sweep(minutes: str) -> None:
        call(LASTBEAT, "sweep", "--once", "--root", str(root), cwd=tmp_path, LASTBEAT_PAGE_MINUTES=minutes)

    assert (told("0"), told("5")) == ([], ["ok"]), "no pass was made yet"
    sweep("0")
    assert told("5") == ["warn"]
    sweep("5")
    assert told("5") == ["ok"]
    page = root / "_watchdog" / "index.html"
    then = page.stat().st_mtime - 1000
    os.utime(page, (then, then))
    assert (told("5"), told("50")) == (["warn"], ["ok"])


def test_the_doctor_names_what_does_not_work_and_the_remedy(tmp_path: Path) -> None:
    hook = f"http://127.0.0.1:{closed_port()}/{SECRET}"
    done = call(LASTBEAT, "doctor", "--root", "nope", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=hook)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr
    failed = [check for check in json.loads(done.stdout)["checks"] if check["word"] == "fail"]
    assert [check["name"] for check in failed] == ["store", "channel"]
    assert "create it" in failed[0]["remedy"]
    assert failed[1]["detail"].count("webhook (") == 1
    assert failed[1]["remedy"].startswith("check the host and port in LASTBEAT_WEBHOOK_URL")


def test_the_doctor_tells_every_fault_of_the_settings(tmp_path: Path) -> None:
    done = call(LASTBEAT, "doctor", cwd=tmp_path, STALE_MINUTES="ten", ALERT_ON="loud")
    assert done.returncode == 3
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["fail", "settings:"]] * 2


QUIET = ("memory_used 0", "processes 0")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> StubDriver:
    return compiled(tmp_path_factory.mktemp("driver"))


def check_node(folder: Path, driver: StubDriver | None, *arguments: str) -> Any:
    return call(LASTBEAT, "check-node", *arguments, cwd=folder, **(driver.env if driver is not None else {}))


NODES = [
    pytest.param(QUIET, (), "ok", "2 GPUs well: Stub A, Stub B", id="a node that is well"),
    pytest.param((*QUIET, "1.handle error 15"), (), "fail", "GPU 1 is lost", id="a GPU that is lost"),
    pytest.param(("init hang",), ("--wait", "2"), "fail", "NVIDIA's driver hangs", id="a driver that hangs"),
]


@pytest.mark.parametrize(("says", "arguments", "word", "detail"), NODES)
def test_what_is_said_of_the_gpus(
    library: StubDriver, tmp_path: Path, says: tuple[str, ...], arguments: tuple[str, ...], word: str, detail: str
) -> None:
    said = check_node(tmp_path, library.says(*says), "--json", *arguments)

    checks = json.loads(said.stdout)["checks"]
    [about_gpus] = [check for check in checks if check["name"] == "gpus"]
    assert (about_gpus["word"], detail in about_gpus["detail"]) == (word, True), about_gpus
    worst = {check["word"] for check in checks}
    assert said.returncode == (2 if "fail" in worst else 1 if "warn" in worst else 0)


def test_without_a_gpu_a_node_is_judged_by_the_rest(tmp_path: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    said = check_node(tmp_path, None, "--path", str(tmp_path))

    lines = said.stdout.splitlines()
    assert lines[0].startswith("ok    gpus: there are none here")
    assert [line.split()[1] for line in lines] == [
        "gpus:", "kernel", "memory:", "disk:", "disk:", "disk:", "network:",
    ]  # fmt: skip
    assert said.returncode in {0, 1}


GPU = {"name": "H100", "utilization": 0.9, "memory_used_bytes": 70 << 30, "memory_total_bytes": 80 << 30}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def beats(folder: Path, run: str, gpus: list[dict[str, Any]], step: int = 12) -> Path:
    """A run that beats now."""
    path = folder / "runs" / run
    path.mkdir(parents=True)
    now = datetime.now(timezone.utc).isoformat()
    (path / "metadata.json").write_text(json.dumps({"run_id": run, "timestamp": now, "resources": {"gpus": gpus}}))
    (path / "progress.json").write_text(json.dumps({"step": step, "total_steps": 100, "timestamp": now}))
    return path


def health(folder: Path, *arguments: str, **more: Any) -> Any:
    return call(LASTBEAT, "health", *arguments, cwd=folder, **more)


def test_a_run_whose_gpus_work_is_healthy(runs: Path) -> None:
    beats(runs, "llama", [GPU, GPU])

    said = health(runs, "llama", "--root", "runs")

    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.splitlines()[:3] == [
        "Training: healthy (OK)",
        "Run:         llama: RUNNING at step 12",
        "GPUs:        2, 90 % on average, 143,360 of 163,840 MB, 0 processes",
    ]


def test_the_same_for_programs(runs: Path) -> None:
    beats(runs, "llama", [GPU, {**GPU, "utilization": 0.0}])

    said = health(runs, "llama", "--root", "runs", "--json")

    found = json.loads(said.stdout)
    assert said.returncode == 1
    assert (found["healthy"], found["level"], found["gpu"]["avg_utilization"]) == (True, "WARNING", 45.0)
    assert found["issues"] == ["1 of 2 GPUs are idle while others work: a rank may be missing"]


def test_a_run_that_failed_is_not_healthy_and_its_gpus_are_nobodys_business(runs: Path) -> None:
    path = beats(runs, "llama", [{**GPU, "utilization": 0.0}])
    (path / "_error").write_text("RuntimeError: boom\x1b[31m")

    said = health(runs, "llama", "--root", "runs")

    assert said.returncode == 2
    assert "- llama is FAILED: RuntimeError: boom" in said.stdout
    assert "\x1b" not in said.stdout
    assert "idle" not in said.stdout


def test_checkpoints_are_looked_at_where_a_place_is_named(runs: Path) -> None:
    beats(runs, "llama", [GPU])
    (runs / "ckpt").mkdir()

    none = health(runs, "llama", "--root", "runs", "--checkpoint-dir", "ckpt")
    nowhere = health(runs, "llama", "--root", "runs", "--checkpoint-dir", "nowhere")

    assert (none.returncode, nowhere.returncode) == (1, 1)
    assert "no checkpoint found in ckpt" in none.stdout
    assert "checkpoints cannot be looked for in nowhere" in nowhere.stdout
    assert "MONITORING_ROOT" not in nowhere.stdout


def test_an_address_where_nobody_listens_is_not_observed(runs: Path) -> None:
    text = health(runs, "--ray-address", "http://127.0.0.1:1")
    found = json.loads(health(runs, "--ray-address", "http://127.0.0.1:1", "--json").stdout)

    assert text.returncode == 3
    assert text.stdout.count("the connection was refused") == 1
    assert (found["healthy"], found["level"], found["ray"]) == (False, "UNKNOWN", None)
    assert (found["gpu"]["healthy"], found["gpu"]["gpu_count"]) == (False, None)
    assert "the connection was refused" in found["gpu"]["faults"][0]


@pytest.fixture
def kubectl(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path / "kube")


PROGRAMS = {
    "ray": "printf 'Resources\\nTotal Usage:\\n 8.0/16.0 CPU\\n 2.0/2.0 GPU\\n\\n'",
    "nvidia-smi": "case $1 in --query-gpu*) printf '97, 70000, 81559\\n91, 70000, 81559\\n';; esac",
}


def test_pods_whose_gpus_work_are_healthy(runs: Path, kubectl: FakeCluster) -> None:
    for pod in ("ray-head", "worker-0"):
        home = kubectl.add_pod(pod, "ml")
        (home / "bin").mkdir()
        for name, text in PROGRAMS.items():
            (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (home / "bin" / name).chmod(0o755)
    pods = ("--namespace", "ml", "--pod", "ray-head", "--pod", "worker-0")

    answer = health(runs, "--head-pod", "ray-head", *pods, PATH=kubectl.path)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "GPUs:        4, 94 % on average" in answer.stdout
    assert "Ray:         2 of 2 GPUs and 8 of 16 CPUs given out" in answer.stdout
