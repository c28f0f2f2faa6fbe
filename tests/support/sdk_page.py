"""docs/sdk.md, made from the signatures and docstrings of what training calls."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lastbeat
from lastbeat.training.sdk.run import Run
from support.checkout import ROOT

PAGE = ROOT / "docs" / "sdk.md"
_HEAD = """\
# The SDK, name by name

For people who call lastbeat from training and look for an option. [report.md](report.md) shows how it is used.
[rerun.md](rerun.md), [ray.md](ray.md) and the callbacks in [report.md](report.md) have pages of their own.
"""
_FUNCTIONS = ("run", "start", "alert", "find_checkpoints", "ignore_stop_signals")
METHODS = (
    "step", "log", "section", "phase", "set_phase", "alert", "url",
    "should_stop", "all_should_stop", "preempted", "complete", "fail", "cancel", "status", "ended",
)  # fmt: skip
"""What people call on a run; its other public names are for lastbeat's own modules."""


def page() -> str:
    """The text of docs/sdk.md."""
    functions = (line for name in _FUNCTIONS for line in _entry(f"lastbeat.{name}", getattr(lastbeat, name)))
    methods = (line for name in METHODS for line in _entry(f"run.{name}", inspect.getattr_static(Run, name)))
    of_run = ("## A run", "", "What `lastbeat.run` and `lastbeat.start` return.", "")
    return "\n".join([_HEAD, *functions, *of_run, *methods])


def _entry(name: str, what: Any) -> Iterator[str]:
    function = what.fget if isinstance(what, property) else what
    call = name if isinstance(what, property) else _call(name, function)
    yield from (f"{'###' if name.startswith('run.') else '##'} `{call}`", "")
    yield from (markdown(inspect.getdoc(function) or ""), "")


def _call(name: str, function: Any) -> str:
    """The call with every option and its default."""
    given = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    parts = [f"{each.name}={each.default!r}" if each.default is not each.empty else _bare(each) for each in given]
    return f"{name}({', '.join(parts)})"


def _bare(each: inspect.Parameter) -> str:
    return f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name


def markdown(docstring: str) -> str:
    """``docstring`` without the marks of reStructuredText."""
    named = re.sub(r":\w+:`([^`]+)`", r"`\1`", docstring)
    return re.sub(r"``([^`]+)``", r"`\1`", named)


def written() -> dict[Path, str]:
    """The page → its text."""
    return {PAGE: page()}
