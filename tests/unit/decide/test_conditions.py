"""The table of conditions: what raises one, what stands where evidence was unread, and what each row says."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.curve import CurvePoint
from lastbeat.model.efa_use import EFA, SOCKET, EfaUse
from lastbeat.model.health import HealthCondition
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.job import GpuUse, JobMemory, JobReport, JobSight, JobState
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import RankFiles, RanksLookedAt, Seen
from lastbeat.model.policy import Policy
from lastbeat.model.record import HeartbeatMemory, Record, UsualNumbers
from lastbeat.model.restart import FoundCheckpoint
from lastbeat.model.signal import Absence
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.watch.decide.conditions import table
from lastbeat.watch.decide.conditions.condition import Check
from lastbeat.watch.decide.evidence import AttemptEvidence
from lastbeat.watch.decide.levels import Level, Rise
from lastbeat.watch.decide.numbers import Numbers
from lastbeat.watch.decide.pace import Slowdown, StepPace

MINUTE = timedelta(minutes=1)
NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
BEAT = Heartbeat(NOW, "1", world_size=2)
STEP = Heartbeat(NOW, "1", step=7, loss=2.5)
KNOWN = HeartbeatMemory(NOW, alive_at=NOW, step=7, step_at=NOW)
EARLIER = HeartbeatMemory(NOW - MINUTE, alive_at=NOW - MINUTE, step=6, step_at=NOW - MINUTE)
RANKS = RanksLookedAt(RankFiles(), 245.0)
LOGS = LogReport(efa=EfaUse(True, EFA, True))
HIDDEN = LogReport(efa=LOGS.efa, unread=("train.log",), hidden=("train.log: permission denied",))
JOB = JobMemory("slurm", "77", "llama-r0", 0, NOW, JobState.RUNNING, seen_at=NOW)
WAITS = replace(JOB, state=JobState.PENDING)
RUNS = JobSight(JOB, JobReport(JobState.RUNNING, gpus=GpuUse(8, 8)))
SAVED = FoundCheckpoint("s3://b/step-5000", 5000, NOW - 11 * MINUTE)
POINTS = tuple(CurvePoint(float(step), step, 2.5 + step / 1000, 1e-4) for step in range(300))
NUMBERS = Numbers(POINTS, StepPace(1.0, None), Level(0.9, None), Level(0.1, None))
HIGHER = Rise(2.5, 3.4, 5200, steady=True, lasts=60)
IDLE = replace(JOB, idle_since=NOW - timedelta(hours=1))
POLICY = Policy(absences=(Absence("checkpoint_overdue", "checkpoint_saved", 600, 600),))
ROWS = (*table.while_beating(POLICY), *table.OF_JOB)
NAMES = list(dict.fromkeys(row.name for row in ROWS))


def record(names: Iterable[str]) -> Record:
    """A record that holds these conditions."""
    state = State(Status.RUNNING, conditions=dict.fromkeys(names, "as recorded"))
    return Record("llama", state, metadata=EARLIER, progress=EARLIER)


WELL = AttemptEvidence(
    seen=Seen(metadata=BEAT, progress=STEP, ranks=RANKS, logs=LOGS, job=RUNS),
    metadata=KNOWN,
    progress=KNOWN,
    first_looked_at=NOW,
    started=NOW,
    before=record(NAMES),
    job=JOB,
    numbers=NUMBERS,
)


def without(**seen: Any) -> AttemptEvidence:
    """The evidence of a run that is well, but for what ``seen`` changes of this check's observation."""
    return replace(WELL, seen=replace(WELL.seen, **seen))


def counting(**numbers: Any) -> AttemptEvidence:
    """The same, but for what ``numbers`` change of what this check shows of its curve."""
    return replace(WELL, numbers=replace(NUMBERS, **numbers))


def points(loss: Callable[[int], float], rate: Callable[[int], float] = lambda _: 1e-4) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(float(step), step, loss(step), rate(step)) for step in range(0, 1000, 10))


def raised(evidence: AttemptEvidence) -> dict[str, str]:
    return {name: each.text for name, each in table.raised(ROWS, Check(evidence, POLICY, NOW)).items()}


AGED = HeartbeatMemory(NOW - 11 * MINUTE, alive_at=NOW - 11 * MINUTE, step=7, step_at=NOW - 11 * MINUTE)
RAISED = [
    ("a run that is well raises nothing", WELL, {}),
    ("a stale metadata.json, while progress goes on", replace(WELL, metadata=AGED),
     {"metadata_stale": "metadata.json is 11m old (>10m) while the other is fresh"}),
    ("a stale progress.json, while metadata.json goes on", replace(WELL, progress=AGED),
     {"progress_stale": "progress.json is 11m old (>10m) while the other is fresh"}),
    ("a document that is cut off", without(metadata=replace(BEAT, fault="cut off")),
     {"heartbeat_unreadable": "metadata.json: cut off"}),
    ("a clock that is slow", replace(WELL, metadata=replace(KNOWN, own_time=NOW, skew_s=300.0)),
     {"clock_skew": "the clock of the instance is 5m behind the store's"}),
    ("a NaN loss", without(progress=replace(STEP, loss=math.nan)), {"loss_nan": "the loss is NaN since step 7"}),
    ("steps that take longer", counting(pace=StepPace(1.0, Slowdown(2.1, 1.0, 5200, 660.0))),
     {"slowdown": "2.1 s a step since step 5200 (11m), usually 1 s"}),
    ("a loss that rises", counting(loss=Level(0.9, HIGHER)),
     {"loss_diverging": "the loss has risen from 2.5 to 3.4 since step 5200; no earlier checkpoint is known"}),
    ("a loss that jumped", counting(loss=Level(0.9, HIGHER._replace(steady=False))),
     {"loss_spike": "the loss jumped from 2.5 to 3.4 since step 5200; no earlier checkpoint is known"}),
    ("gradients that grow", counting(norm=Level(0.1, HIGHER)), {"grad_norm_diverging":
     "the gradient norm has risen from 2.5 to 3.4 since step 5200; no earlier checkpoint is known"}),
    ("gradients that jumped", counting(norm=Level(0.1, HIGHER._replace(steady=False))), {"grad_norm_spike":
     "the gradient norm jumped from 2.5 to 3.4 since step 5200; no earlier checkpoint is known"}),
    ("a loss that is the same for long", counting(points=points(lambda step: 2.5 if step < 500 else 2.3026)),
     {}),
    ("a loss that was never the same before", counting(points=points(lambda step: max(step, 500) / 1001)), {}),
    ("… and is now", counting(points=points(lambda step: 1 - min(step, 500) / 1001)),
     {"loss_flat": "the loss has been exactly 0.5005 since step 500"}),
    ("a loss with too few digits to be exact", counting(points=points(lambda step: 1 - min(step, 500) / 1000)), {}),
    ("a learning rate of zero", counting(points=points(lambda step: 1 / (step + 1), lambda step: float(step < 900))),
     {"lr_zero": "the learning rate has been 0 since step 900"}),
    ("… for a moment", counting(points=points(lambda step: 1 / (step + 1), lambda step: float(step < 950))), {}),
    ("… at the end", replace(counting(points=points(lambda step: 1 / (step + 1), lambda step: float(step < 900))),
                             seen=replace(WELL.seen, progress=replace(STEP, total_steps=1000))), {}),
    ("sockets in place of EFA", without(logs=LogReport(efa=EfaUse(False, SOCKET, True))),
     {"efa_fallback": "NCCL uses sockets, though EFA is there or asked for"}),
    ("a GPU that its node reports lost",
     without(metadata=replace(BEAT, host="gpu-17", health=(HealthCondition("gpu_lost", "GPU 3: Xid 79"),))),
     {"gpu_lost": "gpu-17: GPU 3: Xid 79"}),
    ("a job that is held in its queue",
     without(job=JobSight(replace(WAITS, seen_at=NOW - 6 * MINUTE), JobReport(JobState.PENDING, reason="JobHeldUser"))),
     {"job_pending": "job 77 has waited for its turn for 6m (JobHeldUser: its owner holds it back)"}),
    ("a job that has run for long waits for nothing",
     without(job=JobSight(replace(JOB, seen_at=NOW - 300 * MINUTE), RUNS.report)), {}),
    ("a job whose GPUs are idle", without(job=JobSight(IDLE, JobReport(JobState.RUNNING, gpus=GpuUse(0, 8)))),
     {"gpu_idle": "job 77 runs, and none of 8 GPUs has been seen in use for 1h 00m"}),
]  # fmt: skip


@pytest.mark.parametrize(("evidence", "expected"), [row[1:] for row in RAISED], ids=[row[0] for row in RAISED])
def test_what_raises_a_condition(evidence: AttemptEvidence, expected: dict[str, str]) -> None:
    assert raised(replace(evidence, before=record([]))) == expected


NODES = {"gpu_lost", "gpu_ecc", "gpu_throttled", "gpu_idle", "ram_low", "disk_low", "network_errors"}
FROM_LOGS = {"failure_in_log", "warning_in_log", "checkpoint_overdue"}
STANDS = [
    ("nothing stands that was looked at", WELL, set()),
    ("a silent rank stands while ranks are not listed, and so do their nodes", without(ranks=None),
     {"rank_silent", *NODES}),
    ("… while the store does not give one of their files", without(ranks=replace(RANKS, unread=True)),
     {"rank_silent", *NODES}),
    ("… while one may not be read", without(ranks=replace(RANKS, denied=True)), {"rank_silent", *NODES}),
    ("a node's conditions stand while more nodes say something than could be read",
     without(ranks=replace(RANKS, ill_left=True)), NODES),
    ("what rank 0 reports stands while its metadata.json is broken", without(metadata=replace(BEAT, fault="cut off")),
     {"straggler", "slow", *NODES}),
    ("… or gone", without(metadata=None), {"straggler", "slow", *NODES}),
    ("a node's conditions stand while an old metadata.json is stored again", replace(WELL, metadata=replace(
        KNOWN, suspect=True)), NODES),
    ("what a stricter limit raised stands until something new comes",
     replace(WELL, before=replace(record(NAMES), metadata=KNOWN, progress=KNOWN)),
     {"metadata_stale", "progress_stale", "stalled"}),
    ("a NaN loss stands while no loss is shown", without(progress=replace(STEP, loss=None)), {"loss_nan"}),
    ("what a curve shows stands while a look shows too little of it", replace(WELL, numbers=Numbers()),
     {"slowdown", "loss_spike", "loss_diverging", "grad_norm_spike", "grad_norm_diverging", "loss_flat", "lr_zero"}),
    ("… or nothing of the loss", counting(loss=None, norm=None),
     {"loss_spike", "loss_diverging", "grad_norm_spike", "grad_norm_diverging"}),
    ("what logs say stands while they are not read", replace(without(logs=None), started=None),
     {"efa_fallback", *FROM_LOGS}),
    ("… or not all of them", replace(without(logs=replace(LOGS, unread=("rank3.log",))), started=None), FROM_LOGS),
    ("NCCL over sockets stands until a line tells of another network", without(logs=LogReport()), {"efa_fallback"}),
    ("a standstill stands while logs are hidden that alone show steps",
     replace(without(logs=HIDDEN, progress=replace(STEP, step=None)), progress=None, started=None),
     {"stalled", "progress_stale", *FROM_LOGS}),
    ("a job's wait stands while its launcher does not answer",
     replace(without(job=JobSight(WAITS, JobReport(JobState.UNKNOWN))), job=WAITS), {"job_pending"}),
    ("… or is not asked", replace(without(job=None), job=WAITS), {"job_pending"}),
    ("and so do a running job's conditions", without(job=None), {"job_log_missing", "gpu_idle"}),
    ("idle GPUs stand while the launcher cannot count them",
     without(job=JobSight(IDLE, JobReport(JobState.RUNNING))), {"gpu_idle"}),
]  # fmt: skip


@pytest.mark.parametrize(("evidence", "stands"), [row[1:] for row in STANDS], ids=[row[0] for row in STANDS])
def test_where_evidence_is_unread_what_stood_stands(evidence: AttemptEvidence, stands: set[str]) -> None:
    found = {name for name, text in raised(evidence).items() if text == "as recorded"}
    assert found == stands, "a condition that needs the evidence which is missing here belongs into this row"


NOTHING_READ = replace(WELL, seen=Seen(), job=JOB, started=None, numbers=Numbers())


@given(st.permutations(NAMES))
def test_the_order_of_the_table_counts_and_not_that_of_the_record(names: list[str]) -> None:
    found = raised(replace(NOTHING_READ, before=record(names)))
    assert list(found) == list(raised(NOTHING_READ))


def test_nothing_stands_that_the_record_does_not_hold() -> None:
    assert raised(replace(NOTHING_READ, before=record([]))) == {}


CHANGED = [
    ("a checkpoint that was saved then", replace(WELL.before, checkpoint=SAVED), {},
     "; a checkpoint was saved at step 5000"),
    ("one that was saved long before", replace(WELL.before, checkpoint=replace(SAVED, saved_at=NOW - 90 * MINUTE)), {},
     ""),
    ("a phase", WELL.before, {"metadata": replace(BEAT, phase="validation")}, "; in phase validation"),
    ("a throttled GPU", WELL.before,
     {"metadata": replace(BEAT, host="gpu-17", health=(HealthCondition("gpu_throttled", "GPU 3 at 900 MHz"),))},
     "; gpu-17: GPU 3 at 900 MHz"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "seen", "told"), [row[1:] for row in CHANGED], ids=[row[0] for row in CHANGED])
def test_a_slowdown_names_what_changed(before: Record, seen: dict[str, Any], told: str) -> None:
    slow = counting(pace=StepPace(1.0, Slowdown(2.1, 1.0, 5200, 660.0)))
    evidence = replace(slow, seen=replace(WELL.seen, **seen), before=replace(before, state=record([]).state))
    assert raised(evidence)["slowdown"] == f"2.1 s a step since step 5200 (11m), usually 1 s{told}"


def test_a_slowdown_from_the_start_of_an_attempt_names_its_node() -> None:
    slow = counting(
        pace=StepPace(2.1, Slowdown(2.1, 1.0, 0, 660.0)),
        usual=UsualNumbers(2, 300, node="gpu-8"),
        earlier=UsualNumbers(1, 5000, step_s=1.0, node="gpu-3"),
    )
    assert raised(replace(slow, before=record([])))["slowdown"].endswith("; node gpu-8, before gpu-3")


def test_a_higher_loss_names_the_last_good_checkpoint() -> None:
    evidence = counting(loss=Level(0.9, HIGHER))
    before = replace(WELL.before, checkpoint=SAVED, state=record([]).state)
    assert raised(replace(evidence, before=before))["loss_diverging"].endswith(
        "since step 5200; the last checkpoint before that is of step 5000"
    )
    later = replace(before, checkpoint=replace(SAVED, step=5300))
    assert raised(replace(evidence, before=later))["loss_diverging"].endswith("no earlier checkpoint is known")


def test_a_condition_of_numbers_keeps_its_name_and_text_while_it_stands() -> None:
    jumped = counting(loss=Level(0.9, HIGHER._replace(steady=False)))
    assert raised(replace(jumped, before=record(["loss_diverging"]))) == {"loss_diverging": "as recorded"}
