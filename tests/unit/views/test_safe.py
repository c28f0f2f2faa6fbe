"""Text from training is masked wherever it lies in what is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from lastbeat.views.safe import Safe

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Held:
    name: str = ""
    names: tuple[str, ...] = ()
    by_name: Mapping[str, Any] | None = None
    inner: "Held | None" = None


PLACES = [
    pytest.param(Held(names=("a", TOKEN)), id="one of several"),
    pytest.param(Held(by_name={TOKEN: 1}), id="a name"),
    pytest.param(Held(by_name={"a": [{"b": TOKEN}]}), id="deep in what a newer version wrote"),
    pytest.param(Held(inner=Held(name=TOKEN)), id="a part of a part"),
]


@pytest.mark.parametrize("held", PLACES)
def test_a_secret_is_masked(held: Held) -> None:
    assert TOKEN in repr(held)
    assert TOKEN not in repr(Safe().all_of(held))
