"""Every launcher, each over the real thing."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from lastbeat.explain.launchers.traits import LAUNCHERS
from lastbeat.jobs.launchers import registry
from lastbeat.jobs.launchers.port import Launcher
from lastbeat.model.job import JobReport, JobSpec, JobState
from support.waiting import until

SINCE = datetime.now(timezone.utc) - timedelta(minutes=1)
"""Before any job of these tests."""


class Place:
    """Where jobs are run in a test."""

    def __init__(self, launcher: Launcher, folder: Path, options: tuple[str, ...] = ()) -> None:
        self.launcher = launcher
        self.folder = folder
        self.options = options
        """Of the launcher, which say where it is."""
        self._prefix = os.urandom(4).hex()

    def name(self, number: int) -> str:
        """A name that no other test has: a cluster remembers those of all of them."""
        return f"run-{self._prefix}-r{number}"

    def again(self) -> Launcher:
        """The launcher as another process has it."""
        return registry.module(self.launcher.kind).launcher(self.folder / "state", self.options)

    def spec(self, script: str, **more: object) -> JobSpec:
        """A job that runs ``script`` in a shell."""
        return self.running(("sh", "-c", script), **more)

    def running(self, command: tuple[str, ...], **more: object) -> JobSpec:
        """A job that runs ``command``."""
        if self.launcher.kind == "kubernetes":
            # Its image says what is run, and arguments follow.
            more["manifest"] = kubernetes_job(command[0])
            command = ("train.yaml", *command[1:])
        return JobSpec(command, str(self.folder), grace_s=1.0, **more)  # type: ignore[arg-type]

    def ended(self, job: str) -> JobReport:
        """The job's last word."""
        return until(lambda: self.launcher.state(job), lambda report: report.state.ended)

    def in_state(self, job: str, state: JobState) -> JobReport:
        return until(lambda: self.launcher.state(job), lambda report: report.state is state)

    def output(self, job: str) -> str:
        """What it wrote; a scheduler's accounting may not know where."""
        brought = self.launcher.output(job, 1 << 20)
        if brought is not None:
            return brought.decode("utf-8")
        outputs = self.launcher.state(job).outputs or [*self.folder.glob(f"*{job}.out")]
        return "".join(Path(path).read_text(encoding="utf-8") for path in outputs)


def kubernetes_job(program: str) -> str:
    """A manifest."""
    container = {"name": "train", "image": "training:1", "command": [program]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mine"}, "spec": spec})


CLUSTERS = {"ray": ("ray_cluster",), "slurm": ("slurm_conf", "accounted_slurm_conf")}
"""Launcher → the fixtures of the clusters that it is tried on; others need none."""
PLACES = {cluster: kind for kind in sorted(LAUNCHERS) for cluster in CLUSTERS.get(kind, (kind,))}
"""Fixture, or launcher → launcher. The parameter is a text: by it a test is known to stand on Ray."""

WHATEVER_IT_KEEPS = pytest.mark.parametrize(
    "place", [each for each in PLACES if "accounted" not in each], indirect=True
)
"""For tests of what has not ended yet: of that, no cluster asks its accounting."""


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    kind = PLACES[request.param]
    options: tuple[str, ...] = ()
    if kind == "slurm":
        monkeypatch.setenv("SLURM_CONF", str(request.getfixturevalue(request.param)))
    if kind == "ray":
        monkeypatch.setenv("RAY_ADDRESS", request.getfixturevalue(request.param).address)
    if kind == "ray-pod":
        request.getfixturevalue("fake_cluster").add_pod("ray-head", "ml")
        options = ("--head-pod=ray-head", "--namespace=ml")
    if kind == "kubernetes":
        monkeypatch.setenv("PATH", request.getfixturevalue("fake_kubernetes").path)
    launcher = registry.module(kind).launcher(tmp_path / "state", options)
    started: list[str] = []
    submit: Callable[[JobSpec, str, datetime], str] = launcher.submit

    def noted(spec: JobSpec, name: str, since: datetime) -> str:
        started.append(submit(spec, name, since))
        return started[-1]

    launcher.submit = noted  # type: ignore[method-assign]
    yield Place(launcher, tmp_path, options)
    for job in started:
        launcher.cancel(job)
    for job in started:
        until(lambda job=job: launcher.state(job), lambda report: report.state.ended)  # type: ignore[misc]
