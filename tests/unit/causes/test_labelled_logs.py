"""Logs and what has to be found in each, as rows of ``logs/*.yaml``: one test a file, which tells all that is wrong.

A file has ``groups``, and by name the ``texts`` that its rows share. A group has ``rows``, ``about``, which says what
they show, and what holds for every row that does not say otherwise. A row stands below what its log shows, once in a
file. It is its log alone, or it has:

``log``
    the log, or what of it is this row's own; where it is one line, its end need not be written
``text``
    what is read, ``log`` by default: names of :data:`TEXTS` or ``texts`` around it, as in ``steps + log``, or a list of
    these, in all of which the same has to be found; ``steps of rank 3`` has the rank before each line
``file``
    the name of the log's file, or a list of names, under all of which the same has to be found

and at least one key of :data:`FOUND` with what is expected.

In a log or text a line ``{{steps of rank 3}}`` stands for the text of that name, and ``{{5 to 9}} step {n}/1000`` for
five lines, ``step 5/1000`` to ``step 9/1000``. Of a log ``» `` marks the line of evidence.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import Explanation
from lastbeat.watch.decide.logs import also_seen
from support.printed import CHILD_FAILED, MEGATRON, STEPS, raised, ranks, traceback

LOGS = sorted((Path(__file__).parent / "logs").glob("*.yaml"))
TEXTS = {
    "steps": STEPS,
    "eight ranks": ranks(1, 6),
    "megatron": MEGATRON,
    "child failed": CHILD_FAILED,
    # All of a traceback but its last line.
    "traceback": traceback("").removesuffix("\n"),
    "raised": raised("", steps=False),
    "outer frame": "".join(raised("", steps=False).splitlines(keepends=True)[:3]),
    "during handling": "\nDuring handling of the above exception, another exception occurred:\n\n",
    "talk": "".join(f"reading file {'abcdefghij'[n % 10]}{n}.txt\n" for n in range(80)),
}
FOUND: Mapping[str, Callable[[Explanation], object]] = {
    # The cause: its error type, or none; words of the line that shows it; all of that line; the text that has the line,
    # such as ``log``; the line's number.
    "type": lambda found: found.cause.error_type if found.cause is not None else "none",
    "evidence": lambda found: found.cause.evidence.text if found.cause is not None else "",
    "says": lambda found: found.cause.evidence.text if found.cause is not None else "",
    "shown in": lambda found: found.cause.evidence.text if found.cause is not None else "",
    "line": lambda found: found.cause.evidence.line if found.cause is not None else 0,
    # Words of its hint; whether a restart helps; where it was raised.
    "hint": lambda found: found.hint or "",
    "restartable": lambda found: found.cause.restartable if found.cause is not None else None,
    "frames": lambda found: list(found.cause.frames) if found.cause is not None else [],
    # Types of the other candidates; lines of what followed; one of the lines that people see below the cause.
    "beside": lambda found: [other.error_type for other in found.alternatives],
    "followed by": lambda found: [evidence.text for evidence in found.downstream],
    "told": also_seen,
    # The run: whether it has ended, and by a Ctrl-C alone; the line that says that it is done; attempt; time idled.
    "ended": lambda found: found.ended,
    "interrupted": lambda found: found.interrupted,
    "success": lambda found: found.success.text if found.success is not None else None,
    "attempt": lambda found: found.attempt.told if found.attempt is not None else None,
    "idle": lambda found: asdict(found.idle) if found.idle is not None else None,
}
CONTAINED = {"evidence", "hint", "told"}
"""A row has a part of these, and all of the others."""
REFERENCE = re.compile(r"^\{\{(?P<name>[a-zA-Z].*)\}\}\n", re.MULTILINE)
EVIDENCE = re.compile(r"^» (?P<line>.*)$", re.MULTILINE)
COUNTED = re.compile(r"^\{\{(?P<first>\d+) to (?P<last>\d+)\}\} (?P<line>.*\n)", re.MULTILINE)


class UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads YAML, and refuses a mapping that has a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        read: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(read) < len(node.value):
            raise ValueError(f"a key stands twice: {node.start_mark}")
        return read


class Row(NamedTuple):
    name: str
    texts: Mapping[str, str]
    """How each is put together → the text."""
    files: list[str]
    expected: Mapping[str, Any]


def rows_of(document: str) -> list[Row]:
    """ValueError for whatever is not described above."""
    read = yaml.load(document, UniqueKeys)
    _check("the file", read, {"texts", "groups"})
    texts = {**TEXTS, **{name: _written_out(name, text, TEXTS) for name, text in read.get("texts", {}).items()}}
    rows = []
    for group in read["groups"]:
        _check("a group", group, {"about", "rows", "text", "file", *FOUND})
        for name, row in group["rows"].items():
            said = {"log": row} if isinstance(row, str) else row
            rows.append(_row(name, {**{key: group[key] for key in group.keys() - {"about", "rows"}}, **said}, texts))
    twice = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if twice:
        raise ValueError(f"more than one row has the name {twice[0]!r}")
    return rows


def _row(name: str, row: Mapping[str, Any], texts: Mapping[str, str]) -> Row:
    _check(name, row, {"log", "text", "file", *FOUND})
    log = row.get("log", "")
    marked = EVIDENCE.findall(log)
    if len(marked) > 1:
        raise ValueError(f"{name}: two lines of evidence are marked")
    unmarked = EVIDENCE.sub(lambda found: found["line"], log)
    pieces = {**texts, **({"log": _written_out(name, unmarked, texts)} if "log" in row else {})}
    built = {each: each.split(" + ") for each in _each(row, "text", "log")}
    if "log" in row and not any(piece.partition(" of rank ")[0] == "log" for each in built.values() for piece in each):
        raise ValueError(f"{name}: nobody reads its log")
    expected = {key: row[key] for key in row if key in FOUND}
    if marked or "shown in" in row:
        expected["shown in"] = marked[0] if marked else _piece(name, row["shown in"], pieces)
    if not expected:
        raise ValueError(f"{name}: nothing is expected")
    text = {said: "".join(_piece(name, piece, pieces) for piece in each) for said, each in built.items()}
    return Row(name, text, _each(row, "file", "-"), expected)


def _written_out(where: str, text: str, texts: Mapping[str, str]) -> str:
    """``text`` with what its lines in double braces stand for."""

    def lines(found: re.Match[str]) -> str:
        return "".join(found["line"].replace("{n}", str(n)) for n in range(int(found["first"]), int(found["last"]) + 1))

    ended = text if "\n" in text or not text else f"{text}\n"
    return COUNTED.sub(lines, REFERENCE.sub(lambda found: _piece(where, found["name"], texts), ended))


def _piece(name: str, said: str, pieces: Mapping[str, str]) -> str:
    what, _, rank = said.partition(" of rank ")
    _check(name, [what], set(pieces))
    return "".join(f"[rank{rank}]: {line}\n" for line in pieces[what].splitlines()) if rank else pieces[what]


def _each(row: Mapping[str, Any], key: str, default: str) -> list[str]:
    value = row.get(key, default)
    return value if isinstance(value, list) else [value]


def _check(where: str, keys: Iterable[str], known: set[str]) -> None:
    for key in keys:
        if key not in known:
            raise ValueError(f"{where}: {key!r} is not one of {', '.join(sorted(known))}")


def wrong_in(rows: Iterable[Row]) -> list[str]:
    """A line for whatever is not as a row expects."""
    told = []
    for row in rows:
        for said, text, file in ((said, text, file) for said, text in row.texts.items() for file in row.files):
            found = explain_text(text, load("default"), file)
            for key, expected in row.expected.items():
                value: Any = FOUND[key](found)
                if not _holds(key, expected, value):
                    told.append(f"{row.name}: expected {key} {expected!r}, found {value!r} in {said!r} of {file!r}")
    return told


def _holds(key: str, expected: Any, value: Any) -> bool:
    if key == "shown in":
        return value != "" and value in expected
    return bool(expected in value if key in CONTAINED else expected == value)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_each_log_shows_what_its_row_says(path: Path) -> None:
    rows = rows_of(path.read_text("utf-8"))
    wrong = wrong_in(rows)
    assert rows
    assert wrong == [], "\n".join(wrong)
