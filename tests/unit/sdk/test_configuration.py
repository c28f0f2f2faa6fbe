"""What training says of its run: config, tags and notes, as people see them, whatever training passes."""

import argparse
import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.configuration import KEYS_MOST, VALUE_CHARS, as_config, as_tags


class Kind(enum.Enum):
    COSINE = 1


@dataclass
class Model:
    layers: int = 24
    name: str = "gpt"


@dataclass
class Arguments:
    lr: float = 3e-4
    model: Model = field(default_factory=Model)
    hub_token: str = "hush"


class Mapped:
    """As OmegaConf's, which is no Mapping of Python's."""

    def keys(self) -> list[str]:
        return ["lr"]

    def items(self) -> list[tuple[str, Any]]:
        return [("lr", 0.1)]


class Pydantic:
    def model_dump(self) -> dict[str, Any]:
        return {"lr": 0.2}


class Raises:
    def items(self) -> Iterator[Any]:
        raise SystemExit(3)

    def keys(self) -> Iterator[Any]:
        raise SystemExit(3)


class Unprintable:
    def __str__(self) -> str:
        raise ValueError


ROWS = [
    ("a mapping", {"lr": 3e-4, "bf16": True, "layers": 24}, {"lr": 3e-4, "bf16": True, "layers": 24}),
    ("one in another", {"model": {"head": {"dim": 64}}}, {"model.head.dim": 64}),
    ("a namespace", argparse.Namespace(lr=1.0, out=Path("/runs")), {"lr": 1.0, "out": "/runs"}),
    ("a namespace of another kind", SimpleNamespace(lr=1.0), {"lr": 1.0}),
    ("a dataclass in another", Arguments(), {"lr": 3e-4, "model.layers": 24, "model.name": "gpt", "hub_token": "***"}),
    ("a mapping that is not Python's", Mapped(), {"lr": 0.1}),
    ("a model of pydantic", Pydantic(), {"lr": 0.2}),
    ("a list", {"betas": [0.9, 0.95]}, {"betas": "[0.9, 0.95]"}),
    ("an enumeration", {"kind": Kind.COSINE}, {"kind": "COSINE"}),
    ("what is None or private", {"seed": None, "_internal": 1}, {}),
    ("a secret by its name", {"wandb": {"api_key": "abc"}}, {"wandb.api_key": "***"}),
    ("a secret by the name of what it lies in", {"password": {"of": "hush"}}, {"password.of": "***"}),
    ("a secret by its shape", {"login": "hf_" + "a" * 30}, {"login": "***"}),
    ("a count of tokens", {"max_tokens": 4096}, {"max_tokens": 4096}),
    ("numbers that JSON has not", {"a": float("nan"), "b": 2**80}, {"a": "nan", "b": str(2**80)}),
    ("a text that is no configuration", "lr=1", None),
    ("a class", Arguments, None),
    ("what raises", Raises(), None),
    ("a value without a text", {"lr": 1, "x": Unprintable()}, None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_configuration_is(value: object, expected: object) -> None:
    assert as_config(value) == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=120), each, max_size=8),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=120), VALUES, max_size=90))
def test_it_is_small_and_json_can_hold_it(value: dict[str, Any]) -> None:
    found = as_config(value)
    assert found is not None
    assert len(found) <= KEYS_MOST
    assert all(len(each) <= VALUE_CHARS for each in found.values() if isinstance(each, str))
    json.dumps(found, allow_nan=False)


def test_one_that_contains_itself_ends() -> None:
    value: dict[str, Any] = {"lr": 1.0}
    value["again"] = value
    assert as_config(value) is not None


TAGS = [
    ("several", ["sweep3", "baseline"], ["sweep3", "baseline"]),
    ("one", "sweep3", ["sweep3"]),
    ("blank ones, and the same again", ["", " a ", "a"], ["a"]),
    ("a long one", ["x" * 80], ["x" * 50]),
    ("a secret", ["hf_" + "a" * 30], ["***"]),
    ("no list", 7, None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), [row[1:] for row in TAGS], ids=[row[0] for row in TAGS])
def test_tags_are(value: object, expected: object) -> None:
    assert as_tags(value) == expected
