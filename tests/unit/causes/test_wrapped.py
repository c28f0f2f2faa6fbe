# ruff: noqa: E501 - lines of logs are as long as they are
"""Lines that a collector of logs has put into JSON."""

import json

import pytest

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.causes.log_reader import unwrapped
from lastbeat.explain.scanning.splitting import line_of
from lastbeat.explain.signals.loading import load
from support.explained import cause_of

ROWS = [
    pytest.param('{"log":"step 3\\n","stream":"stderr"}', "step 3", id="Docker's files"),
    pytest.param('{"@timestamp":"2026-03-01T10:00:00Z","@message":"step 3"}', "step 3", id="a message with a time"),
    pytest.param('{"level":"warning","msg":"slow"}', "WARNING: slow", id="a level goes before what it qualifies"),
    pytest.param('{"severity":"CRITICAL","message":"no"}', "ERROR: no", id="a level of the cloud"),
    pytest.param('{"level":"info","msg":"ERROR it failed"}', "ERROR it failed", id="the program's own level counts"),
    pytest.param('{"log":"  0%|  | 0/9\\r 50%|# | 4/9","x":1}', " 50%|# | 4/9", id="the last of overwritten states"),
    pytest.param(
        '{"level":"error","msg":"it failed","exc_info":"Traceback (most recent call last):\\n  File \\"t.py\\", line 3\\nKeyError: 3"}',
        "KeyError: 3",
        id="the last line of a traceback in another place",
    ),
    pytest.param(
        '{"level":"info","msg":"tried","stack":"Traceback (most recent call last):\\n  File \\"t.py\\", line 3\\nKeyError: 3"}',
        "INFO: KeyError: 3",
        id="a traceback that was no error",
    ),
    pytest.param('{"log":"[rank3]: no\\n"}', "no", id="prefixes within"),
]
AS_THEY_ARE = [
    pytest.param("{'loss': 2.0}", id="a dictionary of Python"),
    pytest.param('{"step": 3, "loss": 2.0}', id="values of training"),
    pytest.param('{"message": "failed", "exc_info": "KeyError: 3"}', id="an exception in another place"),
    pytest.param('{"message": "a\\nb"}', id="several lines in one"),
    pytest.param('{"message": "a"', id="cut off"),
    pytest.param('{"message": 3, "log": null}', id="no text"),
]


@pytest.mark.parametrize(("raw", "text"), ROWS)
def test_unwrapped(raw: str, text: str) -> None:
    line = unwrapped(line_of(7, raw))
    assert (line.number, line.raw, line.text) == (7, raw, text)


@pytest.mark.parametrize("raw", AS_THEY_ARE)
def test_left_alone(raw: str) -> None:
    line = line_of(7, raw)
    assert unwrapped(line) == line


def test_a_rank_within_is_found() -> None:
    assert unwrapped(line_of(1, '{"log":"[rank3]: no\\n"}')).rank == 3


def test_a_traceback_within_is_put_together() -> None:
    lines = (
        "step 1 loss 2.0",
        "Traceback (most recent call last):",
        '  File "/w/t.py", line 3, in <module>',
        "KeyError: 'x'",
    )
    text = "".join(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in lines)
    found = explain_text(text, load("default"))
    cause = cause_of(found)
    assert (cause.error_type, cause.evidence.line, found.ended) == ("exception", 4, True)
