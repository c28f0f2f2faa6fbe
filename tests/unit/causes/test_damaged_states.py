"""What a reader kept, damaged, and what it may then raise."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.causes.explaining import explain
from lastbeat.causes.reading import LogReader
from lastbeat.signals.loading import load
from support.printed import STEPS

CATALOGUE = load("default")
TEXT = (
    STEPS
    + "[rank1]: NCCL error: remote process exited\nstep 90/1000 loss nan\n"
    + "Timeout (0:05:00)!\nThread 0x00007f487be1bb80 (most recent call first):\n"
    + '  File "/w/train.py", line 13 in __getitem__\n'
    + 'Traceback (most recent call last):\n  File "/w/train.py", line 3, in <module>\n'
)
REST = '    main()\n  File "/w/train.py", line 9, in main\nKeyError: 1\n' + STEPS + "CUDA out of memory\n"
Place = tuple[Any, ...]


def kept() -> dict[str, Any]:
    reader = LogReader(CATALOGUE, "train.log")
    reader.feed(TEXT.encode())
    state: dict[str, Any] = json.loads(json.dumps(reader.state()))
    return state


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*above, key)
        yield from places(each, (*above, key))


KEPT = kept()
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", -1, 10**30, 1.5, float("nan"), float("inf"), [], {}, [[]], [None], {"a": 1}, True, "9999-99-99"]
)


@given(st.sampled_from(list(places(KEPT))), JUNK)
def test_a_damaged_state_is_refused_or_read_on_from(place: Place, junk: Any) -> None:
    state = copy.deepcopy(KEPT)
    *above, last = place
    inner: Any = state
    for key in above:
        inner = inner[key]
    inner[last] = junk
    try:
        reader = LogReader.restore(CATALOGUE, state)
    except (KeyError, TypeError, ValueError):
        return
    reader.feed(REST.encode())
    reader.finish()
    explain([reader.account()], CATALOGUE)
    json.dumps(reader.state())
