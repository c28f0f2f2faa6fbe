"""Which checkpoints attempts died on before their first step."""

from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.job import JobMemory, JobReport, JobSight, JobState
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import Seen
from lastbeat.model.restart import Mode, RestartEntry
from lastbeat.watch.decide.quarantine import QUICK_S, first_step, quarantined

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SHOWN = RestartEntry(NOW, Mode.CRASH, "nccl", step=90)
"""A restart of a job that had shown steps."""


def at_step(step: int | None) -> Seen:
    return Seen(progress=Heartbeat(NOW, "v", step=step, loss=1.0))


def ended(state: JobState = JobState.FAILED, lived_s: float | None = 60.0) -> JobSight:
    started = None if lived_s is None else NOW - timedelta(seconds=lived_s)
    memory = JobMemory("local", "1", "run-r1", 1, NOW - timedelta(hours=1))
    return JobSight(memory, JobReport(state, started_at=started, ended_at=NOW))


ENDS = [
    ("a later step: it got on", at_step(101), ended(), 100, (), True),
    ("its steps are counted anew: it got on", at_step(3), ended(), 100, (), True),
    ("a step, and its checkpoint tells none: it got on", at_step(3), ended(), None, (), True),
    ("a later step, whoever ended it", at_step(101), ended(JobState.CANCELLED), 100, (), True),
    ("no more than the step of its checkpoint", at_step(100), ended(), 100, (), False),
    ("no step, though the run shows steps", Seen(), ended(lived_s=90_000), 100, (SHOWN,), False),
    ("it hangs before its first step", Seen(), ended(JobState.RUNNING, 9e4), 100, (SHOWN,), False),
    ("no step was ever seen, and it died soon", Seen(), ended(lived_s=QUICK_S - 1), 100, (), False),
    ("no step was ever seen, and it lived for long", Seen(), ended(lived_s=QUICK_S + 1), 100, (), None),
    ("no step was ever seen, and nobody knows when it began", Seen(), ended(lived_s=None), 100, (), None),
    ("somebody cancelled it", Seen(), ended(JobState.CANCELLED), 100, (SHOWN,), None),
    ("nobody can ask", Seen(), ended(JobState.UNKNOWN), 100, (SHOWN,), None),
    ("its log could not be read", Seen(logs=LogReport(unread=("a",))), ended(), 100, (SHOWN,), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "sight", "resume_step", "restarts", "expected"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_whether_an_attempt_got_to_a_step(
    seen: Seen,
    sight: JobSight,
    resume_step: int | None,
    restarts: tuple[RestartEntry, ...],
    expected: bool | None,
) -> None:
    assert first_step(seen, sight, resume_step, restarts, NOW) is expected


def died(name: str | None, stepped: bool | None = False) -> RestartEntry:
    return RestartEntry(NOW, Mode.CRASH, "unknown", resumed_from=name, first_step=stepped)


HISTORIES: list[tuple[str, list[RestartEntry], set[str]]] = [
    ("nobody died", [], set()),
    ("one attempt died on it", [died("/ckpt/step_2")], set()),
    ("two did", [died("/ckpt/step_2"), died("/ckpt/step_2")], {"step_2"}),
    ("two did, in a bucket", [died("s3://b/c/step_2/"), died("s3://b/c/step_2/")], {"step_2"}),
    ("of one nobody knows", [died("/ckpt/step_2"), died("/ckpt/step_2", None)], set()),
    ("another one got on from it", [died("/ckpt/step_2"), died("/ckpt/step_2", True), died("/ckpt/step_2")], set()),
    ("they began without one", [died(None), died(None)], set()),
    ("others lie between", [died("/ckpt/step_2"), died("/ckpt/step_1", True), died("/ckpt/step_2")], {"step_2"}),
]


@pytest.mark.parametrize(("history", "names"), [row[1:] for row in HISTORIES], ids=[row[0] for row in HISTORIES])
def test_two_deaths_before_the_first_step_put_a_checkpoint_in_quarantine(
    history: list[RestartEntry], names: set[str]
) -> None:
    found = quarantined(history)
    assert set(found) == names
    assert all(each.why == "2 attempts died on it before their first step" for each in found.values())
