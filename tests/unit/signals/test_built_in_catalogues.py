"""The catalogues that lastbeat brings along: what each is for, and the lines of each framework."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.hints import fields_of, filled
from lastbeat.explain.signals.loading import load, names
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.signal import Catalogue, Signal
from support.row_by_row import check_each

HINT_LIMIT = 400
"""Characters of a hint: it has to be read on a telephone at night."""


def matched(catalogue: Catalogue, line: str) -> list[str]:
    return [signal.name for signal, _ in matcher_of(catalogue).matches(line)]


def kinds(name: str) -> set[str]:
    """The error types that a catalogue knows failures of."""
    return {signal.error_type for signal in load(name).signals if signal.error_type is not None}


def test_what_each_megatron_catalogue_is_for() -> None:
    basic, nccl, stall = (load(f"megatron_{what}") for what in ("basic", "nccl", "stall_detection"))
    production = load("megatron_production")
    assert {"oom", "torch", "exception"} <= kinds("megatron_basic")
    assert kinds("megatron_basic").isdisjoint({"nccl", "nccl_timeout", "distributed_timeout", "hang", "deadlock"})
    assert {"nccl", "nccl_timeout", "communication", "distributed_timeout"} <= kinds("megatron_nccl")
    assert {"hang", "deadlock", "nccl_timeout", "numerical_instability"} <= kinds("megatron_stall_detection")
    for part in (basic, nccl, stall, load("base")):
        assert {each.name for each in part.signals} <= {each.name for each in production.signals}
    assert (basic.inactivity_s, nccl.inactivity_s, stall.inactivity_s) == (None, None, 900)
    assert (production.inactivity_s, production.poll_s, production.inactivity_check_s) == (1200, 180, 120)


def test_the_default_knows_all_signals_and_sets_no_limits() -> None:
    default = load("default")
    everything = {each.name for name in names() for each in load(name).signals}
    assert {each.name for each in default.signals} == everything
    assert (default.inactivity_s, default.poll_s, default.inactivity_check_s) == (None, None, None)
    assert default.absences == ()


def test_no_two_catalogues_have_a_signal_of_one_name() -> None:
    owners: dict[str, set[str]] = {}
    for name in names():
        for signal in load(name).signals:
            owners.setdefault(signal.name, set()).add(signal.source)
    assert {name: who for name, who in owners.items() if len(who) > 1} == {}


def test_each_signal_is_fit_for_use() -> None:
    check_each(((signal.name, (signal,)) for signal in load("default").signals), is_fit_for_use)


def is_fit_for_use(signal: Signal) -> None:
    assert signal.kind or signal.error_type or signal.verdict or signal.role == "confirmation", "it says nothing"
    assert signal.error_type is None or signal.error_type in TYPES
    assert len(signal.hint) <= HINT_LIMIT
    assert signal.literals, "without text that is in each of its lines it would be tried on every line"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", signal.name)
    shown = filled(signal.hint, {})
    assert "{" not in re.sub(r"\{print [^}]*\}|\$\{\w+\}|\{\"[^}]*\}", "", shown), "a place that nothing fills"
    assert filled(signal.hint, dict.fromkeys(fields_of(signal.hint), "x")).count("[") == shown.count("[")


def test_no_hint_of_ours_looks_like_a_secret() -> None:
    catalogues = [load(name) for name in names()]
    hints = {signal.name: signal.hint for catalogue in catalogues for signal in catalogue.signals}
    hints |= {rule.name: rule.hint for catalogue in catalogues for rule in catalogue.absences}
    hints |= {known.name: known.hint for catalogue in catalogues for known in catalogue.error_types.values()}
    assert {name: hint for name, hint in hints.items() if mask_tokens(hint) != hint} == {}


LINES: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "framework_lines.yaml").read_text("utf-8"))


def test_each_line_is_known() -> None:
    rows = (
        (f"{name} of {catalogue}: {line}", (catalogue, line, name))
        for catalogue, signals in LINES["known"].items()
        for name, lines in signals.items()
        for line in (lines if isinstance(lines, list) else [lines])
    )
    check_each(rows, is_known)


def is_known(catalogue: str, line: str, name: str) -> None:
    assert name in matched(load(catalogue), line)
    assert name in matched(load("default"), line)


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in LINES["healthy"].items()])
def test_a_healthy_line_is_no_failure_of_any_framework(line: str) -> None:
    default = load("default")
    frameworks = {"megatron_lines", "megatron_faults", "huggingface", "lightning", "deepspeed", "jax"}
    found = [signal for signal, _ in matcher_of(default).matches(line) if signal.source in frameworks]
    assert [signal.name for signal in found if signal.kind is None] == []
