"""Evidence in its log context: found again by its number or its words, from few bytes, however large the log."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.cause import Evidence
from lastbeat.model.view import Excerpt
from lastbeat.stores.port import DeniedError
from lastbeat.views.evidence import AFTER, BEFORE, WINDOW_BYTES, EvidenceReader
from lastbeat.views.safe import Safe
from support.memory import START, MemoryStore

KEY = "run-1/logs/train.log"
LINE = "RuntimeError: CUDA out of memory on rank 3"
PAD = "".join(f"step {number} loss 2.5\n" for number in range(60_000))


def look(text: str, line: int, said: str = LINE, store: MemoryStore | None = None) -> Excerpt:
    store = store or MemoryStore()
    store.put_text(KEY, text)
    entry = store.list("run-1/").entries[0]
    return EvidenceReader(store, Safe()).look(Evidence("logs/train.log", line, said), entry, START)


def marked(found: Excerpt) -> str:
    assert found.marked is not None
    return found.lines[found.marked]


@pytest.mark.parametrize(
    ("text", "line", "first"),
    [
        pytest.param(f"{LINE}\n" + "x\n" * 50 + f"{LINE}\n", 1, 1, id="its number, though the same is said later"),
        pytest.param("x\n" * 50 + f"{LINE}\ny\n", 7, 43, id="elsewhere, when its number says something else now"),
        pytest.param("x\n" * 50 + f"{LINE}\n", 0, 43, id="by its words where no number is known"),
        pytest.param(LINE, 1, 1, id="in a line that has not ended"),
        pytest.param(f"10%\r20%\r{LINE}\r30%\n", 1, 1, id="in a line that was drawn over"),
        pytest.param(f"\x1b[31m{LINE}\x1b[0m\n", 1, 1, id="in a line with colours"),
        pytest.param(f"a\r\nb\r\n{LINE}\r\n", 3, 1, id="between line ends of another system"),
        pytest.param(f"\u2028\x85\x0b\n{LINE}\n", 2, 1, id="behind characters that others take for line ends"),
    ],
)
def test_it_is_found(text: str, line: int, first: int) -> None:
    found = look(text, line)
    assert found.first_line == first
    assert found.marked is not None
    assert found.note is None


@given(st.integers(0, 40), st.integers(0, 40))
def test_some_lines_before_it_and_some_after_it_are_shown(before: int, after: int) -> None:
    found = look("".join(f"b{n}\n" for n in range(before)) + f"{LINE}\n" + "a\n" * after, before + 1)
    assert marked(found) == LINE
    assert found.marked == min(before, BEFORE)
    assert len(found.lines) - (found.marked or 0) - 1 == min(after, AFTER)
    assert found.first_line == before + 1 - min(before, BEFORE)


def test_a_traceback_is_shown_from_its_beginning() -> None:
    frames = "".join(f'  File "f{n}.py", line {n}, in f\n    call()\n' for n in range(10))
    found = look(f"step 1\nTraceback (most recent call last):\n{frames}{LINE}\n", 23)
    assert found.lines[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(f"{LINE}\n{PAD}{PAD}{PAD}", 1, id="at the start"),
        pytest.param(f"{PAD}{PAD}{PAD}{LINE}\nthe end\n", 180_001, id="at the end"),
        pytest.param(
            f"{PAD}{PAD}{LINE}\n{PAD}{PAD}{PAD}", 120_001, id="in the middle, where its number is about right"
        ),
    ],
)
def test_in_a_large_log_it_is_found_from_a_few_windows(text: str, line: int) -> None:
    store = MemoryStore()
    assert marked(look(text, line, store=store)) == LINE
    assert sum(operation == "read" for operation, _ in store.calls) <= 3
    assert len(text) > 3 * WINDOW_BYTES


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param("something else\n", "not found in the file as it is now", id="the file is another one by now"),
    ],
)
def test_what_is_not_there_any_more_is_shown_alone_and_that_is_said(text: str, note: str) -> None:
    found = look(text, 3)
    assert (found.lines, found.marked) == ((LINE,), 0)
    assert note in (found.note or "")


def test_where_the_file_is_gone_the_evidence_is_known_all_the_same() -> None:
    found = EvidenceReader(MemoryStore(), Safe()).look(Evidence("/var/log/train.log", 3, LINE), None, START)
    assert (found.file, found.lines) == ("/var/log/train.log", (LINE,))
    assert found.note


def test_a_refused_read_says_so_and_is_tried_again() -> None:
    store = MemoryStore()
    store.put_text(KEY, f"{LINE}\n")
    entry = store.list("run-1/").entries[0]
    reader, evidence = EvidenceReader(store, Safe()), Evidence("logs/train.log", 1, LINE)

    store.refuse("any", DeniedError("it is refused"))
    refused = reader.look(evidence, entry, START)
    assert "is refused" in (refused.note or "")
    assert refused.lines == (LINE,)
    store.heal()
    assert reader.look(evidence, entry, START).note is None


def test_once_found_with_what_follows_it_is_not_read_again_though_the_log_grows() -> None:
    store = MemoryStore()
    store.put_text(KEY, f"{LINE}\n" + "x\n" * AFTER)
    entry = store.list("run-1/").entries[0]
    reader, evidence = EvidenceReader(store, Safe()), Evidence("logs/train.log", 1, LINE)
    found = reader.look(evidence, entry, START)
    store.calls.clear()
    assert reader.look(evidence, replace(entry, version="other"), START) == found
    assert store.calls == []


def test_what_follows_it_is_read_when_there_is_more_but_not_at_every_look() -> None:
    store = MemoryStore()
    reader, evidence = EvidenceReader(store, Safe()), Evidence("logs/train.log", 1, LINE)
    shown = []
    for minutes in range(8):
        store.put_text(KEY, f"{LINE}\n" + "more\n" * minutes)
        entry = store.list("run-1/").entries[0]
        shown.append(len(reader.look(evidence, entry, START + timedelta(minutes=minutes)).lines))
    assert shown == sorted(shown)
    assert shown[0] < shown[-1]
    assert sum(operation == "read" for operation, _ in store.calls) < 5


@given(st.text(max_size=60), st.lists(st.text(max_size=30), max_size=12))
def test_whatever_a_log_holds_its_evidence_is_shown(said: str, lines: list[str]) -> None:
    found = look("\n".join(lines), 2, said)
    assert found.marked is not None
    assert found.marked < len(found.lines)


def test_an_exit_status_is_no_file_that_is_missing() -> None:
    found = EvidenceReader(MemoryStore(), Safe()).look(Evidence("exit status", 0, "killed by SIGKILL"), None, START)
    assert (found.file, found.lines, found.first_line, found.note) == (
        "exit status",
        ("killed by SIGKILL",),
        None,
        None,
    )
