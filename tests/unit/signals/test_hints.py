"""Hints, with what the evidence says filled in."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.signals.hints import filled

ROWS = [
    pytest.param(
        "{size} asked, {free} free", {"size": "2 GiB", "free": "1 GiB"}, "2 GiB asked, 1 GiB free", id="known"
    ),
    pytest.param("{size} asked, {free} free", {"size": "2 GiB"}, "2 GiB asked, ? free", id="one is not known"),
    pytest.param("{size} asked[, {free} free].", {"size": "2 GiB"}, "2 GiB asked.", id="what is not known is left out"),
    pytest.param("{size} asked[, {free} free].", {"size": "2", "free": "1"}, "2 asked, 1 free.", id="… or said"),
    pytest.param("[{a} of {b} ]left", {"a": "1"}, "left", id="both or none"),
    pytest.param("ls iter_[0-9]*", {}, "ls iter_[0-9]*", id="brackets of a shell"),
    pytest.param(
        "quota -u ${USER} | awk '{print $1}'", {"user": "x"}, "quota -u ${USER} | awk '{print $1}'", id="braces of one"
    ),
    pytest.param("Rank {rank} on {host}", {"rank": 3, "host": "gpu-1"}, "Rank 3 on gpu-1", id="rank and host"),
    pytest.param("Rank {rank} on {host}", {"rank": None, "host": ""}, "This process on its node", id="neither"),
    pytest.param("exclude={host}", {}, "exclude=NODE", id="a host in a command"),
    pytest.param("look at rank {rank}", {"rank": 0}, "look at rank 0", id="rank 0 is a rank"),
    pytest.param("{what}!", {"what": "{rank}", "rank": 1}, "{rank}!", id="what a log says is not filled in turn"),
]


@pytest.mark.parametrize(("hint", "fields", "expected"), ROWS)
def test_filled(hint: str, fields: Mapping[str, object], expected: str) -> None:
    assert filled(hint, fields) == expected


@given(st.text(max_size=300), st.dictionaries(st.sampled_from(["rank", "host", "size"]), st.text(), max_size=3))
def test_no_hint_and_no_value_raises_or_grows_without_bound(hint: str, fields: Mapping[str, object]) -> None:
    assert len(filled(hint + "{size}[{host}]", fields)) <= 40 * len(hint) + 300
