"""The JSON Schemas, against documents as lastbeat and others write them."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, FormatChecker

from lastbeat.model.record import Record
from lastbeat.model.state import State
from lastbeat.views.schemas import SCHEMAS, schema
from lastbeat_cli.schema import DOCUMENTS
from support.checkout import ROOT
from support.cli import LASTBEAT, RunFolder, call
from support.row_by_row import check_each

CATALOG = ROOT / "core" / "lastbeat" / "explain" / "signals" / "catalog"


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name), format_checker=FormatChecker())


def faults(name: str, document: object) -> list[str]:
    found = validator(name).iter_errors(document)
    return [f"{'.'.join(map(str, fault.absolute_path))}: {fault.message}" for fault in found]


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_a_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


def test_the_command_prints_it(tmp_path: Path) -> None:
    printed = call(LASTBEAT, "schema", "record", cwd=tmp_path)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert json.loads(printed.stdout) == schema("record")


def test_the_command_lists_every_document() -> None:
    assert list(DOCUMENTS) == list(SCHEMAS)


TRAINING = """\
import sys, threading, lastbeat
threading.excepthook = lambda args: None
with lastbeat.run("run-1", root=sys.argv[1], total_steps=10, rank=0, world_size=2) as run:
    loader = threading.Thread(target=lambda: 1 / 0, name="loader")
    loader.start()
    loader.join()
    run.phase("train", "epoch 1")
    run.step(1, loss=2.5, learning_rate=1e-4, epoch=0.5, tokens=4096, grad_norm=1.25)
    run.step(2, loss=float("nan"), learning_rate=float("inf"), accuracy=float("-inf"))
"""


def test_what_the_sdk_writes_is_valid_and_every_field_described(tmp_path: Path) -> None:
    done = call([sys.executable, "-c", TRAINING, "runs"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    metadata = json.loads((tmp_path / "runs/run-1/metadata.json").read_text())
    assert {"thread_error", "clock_offset_s"} <= metadata.keys()
    progress = json.loads((tmp_path / "runs/run-1/progress.json").read_text())
    assert (progress["loss"], len(progress["recent"]) > 0) == ("NaN", True)
    assert faults("metadata", metadata) == []
    assert faults("progress", progress) == []
    known = schema("metadata")["properties"].keys(), schema("progress")["properties"].keys()
    assert (metadata.keys() - known[0], progress.keys() - known[1]) == (set(), set())


def test_what_a_shell_script_writes_is_valid(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    said = ("--step", "3", "--loss", "nan", "--root", "runs")
    assert call(LASTBEAT, "beat", "--run-id", "run-1", *said, cwd=tmp_path).returncode == 0
    for name in ("metadata", "progress"):
        assert faults(name, json.loads((tmp_path / f"runs/run-1/{name}.json").read_text())) == []


BY_HAND = [
    pytest.param("metadata", {}, id="an empty document"),
    pytest.param("metadata", {"timestamp": 1754327781, "anything": [1]}, id="an epoch number, and a field of its own"),
    pytest.param(
        "metadata",
        {
            "run_id": "mistral-20250804-171621",
            "status": "running",
            "phase": "train",
            "last_update": "2025-08-04T17:16:21Z",
            "instance_id": "i-0abc",
            "owner": "ann",
            "beat_seconds": 30,
            "clock_offset_s": -3600.5,
            "stale_minutes": 15,
            "stall_minutes": 60,
        },
        id="all that a run may say of itself",
    ),
    pytest.param(
        "progress", {"step": 100, "total_steps": 1000, "loss": 2.5, "last_updated": "2025-08-04"}, id="a step"
    ),
    pytest.param("catalogue", None, id="an empty catalogue"),
    pytest.param("catalogue", {"signals": {"s": "text", "t": {"substring": "x"}}, "extends": "jax"}, id="short forms"),
    pytest.param("catalogue", {"signals": [{"name": "s", "pattern": "x"}], "silence": None}, id="a list of signals"),
]


@pytest.mark.parametrize(("name", "document"), BY_HAND)
def test_what_people_write_is_valid(name: str, document: Mapping[str, Any] | None) -> None:
    assert faults(name, document if document is not None else {}) == []


WRONG = [
    pytest.param("metadata", {"run_id": "../x"}, "run_id", id="a run id that none may have"),
    pytest.param("metadata", {"beat_seconds": 0}, "beat_seconds", id="a beat that takes no time"),
    pytest.param("metadata", {"last_update": None}, "last_update", id="a time that is none"),
    pytest.param("progress", {"step": "ten"}, "step", id="a step in words"),
    pytest.param("progress", {"loss": "low"}, "loss", id="a loss in words"),
    pytest.param("progress", {"recent": [[1, 2]]}, "recent.0", id="half a point"),
    pytest.param("record", {"schema": 1}, "", id="a record of nobody"),
    pytest.param("record", {"schema": 1, "run_id": "r", "status": "BORED"}, "status", id="a status that there is not"),
    pytest.param("record", {"schema": 1, "run_id": "r", "since": 1754327781}, "since", id="a time as a number"),
    pytest.param("catalogue", {"signal": {}}, "", id="a key that there is not"),
    pytest.param("catalogue", {"limits": {"poll_s": 0}}, "limits", id="a limit of nothing"),
    pytest.param("catalogue", {"signals": {"s": {"severity": "fatal"}}}, "signals", id="a severity that there is not"),
]


@pytest.mark.parametrize(("name", "document", "where"), WRONG)
def test_what_is_wrong_is_refused(name: str, document: Mapping[str, Any], where: str) -> None:
    assert any(fault.startswith(f"{where}:") for fault in faults(name, document))


def test_a_record_that_a_watch_wrote_is_valid_and_none_of_its_fields_unknown(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs")
    (run.path / "metadata.json").write_text('{"run_id": "run-1", "step": 7, "loss": "NaN"}')
    watch = ("watch", "--run-id", "run-1", "--once", "--root", "runs")
    # Nobody listens there, so that the alert stays in the record.
    settings = {"LASTBEAT_WEBHOOK_URL": "http://127.0.0.1:9/", "ALERT_ON": "failed,warning"}
    assert call(LASTBEAT, *watch, cwd=tmp_path, **settings).returncode == 1
    (run.path / "_preempted").write_text("")
    (run.path / "_error").write_text("")
    assert call(LASTBEAT, *watch, cwd=tmp_path, **settings).returncode == 2
    record = json.loads((run.path / "_watchdog.json").read_text())
    assert (record["status"], len(record["outbox"]), len(record["history"])) == ("FAILED", 2, 2)
    assert faults("record", record) == []
    assert record.keys() - schema("record")["properties"].keys() == set()


def test_the_records_schema_has_every_field_of_the_code() -> None:
    made = schema("record")
    flat = {field.name for field in (*fields(Record), *fields(State))} - {"state", "unknown"}
    assert made["properties"].keys() == {"schema", *flat}
    assert "status" not in made["required"], "a record may be without a state"
    assert "cause" not in made["$defs"]["RecordedCause"]["properties"], "a part that is written flat"
    assert made["$defs"]["RecordedCause"]["properties"]["error_type"] == {
        "description": "A name of `signals.error_types`.",
        "type": "string",
    }
    assert "numbered from 1" in made["$defs"]["Transition"]["description"]
    assert made["properties"]["log"]["description"].startswith("The logs as a heartbeat")


def test_each_built_in_catalogue_is_valid() -> None:
    check_each(((path.name, (path,)) for path in sorted(CATALOG.glob("*.yaml"))), is_valid)


def is_valid(catalogue: Path) -> None:
    assert faults("catalogue", yaml.safe_load(catalogue.read_text("utf-8"))) == []


def test_the_catalogue_that_the_documentation_shows_is_valid() -> None:
    page = (ROOT / "docs" / "signals-own.md").read_text("utf-8")
    (shown,) = re.findall(r"```yaml\n(# cluster\.yaml.*?)```", page, re.DOTALL)
    assert faults("catalogue", yaml.safe_load(shown)) == []
