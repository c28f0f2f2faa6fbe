"""Which attempt a start begins, by what lies there and what the scheduler says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.documents import attempt_of, next_attempt, restarts, start_time_of

RESTARTS = [
    pytest.param({}, 0, id="no scheduler counts"),
    pytest.param({"SLURM_RESTART_COUNT": "2"}, 2, id="Slurm counts requeues"),
    pytest.param({"TORCHELASTIC_RESTART_COUNT": "3"}, 3, id="torchelastic counts the restarts of its workers"),
    pytest.param({"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "4"}, 4, id="the larger one counts"),
    pytest.param({"SLURM_RESTART_COUNT": "many"}, 0, id="a word is no count"),
    pytest.param({"SLURM_RESTART_COUNT": "9" * 4000}, 0, id="neither is a number beyond all sense"),
]


@pytest.mark.parametrize(("environ", "count"), RESTARTS)
def test_restarts(environ: dict[str, str], count: int) -> None:
    assert restarts(environ) == count


NEXT = [
    pytest.param(None, 0, False, 1, id="nothing lies there: the first"),
    pytest.param(1, 0, False, 2, id="the one after the last"),
    pytest.param(0, 0, False, 2, id="metadata without a number was the first"),
    pytest.param(None, 3, False, 4, id="three restarts before: the fourth"),
    pytest.param(9, 3, False, 10, id="files that know of more attempts"),
    pytest.param(None, 0, True, 2, id="a resumed run was there before, even if its files are gone"),
    pytest.param(4, 0, True, 5, id="a resumed run goes on counting"),
]


@pytest.mark.parametrize(("before", "restarted", "resume", "number"), NEXT)
def test_the_next_attempt(before: int | None, restarted: int, resume: bool, number: int) -> None:
    assert next_attempt(before, restarted, resume=resume) == number


BODIES = [
    pytest.param(b'{"attempt": 3}', 3, id="a number"),
    pytest.param(b'{"attempt": 1e15}', 0, id="a number that no reader takes"),
    pytest.param(b'{"attempt": "%s"}' % (b"9" * 4300), 0, id="one after which none could be written"),
    pytest.param(b"{}", 0, id="none"),
    pytest.param(b"[3]", 0, id="a list"),
    pytest.param(b"\xff\xfe", 0, id="no text at all"),
    pytest.param(b"[" * 50_000, 0, id="a document that is nested too deep"),
]


@pytest.mark.parametrize(("body", "number"), BODIES)
def test_the_attempt_of_a_document(body: bytes, number: int) -> None:
    assert attempt_of(body) == number
    assert start_time_of(body) is None


@given(st.binary(max_size=200))
def test_no_document_raises(body: bytes) -> None:
    assert isinstance(attempt_of(body), int)
    start_time_of(body)
