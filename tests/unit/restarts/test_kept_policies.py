"""A policy in the record means what its file means, and is read without pydantic and YAML."""

import json
from dataclasses import replace

import pytest

from lastbeat.jobs.restarts import loading
from lastbeat.model.codec import codec
from lastbeat.model.restart import RestartPolicy
from support.row_by_row import labelled


def again(policy: RestartPolicy) -> RestartPolicy:
    """As another process reads it."""
    return codec(RestartPolicy).read(json.loads(json.dumps(codec(RestartPolicy).document(policy))))


def test_what_was_added_later_keeps_no_older_version_from_understanding_a_policy_without_it() -> None:
    policy = loading.load("megatron_transient")
    assert not {"exclude_stragglers", "on_permanent", "also"} & set(codec(RestartPolicy).document(policy))
    also = {"cuda_device_side_assert": frozenset({"cuda_device_assert"})}
    with_all = replace(policy, exclude_stragglers=True, on_permanent="leave", also=also)
    assert again(with_all) == with_all


NEWER = [
    ("a field of the policy", lambda document: document.update(weekends="stop")),
    ("a field of a rule", lambda document: document["rules"][0].update(except_on_fridays=True)),
    ("a kind of rule", lambda document: document["rules"][0].update(kind="conditional")),
    ("a mode", lambda document: document["rules"][0].update(mode="preemption")),
]  # fmt: skip


@pytest.mark.parametrize("change", labelled(NEWER))
def test_what_a_newer_version_added_makes_it_unusable_here(change: object) -> None:
    document = codec(RestartPolicy).document(loading.load("megatron_transient"))
    document = json.loads(json.dumps(document))
    change(document)  # type: ignore[operator]
    assert not codec(RestartPolicy).read(document).understood
