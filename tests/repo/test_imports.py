"""What `import lastbeat` costs whoever puts it into a training script."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat.jobs.restarts.loading import load
from lastbeat.model.codec import codec
from lastbeat.model.restart import RestartPolicy
from support.checkout import ROOT

HEAVY = (
    "asyncio", "boto3", "botocore", "click", "concurrent", "dotenv", "email", "http", "logging", "numpy", "obstore",
    "pydantic", "requests", "socket", "ssl", "subprocess", "urllib3",
)  # fmt: skip

PROBE = (
    "import sys, json; before = set(sys.modules); import {name}; print(json.dumps(sorted(set(sys.modules) - before)))"
)


def _loaded_by(name: str) -> set[str]:
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")])}
    # Without site: an editable install's own hooks may load what lastbeat does not.
    command = [sys.executable, "-S", "-c", PROBE.format(name=name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_lastbeat_leaves_alone_what_is_heavy() -> None:
    loaded = {module.split(".")[0] for module in _loaded_by("lastbeat")}
    assert loaded.isdisjoint(HEAVY)


def test_re_runs_load_no_framework_and_nothing_of_the_watchdog() -> None:
    loaded = _loaded_by("lastbeat.rerun")
    assert loaded.isdisjoint({"numpy", "torch", "obstore", "boto3", "pydantic", "requests"})
    assert [
        name
        for name in loaded
        if name.split(".")[0] == "lastbeat" and name.split(".")[1:2] and name.split(".")[1] in WATCHDOGS
    ] == []


COMMAND = """
import json, sys
before = set(sys.modules)
from lastbeat_cli.main import main
main(sys.argv[1:])
print(json.dumps(sorted(set(sys.modules) - before)))
"""
CHECKS_FILES = ("yaml", "pydantic", "lastbeat.explain.handwritten", "lastbeat.explain.signals.catalogue_files")
READS_LOGS = (
    "lastbeat.watch.observe.logs",
    "lastbeat.explain.signals.loading",
    "lastbeat.explain.scanning.matching",
    "lastbeat.model.signal",
)


def _printed(folder: Path, code: str, *arguments: str, **settings: str) -> list[str]:
    """The lines that ``code`` prints in ``folder``, which is its home; nothing else of this machine is set."""
    roots = os.pathsep.join([str(ROOT / "core"), str(ROOT / "cli")])
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": roots, **settings}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _loaded_by_command(folder: Path, *arguments: str, **settings: str) -> list[str]:
    # Nobody answers there, and nobody has to.
    printed = _printed(folder, COMMAND, *arguments, **{"SLACK_WEBHOOK_URL": "http://127.0.0.1:9/", **settings})
    modules: list[str] = json.loads(printed[-1])
    return modules


def _run_folder(root: Path, **files: str) -> Path:
    run = root / "runs" / "run-1"
    run.mkdir(parents=True)
    for name, text in files.items():
        (run / name).write_text(text)
    return run


@pytest.mark.parametrize("log", [False, True], ids=["no log", "a log"])
def test_what_reads_logs_is_loaded_where_there_are_logs(tmp_path: Path, log: bool) -> None:
    run = _run_folder(tmp_path, **{"metadata.json": "{}"})
    if log:
        (run / "logs").mkdir()
        (run / "logs" / "rank0.log").write_text("step 1 loss 2.5\n")
    loaded = set(_loaded_by_command(tmp_path, "watch", "--run-id", "run-1", "--once", "--root", "runs"))
    assert {name in loaded for name in READS_LOGS} == {log}
    assert loaded.isdisjoint(CHECKS_FILES), "these are for a user's own catalogue alone"


NOT_FOR_A_HEALTHY_RUN = (
    # what starts jobs, rules on them and answers failures
    "lastbeat.jobs", "lastbeat.explain.launchers",
    "lastbeat.training.exec.in_place",
    "lastbeat.watch.decide.goodput", "lastbeat.watch.decide.reactions", "lastbeat.watch.decide.restart",
    "lastbeat.watch.decide.past_run",
    # what reads and explains logs
    "lastbeat.explain.causes.explaining", "lastbeat.watch.observe.logs", "lastbeat.explain.scanning",
    "lastbeat.explain.signals.loading",
    # fleets, and people who look at them
    "lastbeat.fleet", "lastbeat.model.group", "lastbeat.model.fleet", "lastbeat.views", "lastbeat.views.page",
    # channels that are not set up, and how one sends
    "lastbeat.alerts.pagerduty", "lastbeat.alerts.slack_bot", "lastbeat.alerts.sns", "lastbeat.alerts.webhook",
    "lastbeat.alerts.apprise_urls", "lastbeat.alerts.web.posting", "lastbeat.alerts.slack_blocks",
    "asyncio", "boto3", "concurrent", "dotenv", "email", "http", "pydantic", "requests", "ssl", "statistics",
    "typing_extensions", "yaml",
)  # fmt: skip


def test_a_look_at_a_healthy_run_loads_what_it_needs_and_little_more(tmp_path: Path) -> None:
    metadata, progress = '{"run_id": "run-1", "status": "RUNNING"}', '{"step": 1, "total_steps": 9}'
    _run_folder(tmp_path, **{"metadata.json": metadata, "progress.json": progress})
    look = ("watch", "--run-id", "run-1", "--once", "--root", "runs")
    _loaded_by_command(tmp_path, *look)
    loaded = _loaded_by_command(tmp_path, *look)
    own = [name for name in loaded if name.startswith("lastbeat")]
    assert [name for name in loaded if name.startswith(NOT_FOR_A_HEALTHY_RUN)] == []
    # Each costs a cron job a third of a millisecond in each minute. 181 and 71 to 98, by version of Python, today.
    assert len(own) <= 181, own
    assert len(loaded) - len(own) <= 110, sorted(set(loaded) - set(own))


def test_help_loads_options_and_settings_alone(tmp_path: Path) -> None:
    loaded = _loaded_by_command(tmp_path, "watch", "--help")
    own = [name for name in loaded if name.startswith("lastbeat")]
    assert [name for name in loaded if name.startswith((*NOT_FOR_A_HEALTHY_RUN, "obstore", "socket"))] == []
    assert len(own) <= 51, own
    assert len(loaded) - len(own) <= 110, sorted(set(loaded) - set(own))


def test_explaining_a_log_loads_nothing_that_a_watch_knows(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 loss 2.5\nMemoryError\n")
    told, modules = map(json.loads, _printed(tmp_path, COMMAND, "explain", "train.log", "--json"))
    assert told["cause"]["error_type"] == "oom"
    assert {"lastbeat.model.outcome", "lastbeat.model.record", "lastbeat.model.observation"}.isdisjoint(modules)


def test_a_pass_with_an_alert_follows_routes_without_reading_yaml(tmp_path: Path) -> None:
    run = _run_folder(tmp_path, **{"metadata.json": "{}", "_error": "ValueError: bad"})
    (tmp_path / "routes.yaml").write_text("default: {to: webhook}\n")
    settings = {"MONITORING_ROOT": "runs", "LASTBEAT_WEBHOOK_URL": "http://127.0.0.1:9/"}
    for arguments, reads in (
        (["routes", "set", "routes.yaml"], True),
        (["watch", "--run-id", "run-1", "--once"], False),
    ):
        loaded = _loaded_by_command(tmp_path, *arguments, **settings)
        assert ("pydantic" in loaded, "yaml" in loaded) == (reads, reads)
    record = json.loads((run / "_watchdog.json").read_bytes())
    assert record["outbox"][0]["routed_to"] == ["webhook"]


SUPERVISED = """
{"schema": 1, "run_id": "run-1", "status": "RUNNING", "attempt": {"number": 1, "job": "run-1-r0#0"},
 "job": {"launcher": "slurm", "id": "17", "name": "run-1-r0", "number": 0, "submitted_at": "2026-01-01T00:00:00Z",
         "state": "RUNNING"},
 "supervision": {"launcher": "slurm", "spec": {"command": ["train.sbatch"], "cwd": "/"}, "policy_name": "mine",
                 "policy": "unread", "compiled": %s}}
"""


def test_a_pass_over_a_supervised_run_reads_no_yaml(tmp_path: Path) -> None:
    kept = codec(RestartPolicy).document(load("megatron_transient"))
    error, record = "RuntimeError: NCCL error: unhandled system error", SUPERVISED % json.dumps(kept)
    run = _run_folder(tmp_path, **{"metadata.json": "{}", "_error": error, "_watchdog.json": record})
    loaded = set(_loaded_by_command(tmp_path, "sweep", "--once", MONITORING_ROOT="runs"))
    assert loaded.isdisjoint({"yaml", "pydantic"})
    assert [name for name in loaded if name.endswith(".launcher")] == []
    after = json.loads((run / "_watchdog.json").read_bytes())
    assert (after["status"], after["ruling"], after["actions"]) == ("FAILED", None, [])
    assert after["outbox"][0]["message"]["restart"].startswith("its supervisor decides")


TRAINING = """
import json, sys
import lastbeat
with lastbeat.run("run-1", total_steps=3, {options}) as run:
    for step in range(3):
        run.step(step, loss=2.5)
print(json.dumps(sorted(name for name in sys.modules if name.startswith("lastbeat"))))
"""
WATCHDOGS = (
    "decide", "deliver", "effects", "observe", "causes", "signals", "scanning", "fleet", "views", "page", "record",
    "watchdog", "watch", "codec", "schemas", "handwritten",
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "most"),
    [
        pytest.param("", 62, id="as most begin"),
        pytest.param("log_file='train.log', rank=0, world_size=2, resume=True", 65, id="with all there is"),
    ],
)
def test_a_training_process_loads_nothing_of_the_watchdog(tmp_path: Path, options: str, most: int) -> None:
    (tmp_path / "train.log").write_text("step 1\n")
    # What is wrong with what only a watchdog needs is none of training's business.
    settings = {"LASTBEAT_STALL_MINUTES": "5", "SLACK_WEBHOOK_URL": "no address"}
    printed = _printed(tmp_path, TRAINING.format(options=options), **settings)
    assert (tmp_path / "training-runs" / "run-1" / "_complete").exists()
    loaded = json.loads(printed[-1])
    assert [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in WATCHDOGS] == []
    assert len(loaded) <= most, loaded
