"""What a ``_preempted`` says, whoever wrote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.preemption import Preemption, encode_preemption, read_preemption

ROWS = [
    pytest.param(
        b'{"checkpoint": "/ckpt/step_1500", "step": 1500, "why": "received signal 15 (SIGTERM)"}',
        "PREEMPTED, checkpoint at step 1500: /ckpt/step_1500; received signal 15 (SIGTERM)",
        id="all of it",
    ),
    pytest.param(b'{"step": 1500}', "PREEMPTED, checkpoint at step 1500", id="a step alone"),
    pytest.param(b'{"step": "1500"}', "PREEMPTED, checkpoint at step 1500", id="a number as text"),
    pytest.param(b'{"checkpoint": "last.pt"}', "PREEMPTED, checkpoint last.pt", id="a name alone"),
    pytest.param(
        b"step=7\ncheckpoint=/c/7\n", "PREEMPTED, checkpoint at step 7: /c/7", id="lines as a script writes them"
    ),
    pytest.param(b"Checkpoint: s3://b/c\r\n", "PREEMPTED, checkpoint s3://b/c", id="one such line"),
    pytest.param(b"saved before the reclaim\nand more", "PREEMPTED: saved before the reclaim", id="any text"),
    pytest.param(b"", "PREEMPTED; no checkpoint is named", id="an empty file"),
    pytest.param(b"{}", "PREEMPTED; no checkpoint is named", id="an empty document"),
    pytest.param(b'{"step": -3, "checkpoint": 9}', "PREEMPTED; no checkpoint is named", id="no step and no place"),
    pytest.param(b'{"step": 1e999}', "PREEMPTED; no checkpoint is named", id="a step without end"),
    pytest.param(b"[" * 9000, f"PREEMPTED: {'[' * 199}…", id="brackets without end"),
]


@pytest.mark.parametrize(("body", "told"), ROWS)
def test_what_is_told_of_it(body: bytes, told: str) -> None:
    assert read_preemption(body).summary == told


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_it_is_it_is_told_in_one_line(body: bytes) -> None:
    told = read_preemption(body).summary
    assert told.startswith("PREEMPTED")
    assert len(told.splitlines()) == 1
    assert len(told) < 700


@given(
    st.integers(0, 10**15) | st.none(), st.sampled_from(["", "/c/7", "s3://b/c d/ü"]), st.sampled_from(["", "by hand"])
)
def test_what_is_written_is_read(step: int | None, checkpoint: str, why: str) -> None:
    said = Preemption(checkpoint, step, why)
    assert read_preemption(encode_preemption(said)) == said
