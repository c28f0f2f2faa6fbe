"""Which attempt a start begins, by what lies there and what the scheduler says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.documents import attempt_of, restarts, start_time_of

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
