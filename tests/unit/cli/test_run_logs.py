"""Lines of a run's logs: none too many and none too few, whatever the log holds and however it comes."""

import os
import re
import signal
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lastbeat.model.text import CUT
from lastbeat.watch.observe.log_source import LogSource, StoredLog
from lastbeat_cli.loop import Stop
from lastbeat_cli.run_logs.files import LogSelection, chosen
from lastbeat_cli.run_logs.following import Following, until_over
from lastbeat_cli.run_logs.printing import IN_A_PIPE, Grep, Lines, Printer
from lastbeat_cli.run_logs.reading import Last, chunks, end_of
from support.memory import START, MemoryStore
from support.there import there

RUN = "run-1"
LOG = "logs/training_log_latest.txt"
_TEXTS = st.lists(st.sampled_from(["a", "bb", "", "c" * 3000, "é", "\r", "\n"]), max_size=40).map("".join)


class Shown(Printer):
    """Keeps what it would print."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def show(self, file: str, text: str) -> None:
        self.lines.append(text)


@dataclass
class World:
    """One log in a store, as training writes it."""

    store: MemoryStore

    def put(self, text: str, name: str = LOG) -> LogSource:
        self.store.put_text(f"{RUN}/{name}", text)
        entry = next(each for each in self.store.list(f"{RUN}/").entries if each.key == f"{RUN}/{name}")
        return StoredLog(self.store, name, entry)


@given(_TEXTS, st.integers(0, 50), st.integers(1, 200))
def test_the_last_lines_are_those_that_any_editor_shows(text: str, most: int, times: int) -> None:
    body = text * times
    end = there(end_of(World(MemoryStore()).put(body), most))
    lines = body.encode().split(b"\n")
    half = lines.pop()
    wanted = [*lines, *([half] if half else [])]
    got = [*end.lines, *([end.half] if end.half else [])]
    assert got == wanted[max(0, len(wanted) - most) :]
    assert end.cursor.offset == len(body.encode()) - len(half), "what has not ended is still to come"


@given(st.lists(st.text("ab", max_size=9), max_size=30), st.integers(0, 12), st.integers(0, 60))
@example(["aaaa", "aaaa", "b", "b", "b"], 3, 5)
def test_of_the_last_lines_no_more_are_kept_than_there_is_room_for(lines: list[str], most: int, room: int) -> None:
    last = Last(most, room)
    for each in lines:
        last.add(each)
    kept = list(last.lines)
    assert kept == lines[len(lines) - len(kept) :]
    assert len(kept) <= most
    assert sum(map(len, kept)) <= room
    left = lines[: len(lines) - len(kept)][-1:]
    if left and len(kept) < most:
        assert sum(map(len, [*left, *kept])) > room, "none is left out for nothing"
    assert last.short == (len(kept) < min(most, len(lines))), "and it is known where one was"


@given(_TEXTS, st.integers(0, 5000))
def test_all_of_a_log_is_all_of_it_up_to_where_it_is_asked_for(text: str, until: int) -> None:
    body = (text * 50).encode()
    source = World(MemoryStore()).put(text * 50)
    assert b"".join(chunks(source)) == body
    assert b"".join(chunks(source, until)) == body[:until]


@given(st.lists(_TEXTS, min_size=1, max_size=8), st.booleans())
def test_what_is_followed_is_printed_once_however_it_came(parts: list[str], window: bool) -> None:
    world, printer = World(MemoryStore()), Shown()
    following, text = (
        Following(printer),
        "a first line that is long enough to be known again, wherever it lies now\n" * 2,
    )
    source = world.put(text)
    end = there(end_of(source, 0))
    following.begin(source, end.cursor)
    whole = text
    for part in parts:
        whole += part
        # A window begins with a whole line, and what was read last is still in it.
        cut = len(text) // 2 if window else 0
        following.look([world.put(whole[cut:])])
    following.end()
    texts = (Printer().text(line.encode()) for line in whole[len(text) :].split("\n"))
    assert [line for line in printer.lines if line] == [line for line in texts if line]


@given(st.lists(st.binary(max_size=30), max_size=12))
def test_lines_are_the_same_in_whatever_pieces_they_come(pieces: list[bytes]) -> None:
    lines = Lines()
    found = [line for piece in pieces for line in lines.feed(piece)]
    whole = b"".join(pieces)
    assert [*found, lines.end()] == whole.split(b"\n")


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("^step", "step 1", True, id="at the beginning"),
        pytest.param("needle", "x" * 90_000 + "needle", True, id="far in a very long line"),
        pytest.param("^x+needle", "y" * 5000 + "xneedle", False, id="the beginning of a part is no beginning"),
        pytest.param("x{3}", "xx", False, id="nothing"),
    ],
)
def test_what_is_looked_for(pattern: str, text: str, matches: bool) -> None:
    assert Grep(re.compile(pattern)).matches(text) is matches


@given(st.text(max_size=60), st.sampled_from(["a", "a*", "b|$", r"\w+", "[^a]"]))
def test_where_it_stands_is_told_in_order_and_never_twice(text: str, pattern: str) -> None:
    spans = list(Grep(re.compile(pattern)).spans(text))
    assert all(re.compile(pattern).fullmatch(text[start:end]) or start == end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert bool(spans) is (re.search(pattern, text) is not None)


def test_a_line_that_is_too_long_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    text = there(printer.text(b"x" * 1_000_000))
    printer.show(LOG, text)
    shown = capsys.readouterr().out
    assert shown.endswith(CUT + "\n")
    assert len(shown) == IN_A_PIPE + 2


@pytest.mark.parametrize(
    ("there", "choice", "names"),
    [
        pytest.param([(LOG, 0), ("logs/rank0.log", 0)], LogSelection(), [LOG], id="the run's own log"),
        pytest.param(
            [(LOG, 9), ("logs/rank1.log", 0), ("logs/rank0.log", 0)], LogSelection(), ["logs/rank0.log"], id="of now"
        ),
        pytest.param([("logs/b.log", 0), ("logs/rank0.log", 0)], LogSelection(), ["logs/b.log"], id="of no rank"),
        pytest.param([("_error", 0)], LogSelection(), [], id="what is no log is not chosen by itself"),
        pytest.param([("_error", 0)], LogSelection(("_err*",)), ["_error"], id="but where it is named"),
        pytest.param(
            [("logs/rank10.log", 0), ("logs/rank9.log", 0), ("logs/a.log", 0)],
            LogSelection(("*.log",)),
            ["logs/a.log", "logs/rank9.log", "logs/rank10.log"],
            id="several, rank by rank",
        ),
    ],
)
def test_which_logs_are_meant(there: list[tuple[str, int]], choice: LogSelection, names: list[str]) -> None:
    store = MemoryStore()
    for name, hours in there:
        store.put_text(f"{RUN}/{name}", "x", modified=START - timedelta(hours=hours))
    entries = store.list(f"{RUN}/").entries
    sources = [StoredLog(store, entry.key.removeprefix(f"{RUN}/"), entry) for entry in entries]
    assert [source.name for source in chosen(sources, choice)] == names


def test_ctrl_c_ends_it_though_it_comes_where_python_loses_exceptions() -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            sum(range(100))

    looks = 0

    def sources() -> list[LogSource]:
        nonlocal looks
        looks += 1
        Finalized()
        return []

    with Stop((signal.SIGINT,)) as stop, pytest.raises(KeyboardInterrupt):
        until_over(Following(Shown()), sources, lambda: None, 0.01, stop)
    assert looks == 1
