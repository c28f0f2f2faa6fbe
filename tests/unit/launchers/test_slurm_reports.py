"""What Slurm's words mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.jobs.launchers.slurm.reports import accounted, controlled, node_in_output, node_names
from lastbeat.model.job import JobState
from support.row_by_row import labelled
from support.there import there

ROWS = [
    ("it ended well", "COMPLETED|0:0", JobState.SUCCEEDED, 0, None),
    ("a signal ended it", "FAILED|0:9", JobState.FAILED, None, 9),
    ("somebody cancelled it", "CANCELLED by 1000|0:15", JobState.CANCELLED, None, 15),
    ("its deadline passed", "DEADLINE|0:0", JobState.TIMEOUT, None, None),
    ("its node was lost", "NODE_FAIL|0:0", JobState.NODE_LOST, None, None),
    ("memory ran out", "OUT_OF_MEMORY|0:125", JobState.FAILED, None, 125),
    ("it was preempted", "PREEMPTED|0:0", JobState.PREEMPTED, None, None),
    ("it runs", "RUNNING|0:0", JobState.RUNNING, None, None),
    ("a word of a later version", "TELEPORTED|0:0", JobState.UNKNOWN, None, None),
]
TIMES = "2026-11-22T18:44:05|2026-11-22T18:44:11"


@pytest.mark.parametrize(("row", "state", "code", "number"), labelled(ROWS))
def test_what_the_accounting_says_in_our_words(row: str, state: JobState, code: int | None, number: int | None) -> None:
    report = there(accounted(f"{row}|{TIMES}|n[1-2]|llama-r0\n"))
    assert (report.state, report.exit_code, report.signal) == (state, code, number)


def test_of_a_job_that_slurm_started_again_the_last_row_counts() -> None:
    rows = ("PREEMPTED|0:0", "NODE_FAIL|0:0", "COMPLETED|0:0")
    report = there(accounted("".join(f"{row}|{TIMES}|n1|llama-r0\n" for row in rows)))
    assert (report.state, report.restarts) == (JobState.SUCCEEDED, 2)


def test_a_number_that_was_another_jobs_before_counts_for_nothing() -> None:
    report = there(accounted(f"FAILED|1:0|{TIMES}|n1|another\nCOMPLETED|0:0|{TIMES}|n2|we|ird\n"))
    assert (report.state, report.restarts, report.nodes) == (JobState.SUCCEEDED, 0, ("n2",))


SHOWN = """\
JobId=8 JobName=we ird JobState=FAILED
   UserId=ada(1000) GroupId=ada(1000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0
   StartTime=2026-11-22T18:44:13 EndTime=2027-11-22T18:44:13 Deadline=N/A
   NodeList=n[2-3]
   BatchHost=n2
   StdOut={output}
"""


def test_a_job_whose_name_looks_like_fields_is_read_as_what_it_is() -> None:
    report = controlled(SHOWN.format(output="/dev/null"))
    assert (report.state, report.nodes, report.restarts) == (JobState.RUNNING, ("n2", "n3"), 1)
    assert (report.exit_code, report.ended_at, report.outputs) == (None, None, ())


def test_a_job_that_could_not_be_launched_waits_in_vain_by_its_reason_as_scontrol_shows_it() -> None:
    shown = SHOWN.format(output="/dev/null").replace("JobState=RUNNING Reason=None", "JobState=PENDING Reason={}")

    report = controlled(shown.format("launch_failed_requeued_held"))

    assert launcher_traits("slurm").wait_reason(report.reason).hopeless


def test_several_jobs_are_not_one() -> None:
    text = SHOWN.format(output="/x") + "\n" + SHOWN.format(output="/x").replace("=8", "=9")
    assert controlled(text).state is JobState.UNKNOWN


OUTPUTS = [
    # As Slurm 22.05 named the file of job 8 on the host vm, and what scontrol had said.
    ("/l/8-we ird-8-%N-ada-%%-%5j-%n-%t-%s-%J-%q.out", "/l/8-we ird-8-vm-ada-%-00008-0-0-batch-8-%q.out"),
    ("/l/%x-%j.out", "/l/we ird JobState=FAILED-8.out"),
    ("/l/%3N-%2x-%A", "/l/vm-we ird JobState=FAILED-8"),
    ("/l/\\%j.out", "/l/%j.out"),
]


@pytest.mark.parametrize(("pattern", "path"), OUTPUTS)
def test_the_path_of_the_output_is_as_slurm_names_it(pattern: str, path: str) -> None:
    assert controlled(SHOWN.format(output=pattern), "vm").outputs == (path,)


def test_the_host_is_asked_for_where_a_path_has_it() -> None:
    assert node_in_output(SHOWN.format(output="/l/%N")) == "n2"
    assert node_in_output(SHOWN.format(output="/l/%j")) is None


@given(st.text())
def test_whatever_slurm_prints_is_read_or_unknown(text: str) -> None:
    controlled(text)
    accounted(text)
    node_names(text)
