"""The fields of heartbeats: what the SDK writes is in their table, is read by it, and stands in docs/heartbeats.md."""

import json
from datetime import datetime, timezone
from time import monotonic
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lastbeat.model.document_field import HEARTBEATS, RANK, declared, object_of
from lastbeat.model.heartbeat import Heartbeat
from lastbeat.model.in_place import InPlace
from lastbeat.model.json_values import encode
from lastbeat.model.rerun import RerunReport
from lastbeat.model.runid import METADATA, PROGRESS
from lastbeat.model.straggler_lines import report_fields
from lastbeat.model.stragglers import RankWindow, StragglerReport, window_fields
from lastbeat.stores.port import Blob
from lastbeat.training.sdk.documents import (
    AttemptIdentity,
    ProgressHistory,
    RunIdentity,
    metadata_document,
    process_fields,
)
from lastbeat.training.sdk.instance import Instance
from lastbeat.training.sdk.ranks import Rank, rank_document, rank_zero_fields
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.sections import OpenSpan, SectionLimits, section_fields
from lastbeat.views.heartbeats import HeartbeatFields, fields_of, read_told

AT = 1_767_268_800.0
FILES = (*HEARTBEATS, RANK)


@pytest.mark.parametrize("file", FILES)
def test_every_field_has_one_name_and_a_sentence(file: str) -> None:
    names = [each.name for each in fields_of(file)]
    assert sorted(set(names)) == sorted(names)
    assert [each.name for each in fields_of(file) if not each.says.endswith((".", "…"))] == []


def training() -> Run:
    run = Run("run-1", None, total_steps=10)
    run.set_phase("train", "epoch 1")
    run.step(3, loss=2.5, learning_rate=1e-4, epoch=0.5, tokens=4096, grad_norm=1.25)
    run.sections.limits = SectionLimits({"save": 60.0})
    run.sections.left.append(("save", monotonic() - 90.0, monotonic() - 1.0))
    return run


def written() -> dict[str, dict[str, Any]]:
    """Heartbeats with all that the SDK may write into them."""
    run, rank, open_now = training(), Rank(1, 2, 1, "node-2"), [OpenSpan("save", 2.0, 600.0, 60.0, 90.0)]
    identity = RunIdentity(
        Instance("i-0abc", "us-east-1a", "p5.48xlarge", "node-1"), "1.2.3", 30.0, 10.0,
        {"stale_minutes": 15.0, "stall_minutes": 60.0}, "ann", "nlp", ("LASTBEAT_LEARN='banana'",),
        {"config": {"lr": 1e-4, "model.name": "gpt"}, "tags": ["sweep3"], "notes": "with the new data"},
    )  # fmt: skip
    attempt = AttemptIdentity(identity, 2, AT - 60, 4711)
    metadata = {
        **metadata_document(run, attempt, AT, None, 0.5),
        "resources": {"cpu": 1.5, "gpus": [{"name": "H200", "utilization": 0.5}]},
        **rank_zero_fields(Rank(0, 2), begun=True, beat_s=60.0),
        **process_fields(4711, wraps=True),
        **section_fields(open_now),
        **InPlace("token", 1, 2, 30.0).fields(),
        **RerunReport(exit_code=16).fields(),
        "stragglers": report_fields(StragglerReport(1, 2)),
        "health": {"conditions": [{"name": "gpu_lost", "text": "GPU 3 is lost"}], "history": None},
        "longest_gap_s": 31.0,
        "heeds_stop": True,
        "thread_error": "ValueError: bad",
        "process_mark": "boot/1/2",
        "raised_at": AT,
    }
    rank_beat = {
        **rank_document(run, rank, 2, AT, beat_s=60.0),
        **section_fields(open_now),
        "section_times": [{"kind": "section", "name": "save", "samples": 1}],
        "step_window": window_fields(RankWindow(1, 1, 300, 1.0, 0.5, 1.0, 0.5)),
        "process_mark": "boot/1/2",
    }
    progress = ProgressHistory().document(run, AT)
    assert progress is not None
    documents = {METADATA: metadata, PROGRESS: progress, RANK: rank_beat}
    return {file: json.loads(encode(document)) for file, document in documents.items()}


@pytest.mark.parametrize("file", FILES)
def test_the_table_has_what_the_sdk_writes(file: str) -> None:
    document = written()[file]
    table = fields_of(file)
    assert document.keys() - {each.name for each in table} == set()
    assert [fault.message for fault in Draft202012Validator(object_of(table)).iter_errors(document)] == []


@pytest.mark.parametrize("file", FILES)
def test_what_the_sdk_writes_is_read(file: str) -> None:
    document = written()[file]
    body = json.dumps(document).encode()
    found = read_told(Blob(body, len(body), datetime.fromtimestamp(AT, timezone.utc), "v1"))
    unread = Heartbeat(found.heartbeat.modified, "v1")
    assert found.heartbeat.fault is None
    for attribute, each in declared(Heartbeat).items():
        if each.name in document:
            assert getattr(found.heartbeat, attribute) != getattr(unread, attribute), each.name
    for attribute, each in declared(HeartbeatFields).items():
        if each.name in document:
            assert getattr(found, attribute) != getattr(HeartbeatFields(unread), attribute), each.name
