"""What a drill would object to."""

import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest

from lastbeat import settings as configuration
from lastbeat.explain.launchers.traits import LAUNCHERS, launcher_traits
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.model.job import JobReport, JobState
from lastbeat_cli.drill.command import DrillResult, _way
from lastbeat_cli.drill.faults import NotInjectedError, SlurmSaboteur, saboteur
from lastbeat_cli.drill.rehearsal import FAULT, RUNS, Ground, Rehearsal, Stage, UnexpectedError
from support.jobs import FakeLauncher


@dataclass
class Known(FakeLauncher):
    """Knows the jobs ``names``, which have all ended; ``away`` so often first."""

    names: tuple[str, ...] = ()
    away: int = 0
    cancelled: list[str] = field(default_factory=list)

    def find(self, name: str, since: datetime) -> str | None:
        self.away -= 1
        if self.away >= 0:
            raise LauncherError("away")
        return name if name in self.names else None

    def state(self, job: str) -> JobReport:
        return JobReport(JobState.CANCELLED if job in self.cancelled else JobState.RUNNING)

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)


class Twice(SlurmSaboteur):
    """Of a cluster that has each job twice."""

    def named(self, name: str) -> tuple[str, ...]:
        return ("7", "8")


@pytest.fixture
def rehearsal(tmp_path: Path) -> Rehearsal:
    (tmp_path / "runs").mkdir()
    environment = {"MONITORING_ROOT": str(tmp_path / "runs"), "LASTBEAT_STATE_DIR": str(tmp_path / "state")}
    ground = Ground(
        kind="local",
        launcher=Known(names=("drill-r0", "drill-r1")),
        saboteur=saboteur("local"),
        settings=configuration.load(environ=environment, directory=tmp_path),
        folder=tmp_path,
        policy="default",
        interval_s=1.0,
        patience_s=1.0,
        options=(),
        environment={},
        stalls={},
        tell=lambda _run_id, _line: None,
        stop=threading.Event(),
    )
    return Rehearsal(ground, "scancel", "drill")


def wrote(rehearsal: Rehearsal, number: int, host: str, *at: float) -> None:
    began = f"drill {at[0]} began attempt={number} pid=7 host={host} requeued=0\n"
    steps = "".join(f" iteration {each:.0f}/ 9 | lm loss: 2.5 | drill {each}\n" for each in at)
    (rehearsal.folder / f"drill-r{number}.log").write_text(began + steps, encoding="utf-8")


@pytest.mark.parametrize("kind", [*sorted(LAUNCHERS), "of-tomorrow"])
def test_the_script_lies_in_a_folder_that_jobs_share_or_travels_with_the_command(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("echo drilled\n", encoding="utf-8")
    assert (str(script) in saboteur(kind).command(script)) != launcher_traits(kind).remote


@pytest.mark.parametrize(("kind", "why"), [("ray", "--node-loss-command"), ("ray-pod", "with it the cluster is lost")])
def test_a_drill_on_ray_takes_no_node_away_by_itself_and_preempts_nothing(kind: str, why: str) -> None:
    assert why in str(saboteur(kind).why_no_node_is_lost(None))
    with pytest.raises(NotInjectedError, match="no job is preferred"):
        saboteur(kind).preempt("7", 7, Path())


LIVES = [
    ("one after the other", ("a", 1.0, 5.0), ("a", 5.1, 9.0), True),
    ("both at once", ("a", 1.0, 5.0), ("a", 4.9, 9.0), False),
    ("clocks of two nodes are a little apart", ("a", 1.0, 5.0), ("b", 4.5, 9.0), True),
    ("not so far", ("a", 1.0, 5.0), ("b", 3.0, 9.0), False),
]


@pytest.mark.parametrize(("first", "second", "fine"), [row[1:] for row in LIVES], ids=[row[0] for row in LIVES])
def test_two_jobs_that_write_at_once_are_seen(
    rehearsal: Rehearsal, first: tuple[str, float, float], second: tuple[str, float, float], fine: bool
) -> None:
    wrote(rehearsal, 0, *first)
    wrote(rehearsal, 1, *second)
    if fine:
        rehearsal.check_jobs(1)
    else:
        with pytest.raises(UnexpectedError, match="two jobs wrote at once"):
            rehearsal.check_jobs(1)


def test_a_job_too_many_and_one_too_few_are_seen(rehearsal: Rehearsal) -> None:
    with pytest.raises(UnexpectedError, match="one job too many: drill-r1"):
        rehearsal.check_jobs(0)
    with pytest.raises(UnexpectedError, match="the launcher knows no job drill-r2"):
        rehearsal.check_jobs(2)
    rehearsal.ground = replace(rehearsal.ground, saboteur=Twice())
    with pytest.raises(UnexpectedError, match="drill-r0 was submitted 2 times: 7, 8"):
        rehearsal.check_jobs(1)


def test_jobs_are_ended_by_their_ids_also_where_the_launcher_is_away_for_a_moment(rehearsal: Rehearsal) -> None:
    launcher = Known(names=("drill-r0", "drill-r1"), away=3)
    rehearsal.ground = replace(rehearsal.ground, launcher=launcher)
    assert rehearsal.clean_up() == []
    assert launcher.cancelled == ["drill-r0", "drill-r1"]


def test_the_options_of_a_user_win() -> None:
    slurm = saboteur("slurm")
    assert slurm.options("oom", ("--mem=4G", "-t5")) == ("--open-mode=append", "--requeue", "--mem=4G", "-t5")
    assert "--mem=512M" in slurm.options("oom", ())
    assert "--no-requeue" in slurm.options("node_lost", ())


def test_what_is_shown_is_the_last_way_to_a_new_job() -> None:
    way = (
        Stage(FAULT, 0.0),
        Stage("new job", 1.04, "8"),
        Stage(RUNS, 2.0, "8"),
        Stage(FAULT, 0.0),
        Stage("noticed", 3.0),
    )
    assert _way(DrillResult("max_retries", "PASS", "", 9.0, way)) == "fault → new job 1.0 s → new job runs 2.0 s"
    assert _way(DrillResult("oom", "PASS", "", 9.0, way[3:])) == "fault → noticed 3.0 s"
    assert _way(DrillResult("node_lost", "SKIPPED", "", 0.0)) == ""
