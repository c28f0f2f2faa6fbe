"""What Ray's commands, its dashboard and ``nvidia-smi`` say, as they are understood. The texts are those of Ray 2.60,
2.9 and 2.3, and of NVIDIA's driver 550."""

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.jobs.launchers.ray import dashboard, gpus, resources
from lastbeat.jobs.launchers.ray_exec import jobs as words
from lastbeat.model.job import JobState
from support.there import there

HEAD = (
    "2026-11-23 02:06:40,493\tINFO cli.py:42 -- \x1b[37mJob submission server address\x1b[39m: "
    "\x1b[1mhttp://127.0.0.1:35713\x1b[22m\n"
)


def ended(word: str, sign: str, colour: int, lines: tuple[int, int, int]) -> str:
    """As ``ray job status`` frames how a job ended."""
    rule = "-" * len(word)
    rows = (rule, word, rule)
    return HEAD + "".join(
        f"2026-11-23 02:06:40,501\t{sign} cli.py:{line} -- \x1b[{colour}m{row}\x1b[39m\n"
        for line, row in zip(lines, rows, strict=True)
    )


def still(job: str, state: str, why: str) -> str:
    return (
        HEAD + f"2026-11-23 02:06:41,428\tINFO cli.py:92 -- Status for job '{job}': {state}\n"
        f"2026-11-23 02:06:41,428\tINFO cli.py:94 -- Status message: {why}\n"
    )


FAILED = ended("Job 'bad' failed", "ERR", 31, (74, 75, 76)) + (
    "2026-11-23 02:06:44,016\tINFO cli.py:89 -- Status message: Job entrypoint command failed with exit code 7, last "
    "available logs (truncated to 20,000 chars):\n"
)


@pytest.mark.parametrize(
    ("text", "job", "state"),
    [
        pytest.param(ended("Job 'ok' succeeded", "SUCC", 32, (66, 67, 68)), "ok", JobState.SUCCEEDED,
                     id="it ended well"),
        pytest.param(FAILED, "bad", JobState.FAILED, id="it failed"),
        pytest.param(HEAD + "2026-11-23 02:06:51,530\tWARN cli.py:85 -- \x1b[33mJob 'a' was stopped\x1b[39m\n", "a",
                     JobState.CANCELLED, id="it was stopped"),
        pytest.param(still("a", "RUNNING", "Job is currently running."), "a", JobState.RUNNING, id="it runs"),
        pytest.param(still("a", "DREAMING", "?"), "a", JobState.UNKNOWN, id="a word that no version has is not known"),
        pytest.param(FAILED + "Job 'bad' succeeded\nStatus for job 'bad': RUNNING\n", "bad", JobState.FAILED,
                     id="what the job itself wrote does not tell its state"),
        pytest.param(still("a", "RUNNING", "Job 'a' succeeded\n"), "a", JobState.RUNNING,
                     id="nor does what its message says"),
        pytest.param(ended("Job 'ok-2' succeeded", "SUCC", 32, (66, 67, 68)), "ok", JobState.UNKNOWN,
                     id="another job's state is none"),
        pytest.param("x" * 3_000_000, "a", JobState.UNKNOWN, id="megabytes of something else"),
    ],
)  # fmt: skip
def test_the_state_that_ray_job_status_tells(text: str, job: str, state: JobState) -> None:
    assert words.state_in(text, job) is state


def test_the_log_in_what_ray_job_logs_prints_is_the_jobs_own() -> None:
    own = "2026-11-23 02:06:33,687\tINFO job_manager.py:581 -- Runtime env is setting up.\nstep 1/900 loss 2.5\n"

    assert words.log_in(HEAD + "2026-11-23 02:06:44,815\tINFO cli.py:569 -- " + own) == own
    # Of a long one the beginning is cut off.
    assert words.log_in("step 7/900 loss 2.5\nstep 8/900\n") == "step 7/900 loss 2.5\nstep 8/900\n"


ROW = {
    "type": "SUBMISSION",
    "submission_id": "we ird=;'\"é",
    "status": "FAILED",
    "runtime_env": {"env_vars": {"A": "b"}},
}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param(json.dumps([ROW]) + "\n", [ROW], id="one"),
        pytest.param("No resource in the cluster\n", [], id="none"),
        pytest.param("WARNING [x] 1 of 2 nodes did not answer\n" + json.dumps([ROW]), [ROW], id="behind a warning"),
        pytest.param(json.dumps([ROW, 3, None]), [ROW], id="what is no row is left out"),
    ],
)
def test_the_rows_that_ray_list_prints(text: str, rows: list[object]) -> None:
    assert words.listed_in(text) == rows


@pytest.mark.parametrize("text", ["", "Traceback (most recent call last):\n", "[{", "{}", "[" * 100_000])
def test_what_is_no_list_is_told_apart_from_an_empty_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"no list|Expecting"):
        words.listed_in(text)


STATUS = """\
======== Autoscaler status: 2026-11-23 02:13:31.361740 ========
Node status
---------------------------------------------------------------
Active:
 1 node_0aabfbd9f6bb65f1fa7d1adad08f8923c71793170b422d3addd43b8d
Pending:
 (no pending nodes)
Recent failures:
 (no failures)

Resources
---------------------------------------------------------------
Total Usage:
 3.0/4.0 CPU
 1.5/2.0 GPU
 0B/22.45GiB memory
 0B/95.37MiB object_store_memory

From request_resources:
 (none)
Pending Demands:
 (no resource demands)
"""


def test_the_resources_that_ray_status_prints() -> None:
    found = there(resources.resources_in(STATUS))

    assert dict(found) == {
        "gpus_available": 2.0,
        "gpus_used": 1.5,
        "cpus_available": 4.0,
        "cpus_used": 3.0,
        "healthy": True,
        "failed_nodes": 0,
        "pending": [],
    }


def cluster_status(**more: object) -> dict[str, object]:
    usage = {"CPU": [3.0, 4.0], "GPU": [1.5, 2.0], "memory": [0.0, 24109117184.0]}
    return {"data": {"clusterStatus": {"loadMetricsReport": {"usage": usage, **more}, "autoscalerReport": {}}}}


def test_the_dashboard_tells_the_same_as_ray_status() -> None:
    waits = resources.resources_of(cluster_status(resourceDemand=[[{"GPU": 64.0}, 2]]))

    assert resources.resources_of(cluster_status()) == resources.resources_in(STATUS)
    assert waits is not None
    assert waits.pending == ["{GPU: 64.0}: 2 pending"]


def test_a_newer_dashboard_tells_it_in_a_text_alone() -> None:
    document = {"data": {"clusterStatus": None, "autoscalingStatus": STATUS}}

    assert resources.resources_of(document) == resources.resources_in(STATUS)


def test_gpus_as_nvidia_smi_lists_them() -> None:
    found_gpus = gpus.gpus_in("95, 70312, 81559\n0, 4, 81559\n")
    processes = gpus.processes_in("4711, /usr/bin/python3, 70000\n", "worker-0")

    found = gpus.utilization([found_gpus._replace(processes=processes)])

    assert dict(found) == {
        "gpu_count": 2,
        "gpu_utilizations": [95.0, 0.0],
        "memory_used": [70312.0, 4.0],
        "memory_total": [81559.0, 81559.0],
        "processes": [{"pid": 4711, "name": "/usr/bin/python3", "memory": 70000.0, "place": "worker-0"}],
        "avg_utilization": 47.5,
        "healthy": True,
        "faults": [],
    }


@pytest.mark.parametrize(
    ("text", "average", "healthy"),
    [
        pytest.param("100, 1, 2\n[N/A], 1, 2\n", 100.0, True, id="one does not tell: it has no part in the average"),
        pytest.param("[Not Supported], 1, 2\n", None, False, id="none tells"),
        pytest.param("7000, 1, 2\n", None, False, id="more than all of it is no percentage"),
    ],
)
def test_how_busy_gpus_are(text: str, average: float | None, healthy: bool) -> None:
    found = gpus.utilization([gpus.gpus_in(text)])

    assert (found.avg_utilization, found.healthy) == (average, healthy)


def test_names_of_processes_are_hostile_text() -> None:
    text = '12, a\x1b[31m, "b, 10\n13, [Insufficient Permissions], [N/A]\nNo running processes found\n-1, x, 3\n, , \n'

    found = gpus.processes_in(text, "pod")

    assert [(each.pid, each.memory) for each in found] == [(12, 10.0), (13, None)]
    assert all("\x1b" not in each.name for each in found)


NODE_GPU = {
    "index": 0,
    "uuid": "GPU-1",
    "name": "NVIDIA H100 80GB HBM3",
    "utilizationGpu": 88,
    "memoryUsed": 70312,
    "memoryTotal": 81559,
    "processesPids": [{"pid": 4711, "gpuMemoryUsage": 70000, "gpuUtilization": 88}],
}


def test_gpus_as_the_dashboard_tells_of_a_node() -> None:
    found = gpus.utilization([gpus.gpus_of({"gpus": [NODE_GPU]}, "node-7")])

    assert (found.gpu_utilizations, found.memory_used, found.memory_total) == ([88.0], [70312.0], [81559.0])
    assert [dict(each) for each in found.processes] == [{"pid": 4711, "name": "", "memory": 70000.0, "place": "node-7"}]


@pytest.mark.parametrize(
    "node",
    [
        {"gpus": 3},
        {"gpus": [None, "x"]},
        {"gpus": [{"utilizationGpu": math.nan, "memoryUsed": "seven", "memoryTotal": True, "processesPids": {"a": 1}}]},
        {"gpus": [{"utilizationGpu": 10**400}]},
    ],
)
def test_a_node_that_tells_nonsense_makes_nothing_up(node: dict[str, object]) -> None:
    found = gpus.utilization([gpus.gpus_of(node, "node")])

    assert found.avg_utilization is None
    assert set(found.memory_used) <= {0.0}


TEXTS = st.text(alphabet=st.sampled_from("-Job 'a' failed\n\x1b[31m:/.0123456789,CPUGUsage{}[]\""), max_size=300)


@given(TEXTS)
def test_no_text_is_too_hostile(text: str) -> None:
    words.state_in(text, "a")
    words.log_in(text)
    resources.resources_in(text)
    gpus.processes_in(text, "pod")
    with suppress(ValueError):
        gpus.gpus_in(text)
    with suppress(ValueError):
        words.listed_in(text)


def test_logs_are_taken_by_the_age_of_their_job_and_not_by_their_name() -> None:
    jobs: list[dict[str, object]] = [
        {"submission_id": "zeta", "start_time": 1000},
        {"submission_id": "alpha", "start_time": 2000},
        {"submission_id": None, "start_time": 3000},
        {"submission_id": "beta", "start_time": "soon"},
    ]
    drivers = ["job-driver-alpha.log", "job-driver-zeta.log", "job-driver-beta.log"]
    workers = [
        "worker-ff-00010000-12.out",  # The 256th job: Ray writes numbers with the least byte first.
        "worker-aa-ffffffff-99.out",  # A worker that has no job yet.
        "worker-ee-02000000-70.out",
        "worker-bb-ff000000-13.out",
    ]

    assert dashboard.oldest_first(drivers, jobs) == [drivers[2], drivers[1], drivers[0]]
    assert dashboard.oldest_first(workers, jobs) == [workers[1], workers[2], workers[3], workers[0]]
