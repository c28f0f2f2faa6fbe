"""What a reader kept, damaged, and what it may then raise."""

import copy
import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.causes.explaining import explain
from lastbeat.explain.causes.log_parser import ParserState
from lastbeat.explain.causes.log_reader import LogReader, ReaderState
from lastbeat.explain.causes.log_summary import LogSummary
from lastbeat.explain.causes.mentions import Mention, MentionWindow
from lastbeat.explain.causes.progress_counters import ProgressCounters
from lastbeat.explain.causes.stack_dumps import Stack, StackDumpParser
from lastbeat.explain.causes.tracebacks import OpenTraceback, TracebackParser
from lastbeat.explain.scanning.splitting import Splitter
from lastbeat.explain.signals.loading import load
from lastbeat.model.codec import DamagedError
from lastbeat.model.progress_lines import Progress
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
KINDS: tuple[type[Any], ...] = (
    *(ReaderState, Splitter, ParserState, LogSummary, Progress, Mention, MentionWindow, Stack, StackDumpParser),
    *(OpenTraceback, TracebackParser, ProgressCounters),
)


def kept() -> dict[str, Any]:
    reader = LogReader(CATALOGUE, "train.log")
    reader.feed(TEXT.encode())
    state: dict[str, Any] = json.loads(json.dumps(reader.document()))
    return state


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Every place in ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*above, key)
        yield from places(each, (*above, key))


def at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


KEPT = kept()
OBJECTS: list[Place] = [(), *(place for place in places(KEPT) if isinstance(at(KEPT, place), dict))]
# What has its usual value is not written, and may be damaged all the same.
NAMES = sorted({each.name for kind in KINDS for each in fields(kind)})
JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", -1, 10**30, 1.5, float("nan"), float("inf"), [], {}, [[]], [None], {"a": 1}, True, "9999-99-99"]
)


@given(
    st.sampled_from(list(places(KEPT)))
    | st.builds(lambda place, name: (*place, name), st.sampled_from(OBJECTS), st.sampled_from(NAMES)),
    JUNK,
)
def test_a_damaged_state_is_refused_or_read_on_from(place: Place, junk: Any) -> None:
    document = copy.deepcopy(KEPT)
    at(document, place[:-1])[place[-1]] = junk
    try:
        reader = LogReader.restore(CATALOGUE, document)
    except DamagedError:
        return
    reader.feed(REST.encode())
    reader.finish()
    explain([reader.summary()], CATALOGUE)
    json.dumps(reader.document())
