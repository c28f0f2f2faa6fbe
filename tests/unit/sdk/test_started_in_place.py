"""Training below ``lastbeat exec --max-restarts``: whose word counts, and whose attempt it is."""

import json
import os
from typing import Any

import pytest

from lastbeat.model.in_place import InPlace, in_variable, read_in_place
from lastbeat.training.sdk.documents import process_mark
from lastbeat.training.sdk.exec_in_place import adopted, decides, reported_by_training

OURS = InPlace("job-1", 1, 2, 90.0)
HERE, MARK = os.getpid(), process_mark(os.getpid())


def metadata(**more: Any) -> bytes:
    document = {"attempt": 4, "start_time": "2026-01-01T12:00:00.123Z", "wraps": True, **OURS.fields(), **more}
    return json.dumps(document).encode()


ADOPTED = [
    pytest.param(metadata(), (4, 1767268800.123), id="the attempt that was begun for it"),
    pytest.param(
        metadata(in_place={**OURS.fields()["in_place"], "token": "job-0"}), None, id="not that of the last start"
    ),
    pytest.param(metadata(in_place=None), None, id="nor that of somebody else"),
    pytest.param(metadata(start_time="soon"), None, id="nor one without a start"),
    pytest.param(b"{", None, id="nor what is no document"),
]


@pytest.mark.parametrize(("body", "found"), ADOPTED)
def test_the_attempt_it_goes_on_with(body: bytes, found: tuple[int, float] | None) -> None:
    assert adopted(body, OURS) == found


def gone() -> InPlace:
    """A process of this machine that has ended."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    mark = f"{(MARK or '').rpartition('/')[0]}/1"
    os.waitpid(child, 0)
    return InPlace("job-1", 1, 2, 90.0, child, mark)


DECIDES = [
    pytest.param(InPlace("t", 0, 1, 9.0, HERE, MARK), True, id="who has started it lives"),
    pytest.param(gone(), False, id="who has started it is gone"),
    pytest.param(InPlace("t", 0, 1, 9.0, 7, "another-boot/4026531836/100"), True, id="it is on another machine"),
    pytest.param(InPlace("t", 0, 1, 9.0, 7, None), True, id="its machine does not tell"),
]


@pytest.mark.parametrize(("starter", "found"), DECIDES)
def test_who_decides_what_becomes_of_a_failure(starter: InPlace, found: bool) -> None:
    assert decides(starter) is found


def test_who_wrote_the_heartbeat() -> None:
    assert not reported_by_training(metadata(), OURS)
    assert reported_by_training(metadata(wraps=None), OURS)
    assert not reported_by_training(metadata(wraps=None, in_place=None), OURS)


HOSTILE = [
    pytest.param(None, id="nothing"),
    pytest.param({"token": "t", "restarts": "1", "left": 2, "takes_s": 9}, id="a count that is a text"),
    pytest.param({"token": "t", "restarts": -1, "left": 2, "takes_s": 9}, id="a negative count"),
    pytest.param({"token": "t", "restarts": 1, "left": 2, "takes_s": 1e9}, id="patience for years"),
    pytest.param({"token": "t", "restarts": 1, "left": 2, "takes_s": float("nan")}, id="patience that is no number"),
    pytest.param({"token": "t" * 1000, "restarts": 1, "left": 2, "takes_s": 9}, id="a token of a book's length"),
    pytest.param({"restarts": 1, "left": 2, "takes_s": 9}, id="no token"),
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_makes_no_sense_says_nothing(value: object) -> None:
    assert read_in_place(value) is None


def test_what_is_told_is_understood() -> None:
    told = InPlace("job-1", 1, 2, 90.0, HERE, MARK)
    assert in_variable(told.variable()) == told
    assert in_variable("{") is in_variable(None) is None
