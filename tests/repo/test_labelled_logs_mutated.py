"""The labelled logs as they come elsewhere: behind other prefixes, with other line ends, in pieces."""

import json
from collections.abc import Callable

import pytest

from lastbeat.explain.causes.explaining import explain, explain_text
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.scanning.splitting import line_of
from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.loading import load
from lastbeat.lab.scoring import Case, read_index
from lastbeat.model.cause import Explanation
from support.checkout import ROOT

CORPUS = ROOT / "tests" / "corpus"
LARGE = 200_000
"""Logs of more bytes are left out: they would take most of the time and show nothing else."""
PIECE = 97

Told = tuple[str | None, int | None]


def told(found: Explanation) -> Told:
    return (found.cause.error_type, found.cause.evidence.line) if found.cause is not None else (None, None)


def prefixed(prefix: str) -> Callable[[str], str]:
    def mutate(text: str) -> str:
        lines = text.split("\n")
        last = lines.pop()
        return "".join(f"{prefix}{line}\n" for line in lines) + (prefix + last if last else "")

    return mutate


def unix_as_windows(text: str) -> str:
    return prefixed("2026-01-05T03:00:00.123456789Z ")(text).replace("\n", "\r\n")


MUTATIONS = [
    pytest.param(unix_as_windows, id="kubectl logs --timestamps, with line ends of Windows"),
    pytest.param(lambda text: prefixed("3: ")(text) + "\n\n", id="srun --label, with empty lines at the end"),
    pytest.param(prefixed("Jan 05 03:00:00 gpu-7 train[2210]: "), id="journalctl"),
    pytest.param(prefixed("\x1b[36m(TrainWorker pid=2210, ip=10.0.0.7)\x1b[0m "), id="Ray"),
]


@pytest.fixture(scope="module")
def logs() -> dict[str, tuple[str, Told]]:
    cases: list[Case] = read_index((CORPUS / "index.jsonl").read_text("utf-8"), "index.jsonl", TYPES)
    known: dict[str, tuple[str, Told]] = {}
    for case in cases:
        data = (CORPUS / case.file).read_bytes()
        if len(data) <= LARGE:
            text = data.decode("utf-8", "replace")
            known[case.id] = text, told(explain_text(text, load("default")))
    return known


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_the_same_cause(mutate: Callable[[str], str], logs: dict[str, tuple[str, Told]]) -> None:
    catalogue = load("default")
    now = {name: told(explain_text(mutate(text), catalogue)) for name, (text, _) in logs.items()}
    assert {name: now[name] for name in now if now[name] != logs[name][1]} == {}


def test_the_same_cause_however_the_text_arrives(logs: dict[str, tuple[str, Told]]) -> None:
    catalogue = load("default")
    other = {}
    for name, (text, before) in logs.items():
        reader, data = LogReader(catalogue, "-"), text.encode()
        half = len(data) // 2
        for start in range(0, half, PIECE):
            reader.feed(data[start : min(start + PIECE, half)])
        reader = LogReader.restore(catalogue, json.loads(json.dumps(reader.document())))
        reader.feed(data[half:])
        reader.finish()
        if (now := told(explain([reader.summary()], catalogue))) != before:
            other[name] = now, before
    assert other == {}


def test_steps_that_go_on_behind_it_acquit_any_failure(logs: dict[str, tuple[str, Told]]) -> None:
    catalogue = load("default")
    steps = "".join(f"step {n} loss {2 - n / 10_000:.4f} lr 1e-4\n" for n in range(5000, 5040))
    blamed = {}
    for name, (text, _) in logs.items():
        found = explain_text(text.rstrip("\n") + "\n" + steps, catalogue)
        if found.cause is not None or found.ended:
            blamed[name] = told(found)
    assert blamed == {}


def test_the_same_type_where_each_rank_has_a_file_of_its_own(logs: dict[str, tuple[str, Told]]) -> None:
    catalogue = load("default")
    other = {}
    for name, (text, before) in logs.items():
        files: dict[int | None, list[str]] = {}
        for number, raw in enumerate(text.splitlines(keepends=True)):
            files.setdefault(line_of(number, raw).rank, []).append(raw)
        summaries = []
        for rank, lines in files.items():
            reader = LogReader(catalogue, f"rank{rank}.log", rank=rank)
            reader.feed("".join(lines).encode())
            reader.finish()
            summaries.append(reader.summary())
        if (now := told(explain(summaries, catalogue))[0]) != before[0]:
            other[name] = now, before[0]
    assert other == {}
