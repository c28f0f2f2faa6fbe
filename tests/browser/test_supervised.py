"""A supervised run on the page: its job in its row, and all about its restarts in its view."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

from playwright.sync_api import expect

from lastbeat.jobs.restarts.loading import load
from lastbeat.model.job import JobMemory, JobSpec, JobState
from lastbeat.model.reaction import CommandRun, PolicyNote, ReactionMemory
from lastbeat.model.record import Record, Transition
from lastbeat.model.restart import FoundCheckpoint, Mode, RestartEntry, RestartRuling, Supervision
from lastbeat.model.state import State
from lastbeat.model.status import Status
from lastbeat.watch.record.codec import encode
from support.browser import PHONE, OpenTab, serious_faults
from support.cli import LASTBEAT, RunFolder, call
from support.seen_page import open_run, row, section

HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_supervised_run_shows_its_job_its_budget_and_its_checkpoint(tmp_path: Path, tab: OpenTab) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    folder = RunFolder(tmp_path / "training-runs", "llama")
    supervision = Supervision(
        "slurm",
        JobSpec(("train.sbatch",), "/work"),
        "megatron_transient",
        compiled=load("megatron_transient"),
    )
    record = Record(
        "llama",
        State(Status.RUNNING, "job 812 runs"),
        since=now,
        seq=1,
        written_at=now,
        first_looked_at=now,
        supervision=supervision,
        job=JobMemory("slurm", "812", "llama-r1", 1, now, JobState.RUNNING, nodes=("n1", HOSTILE), seen_at=now),
        ruling=RestartRuling(0, restart=True, reason="Transient failure detected", at=now, attempt="1/3"),
        restarts=(RestartEntry(now, Mode.CRASH, "nccl"),),
        checkpoint=FoundCheckpoint("/ckpt/step_1500", 1500, now - timedelta(hours=1), now),
        reactions=ReactionMemory(
            notes=(
                PolicyNote(now - timedelta(hours=2), "started", "job 812 runs"),
                PolicyNote(now, "checkpoint_saved", HOSTILE),
            ),
            commands=(
                CommandRun(
                    "command-checkpoint-1000",
                    "checkpoint_saved",
                    now - timedelta(hours=2),
                    600,
                    "n1",
                    now - timedelta(hours=1),
                    "exit status 3",
                    failed=True,
                    output="commands/command-checkpoint-1000.log",
                ),
                CommandRun("command-checkpoint-1500", "checkpoint_saved", now, 600, "n1"),
            ),
        ),
        history=(Transition(1, now, Status.RUNNING, Status.RUNNING, "Attempt 2 started", 2, step=1501),),
        transitions=1,
    )
    folder.put("metadata.json", "{}")
    folder.put("_watchdog.json", encode(record).decode())
    done = call(LASTBEAT, "sweep", "--once", cwd=tmp_path, LASTBEAT_PAGE_MINUTES="5")
    assert done.returncode == 0, done.stderr
    page = tab((tmp_path / "training-runs" / "_watchdog" / "index.html").as_uri(), size=PHONE).page
    expect(row(page, "llama")).to_contain_text("job 812 r1/3")
    open_run(page, "llama")
    told = section(page, "Job")
    for text in (
        "812 (slurm) RUNNING", HOSTILE, "no supervisor now", "megatron_transient", "crash 2 of 3, stall 2 of 2",
        "step 1,500", "/ckpt/step_1500", "restart, attempt 1/3: Transient failure detected", "lastbeat restart resume",
    ):  # fmt: skip
        expect(told).to_contain_text(text)
    expect(section(page, "Transitions")).to_contain_text("1,501")
    notes = told.get_by_role("table", name="Notes of the policy").get_by_role("row")
    expect(notes.nth(1)).to_contain_text("checkpoint_saved")
    expect(notes.nth(1)).to_contain_text(HOSTILE)
    expect(notes.nth(2)).to_contain_text("job 812 runs")
    commands = told.get_by_role("table", name="Commands of the policy").get_by_role("row")
    expect(commands.nth(1)).to_contain_text("command-checkpoint-1500")
    expect(commands.nth(1)).to_contain_text("runs")
    expect(commands.nth(2)).to_contain_text("✖ exit status 3")
    expect(commands.nth(2)).to_contain_text("commands/command-checkpoint-1000.log")
    assert serious_faults(page, "main") == []
