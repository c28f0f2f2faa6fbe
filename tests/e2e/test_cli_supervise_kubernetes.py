"""``supervise --launcher kubernetes`` against a kubectl whose Jobs run as processes of this machine."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import checkpoint_files as made
from support.fake_kubernetes import NO_SUCH_IMAGE, FakeKubernetes
from support.supervised import NCCL, begun, in_background, record, supervise
from support.waiting import LIMIT_S, until

TRAIN = """
import os, sys, time
number = int(os.environ["LASTBEAT_RESTART_COUNT"])
print("begun", number, *sys.argv[2:], flush=True)
for step in range(10 * number + 1, 10 * number + 4):
    print(f"step {step}/100 loss 2.5", flush=True)
how = sys.argv[1] if number == 0 else "end"
if how == "wait":
    time.sleep(600)
if how != "end":
    print("Traceback (most recent call last):\\n  File \\"train.py\\", line 9, in <module>\\n" + how, flush=True)
    sys.exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    manifest(tmp_path)
    return tmp_path


def manifest(folder: Path, *args: str, **container: Any) -> Path:
    """The user's manifest: its image has the program."""
    its = {
        "name": "train",
        "image": "training:1",
        "command": ["python", "train.py"],
        "workingDir": str(folder),
        **({"args": list(args)} if args else {}),
        **container,
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "labels": {"team": "nlp"}},
        "spec": {"template": {"spec": {"containers": [its]}}},
    }
    path = folder / "train.yaml"
    path.write_text(f"# How we train.\n---\n{yaml.safe_dump(job)}", encoding="utf-8")
    return path


BEGIN = (
    "supervise", "--run-id", "run", "--launcher", "kubernetes", "--policy", "megatron_transient", "--interval", "0.3",
)  # fmt: skip


def running(cluster: FakeKubernetes, folder: Path) -> dict[str, Any]:
    """The pod that trains, once that has been seen."""
    until(lambda: begun(folder))
    return next(pod for pod in cluster.pods() if pod["status"]["phase"] == "Running")


def names(cluster: FakeKubernetes) -> list[str]:
    """Of its Jobs, without what is made of the time."""
    return [each["metadata"]["name"].rpartition("-")[0] for each in cluster.objects()]


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def test_a_failure_is_restarted_by_a_new_object_from_the_last_complete_checkpoint(
    fake_kubernetes: FakeKubernetes, folder: Path
) -> None:
    (folder / "ckpt").mkdir()
    (folder / "ckpt/step_100.pt").write_bytes(made.torch_file())
    os.utime(folder / "ckpt/step_100.pt", (1_700_000_000, 1_700_000_000))
    manifest(folder, NCCL, "--load={resume_from}", "{attempt}")
    said = supervise(folder, *BEGIN, "--checkpoint-dir", "ckpt", "--", "train.yaml", "--lr", "$(HOME)")
    assert said.returncode == 0, said.stdout + said.stderr
    where = f"--load={folder}/ckpt/step_100.pt"
    assert begun(folder) == [f"begun 0 {where} 1 --lr $(HOME)", f"begun 1 {where} 2 --lr $(HOME)"]
    assert names(fake_kubernetes) == ["run-r0", "run-r1"]
    assert {each["metadata"]["labels"]["lastbeat.dev/run"] for each in fake_kubernetes.objects()} == {"run"}
    assert fake_kubernetes.objects()[0]["metadata"]["labels"]["team"] == "nlp"
    assert record(folder)["status"] == "SUCCEEDED"
    assert "Restarting, attempt 1/3: Transient failure detected (error_type=nccl), from step 100" in said.stdout


def test_an_image_that_cannot_be_pulled_is_told_with_what_to_do(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    manifest(folder, image=NO_SUCH_IMAGE)
    # Longer than this such a job is not waited for; of any other one people hear after LASTBEAT_PENDING_MINUTES.
    process = in_background(folder, *BEGIN, "--", "train.yaml", LASTBEAT_PENDING_MINUTES="0.005")
    try:
        raised = until(lambda: record(folder).get("conditions", {}).get("job_pending"))
    finally:
        process.terminate()
        _, out, err = ended(process)
    assert "ImagePullBackOff" in str(raised), out + err
    assert "its image cannot be pulled" in str(raised)
    shown = supervise(folder, "show", "run")
    assert "imagePullSecrets" in shown.stdout, shown.stdout + shown.stderr
    assert supervise(folder, "stop", "run", "--why", "wrong image").returncode in {0, 1}


def test_an_agent_elsewhere_starts_what_the_manifest_held_when_the_run_was_begun(
    fake_kubernetes: FakeKubernetes, folder: Path
) -> None:
    manifest(folder, "wait")
    said = supervise(folder, *BEGIN, "--submit-only", "--", "train.yaml")
    assert said.returncode == 0, said.stdout + said.stderr
    (folder / "train.yaml").unlink()
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    agent = in_background(folder, "restart", "agent", "--launcher", "kubernetes", "--interval", "0.3", cwd=elsewhere)
    try:
        fake_kubernetes.take_away(running(fake_kubernetes, folder))
        until(lambda: record(folder).get("status") == "SUCCEEDED")
    finally:
        agent.terminate()
        _, out, err = ended(agent)
    assert begun(folder) == ["begun 0", "begun 1"], out + err


def test_a_job_that_runs_already_is_adopted_and_started_again(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    manifest(folder, "wait", env=[{"name": "LASTBEAT_RESTART_COUNT", "value": "0"}])
    own = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
    own["spec"]["backoffLimit"] = 0
    own["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    subprocess.run(
        ["kubectl", "create", "--filename=-"], input=json.dumps(own), text=True, check=True, stdout=subprocess.DEVNULL
    )
    process = in_background(folder, *BEGIN, "--adopt", "mine")
    fake_kubernetes.take_away(running(fake_kubernetes, folder))
    code, out, err = ended(process)
    assert code == 0, out + err
    assert [each["metadata"]["name"].partition("-")[0] for each in fake_kubernetes.objects()] == ["mine", "run"]
    assert begun(folder) == ["begun 0", "begun 1"]


def test_a_dry_run_shows_the_object_and_creates_none(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    manifest(folder, "--load={resume_from}", "run {run_id}")
    said = supervise(folder, *BEGIN, "--dry-run", "--", "train.yaml")
    assert said.returncode == 0, said.stderr
    assert fake_kubernetes.objects() == []
    shown = yaml.safe_load(said.stdout.partition("<<'EOF'\n")[2].removesuffix("EOF\n"))
    assert shown["spec"]["template"]["spec"]["containers"][0]["args"] == ["run run"]
    assert shown["spec"]["backoffLimit"] == 0
    assert shown["metadata"]["name"].startswith("run-r0-")


BAD = [
    ("a file that there is not", None, "train.yaml: No such file or directory; name the manifest of the job after --"),
    ("a ConfigMap", "apiVersion: v1\nkind: ConfigMap", "holds a ConfigMap of v1; it has to be a Job (batch/v1)"),
    ("a bomb", "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
     ), "is nested or repeated too often for a manifest"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_manifest_of_which_nothing_can_come_is_refused_at_once(
    fake_kubernetes: FakeKubernetes, folder: Path, text: str | None, told: str
) -> None:
    if text is None:
        (folder / "train.yaml").unlink()
    else:
        (folder / "train.yaml").write_text(text, encoding="utf-8")
    said = supervise(folder, *BEGIN, "--", "train.yaml")
    assert said.returncode == 3
    assert told in said.stderr
    assert fake_kubernetes.objects() == []
    assert not (folder / "runs/run").exists()


def test_it_can_be_drilled(fake_kubernetes: FakeKubernetes, folder: Path) -> None:
    what = ("--scenario", "scancel", "--interval", "0.5", "--root", str(folder / "drill"))
    process = in_background(folder, "drill", "--launcher", "kubernetes", *what)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == 0, out + err
    assert "1 passed, 0 failed" in out
    assert not any(each["status"]["phase"] == "Running" for each in fake_kubernetes.pods())
