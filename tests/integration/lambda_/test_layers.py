"""From the function's handler to the observation of a run: how many objects of ours pass the call on."""

import importlib.util
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lastbeat.watch.observe.run import Observer
from support.checkout import ROOT

MOST = 5
"""Layers between the handler and the observer, both not counted.

A layer is a distinct object of ours on the stack: an instance one of whose methods is being called, or a module one of
whose own functions is. Functions within functions, lambdas and generators belong to the object that made them. A stack
goes on across threads: what a thread does for a task that it took from a queue was called by who put the task there.
"""
OURS = (str(ROOT / "core" / "lastbeat"), str(ROOT / "lambda"))


class Stacks:
    """What is on the stack whenever an :class:`Observer` begins to observe."""

    def __init__(self) -> None:
        self.seen: list[list[object]] = []
        self._put: dict[int, list[object]] = {}
        self._before = threading.local()

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code is queue.Queue.put.__code__ and event == "call":
            self._put[id(frame.f_locals["item"])] = self._layers(frame)
        elif code is queue.Queue.get.__code__ and event == "return":
            self._before.layers = self._put.get(id(argument), [])
        elif code is Observer.look.__code__ and event == "call":
            self.seen.append(self._layers(frame.f_back))

    def _layers(self, frame: FrameType | None) -> list[object]:
        """The objects of ours on the stack, the first to be called first, each once."""
        found: list[object] = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(OURS):
                found.append(frame.f_locals.get("self", frame.f_globals["__name__"]))
            frame = frame.f_back
        distinct: list[object] = []
        for layer in (*getattr(self._before, "layers", []), *reversed(found)):
            if not any(layer is each or (isinstance(layer, str) and layer == each) for each in distinct):
                distinct.append(layer)
        return distinct


@contextmanager
def recorded() -> Iterator[Stacks]:
    stacks = Stacks()
    before = sys.getprofile()
    threading.setprofile(stacks.profile)
    sys.setprofile(stacks.profile)
    try:
        yield stacks
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object, object], dict[str, Any]]:
    """The function as Lambda loads it, for the fleet in a directory."""
    run = tmp_path / "fleet" / "run-1"
    run.mkdir(parents=True)
    (run / "metadata.json").write_text(json.dumps({"run_id": "run-1", "phase": "train"}))
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path / "fleet"))
    monkeypatch.setenv("LASTBEAT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    specification = importlib.util.spec_from_file_location("function_under_test", ROOT / "lambda" / "handler.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setattr(sys, "path", list(sys.path))
    specification.loader.exec_module(module)
    made: Callable[[object, object], dict[str, Any]] = module.handler
    return made


EVENTS = [
    pytest.param({}, id="a pass over the fleet"),
    pytest.param({"run_id": "run-1"}, id="a check of one run"),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_comes_to_its_observation_through_few_layers(
    handler: Callable[[object, object], dict[str, Any]], event: dict[str, object]
) -> None:
    with recorded() as stacks:
        answer = handler(event, None)
    assert answer.get("statuses", {"RUNNING": 1}) == {"RUNNING": 1}
    assert answer.get("status", "RUNNING") == "RUNNING"
    (layers,) = stacks.seen
    first, *between = layers
    assert first == "function_under_test"
    names = [layer if isinstance(layer, str) else type(layer).__name__ for layer in between]
    assert "Watch" in names, "the stack was followed across threads"
    assert len(between) <= MOST, names
