"""Which lines match which signals, and which lines need not be asked."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import SupportsIndex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastbeat.explain.scanning.line_templates import template_of
from lastbeat.explain.scanning.literal_index import LiteralIndex
from lastbeat.explain.scanning.matching import MATCH_LIMIT, Matcher, compiled, matcher_of
from lastbeat.explain.scanning.prefilter import Prefilter
from lastbeat.explain.scanning.splitting import Batch, Splitter
from lastbeat.explain.scanning.template_prefilter import are_digits_alike, shared_prefilter
from lastbeat.explain.signals.loading import load
from lastbeat.model.signal import Signal
from support.laws import examples

SIGNALS = (
    Signal("iteration", r"iteration\s{1,9}(?P<step>\d{1,12})/\s*\d+", kind="progress"),
    Signal("bar", r"^\s*\d{1,3}%\|", kind="progress"),
    Signal("memory", "CUDA out of memory", ignore_case=True, verdict="crash"),
    Signal("killed", r"^Killed$"),
    Signal("nan", r"loss:?\s*(?:nan|inf)\b", ignore_case=True),
    Signal("code", r"\b(?:137|-9)\b"),
    Signal("code_text", "(137)", substring=True),
    Signal("number", r"\d\d\d\d-\d\d"),
    Signal("fault", r"\w{1,40}Error\b(?!x)"),
    Signal("greeting", "Größe [ÄÖ]", ignore_case=True),
    Signal("stars", r"\*\*\* .{0,40}CANCELLED"),
)
WORDS = st.sampled_from(
    [
        "iteration",
        "     10/  100",
        "loss: ",
        "nan",
        "inf",
        "NaN",
        "CUDA out of",
        " memory",
        "cuda OUT of",
        "Killed",
        "137",
        "[rank3]: ",
        "3: ",
        "\x1b[31m",
        "Error",
        "Key",
        "x",
        " ",
        " 5%| 1/9 [0<1, 1.1it/s]",
        "\r",
        "(137)",
        "2024-11",
        "Größe ",
        "Ä",
        "größe ö",
        "*** JOB ",
        "CANCELLED",
        "K",
        "\u017f",
        "\x00",
        "a" * 1500 + " ",
        "z" * 700,
    ]
)
LOG = st.lists(st.lists(WORDS, max_size=6).map("".join), max_size=12).map(
    lambda lines: "\n".join([*lines, ""]).encode()
)


def asked_one_by_one(line: str, signals: Sequence[Signal]) -> list[str]:
    """Every pattern, tried on what may be searched of the line."""
    found = []
    for signal in signals:
        pattern = re.escape(signal.pattern) if signal.substring else signal.pattern
        compiled = re.compile(pattern, re.ASCII | (re.IGNORECASE if signal.ignore_case else 0))
        if compiled.search(line) is not None:
            found.append(signal.name)
    return found


def names(matcher: Matcher, line: str) -> list[str]:
    return [signal.name for signal, _ in matcher.matches(line)]


def batch_of(data: bytes) -> Batch:
    return Splitter().feed(data)


@given(data=LOG)
def test_a_matcher_finds_what_every_pattern_by_itself_would(data: bytes) -> None:
    matcher, batch = Matcher(SIGNALS), batch_of(data)
    for line in (batch.line(index).text for index in range(len(batch))):
        if len(line) <= MATCH_LIMIT:
            assert names(matcher, line) == asked_one_by_one(line, SIGNALS)
        else:
            assert set(names(matcher, line)) <= {signal.name for signal in SIGNALS}


@given(data=LOG, times=st.sampled_from([1, 30]), leave_out=st.sets(st.sampled_from([s.name for s in SIGNALS])))
def test_no_line_that_matches_is_skipped(data: bytes, times: int, leave_out: set[str]) -> None:
    matcher = Matcher([signal for signal in SIGNALS if signal.name not in leave_out])
    prefilter, batch = Prefilter(matcher), batch_of(data * times)
    for _ in range(2):  # what was learned of one batch must not hide anything in the next
        lines = list(prefilter.lines(batch))
        steps = list(prefilter.progress(batch, 0, len(batch)))
        assert lines == sorted(set(lines))
        assert steps == sorted(set(steps), reverse=True)
        for index in range(len(batch)):
            kinds = {signal.kind for signal, _ in matcher.matches(batch.line(index).text)}
            assert (index in lines) == bool(kinds - {"progress"})
            assert index in steps or "progress" not in kinds
        batch = batch_of(data + data * times)


HEALTHY = "".join(
    f" [2025-11-25 08:46:25] iteration {step:8}/  100000 | consumed samples: {step * 512:12} | elapsed time per "
    f"iteration (ms): 4082.5 | learning rate: 3.0E-04 | lm loss: {2 + step / 1e4:.6E} | loss scale: 1.0 | grad norm: "
    "0.5 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    for step in range(300)
)


def test_lines_of_a_healthy_run_are_skipped_though_they_hold_the_words_of_signals() -> None:
    matcher = matcher_of(load("megatron_production"))
    prefilter = Prefilter(matcher)
    batch = batch_of(HEALTHY.encode())
    assert list(prefilter.lines(batch)) == []
    last = next(prefilter.progress(batch, 0, 200))
    assert last == 199
    assert "megatron_iteration" in names(matcher, batch.line(last).text)


@pytest.mark.parametrize("name", ["default", "megatron_production"])
def test_no_signal_makes_each_line_of_a_healthy_run_be_looked_at_by_itself(name: str) -> None:
    matcher, batch = matcher_of(load(name)), batch_of(HEALTHY.encode())
    closer = shared_prefilter(matcher)
    for index in matcher.templates.possible(template_of(batch.line(0).text)):
        signal = matcher.signals[index]
        assert signal.kind == "progress" or are_digits_alike(signal.pattern) or closer.absent(batch, [index]), (
            f"{signal.name}: lines that differ in their digits alone are not alike to it, so a healthy log would be "
            "read ten times slower. Give the part with digits a signal of its own whose pattern begins with its words"
        )


def test_one_line_among_many_of_its_kind_is_found() -> None:
    prefilter = Prefilter(matcher_of(load("megatron_production")))
    lines = HEALTHY.splitlines(keepends=True)
    lines[77] = lines[77].replace("lm loss: 2.007700E+00", "lm loss: inf")
    lines[99] = lines[99].replace("lm loss: 2.009900E+00", "lm loss: nan")
    assert list(prefilter.lines(batch_of("".join(lines).encode()))) == [77, 99]


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(draw=st.data(), around=st.sampled_from(["{}", "[rank3]: {}", "error: {} failed, exit 1", "{} its loss nan"]))
def test_text_made_of_a_built_in_pattern_is_found_as_the_pattern_alone_finds_it(
    draw: st.DataObject, around: str
) -> None:
    catalogue = load("default")
    signal = draw.draw(st.sampled_from(catalogue.signals), label="signal")
    text = draw.draw(st.from_regex(compiled(signal), alphabet=st.characters(codec="utf-8")), label="text")
    line = around.format(re.sub(r"[\r\n\x00\x1b]", " ", text))[:MATCH_LIMIT]
    batch = batch_of(f"{line}\n".encode())
    told = [batch.line(index).text for index in range(len(batch))]
    for native in (False, True):
        matcher = Matcher(catalogue.signals, native=native)
        if native:
            # RE2 is loaded once there was much to look at.
            matcher.templates.possible_of_each({b"q" * (16_000 + more) for more in range(40)})
        kept = set(Prefilter(matcher).lines(batch))
        for index, each in enumerate(told):
            expected = asked_one_by_one(each, catalogue.signals)
            assert names(matcher, each) == expected
            kinds = {other.kind for other in catalogue.signals if other.name in expected}
            assert (index in kept) == bool(kinds - {"progress"})


TEXTS = ["outofmemory", "killed", "nan", "error", "nccl", "rrorx", "xid", "ab"]


@settings(max_examples=examples(10, 200))
@given(
    lines=st.lists(st.lists(st.sampled_from([*TEXTS, "q", "er", "ror", "a", "b"]), max_size=4).map("".join)),
    apart=st.sampled_from([1, 7, 100]),
)
def test_each_way_to_look_for_many_texts_finds_the_same(lines: list[str], apart: int) -> None:
    wanted = {index * apart: {text for text in TEXTS if text in line} for index, line in enumerate(lines)}
    expected = {index: texts for index, texts in wanted.items() if texts}
    little = ("\n" * apart).join(lines)
    more, much = little + "\n" * 5_000, little + "\n" * 530_000
    for index, text in (
        (LiteralIndex(TEXTS), little),
        (LiteralIndex(TEXTS), more),
        (LiteralIndex(TEXTS), much),
        (LiteralIndex(TEXTS, native=False), much),
    ):
        assert {line: set(texts) for line, texts in index.lines(text).items()} == expected


def test_a_thread_that_asks_while_another_prepares_the_index_misses_nothing() -> None:
    found: list[dict[int, list[str]]] = []

    class Asking(str):
        """Asks the index for a text at the moment at which the index prepares this one."""

        __slots__ = ()

        def __getitem__(self, at: "slice | SupportsIndex") -> str:
            if not found:
                found.append({})
                found.append(index.lines("killed"))
            return str(self)[at]

    index = LiteralIndex([Asking("error"), "killed"])
    index.lines("step")
    assert found == [{}, {0: ["killed"]}]
    assert index.lines("killed") == {0: ["killed"]}


def test_threads_share_one_catalogue_and_one_matcher() -> None:
    """As the first look at a fleet does: each thread reads a run's log."""
    together = Barrier(8)

    def matcher(_: int) -> Matcher:
        together.wait()
        return matcher_of(load("default"))

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(matcher, range(8)))) == 1


@pytest.mark.parametrize("native", [False, True])
def test_where_no_texts_are_wanted_none_are_found(native: bool) -> None:
    assert LiteralIndex([], native=native).lines("error\n" * 200_000) == {}


LOOSE = (
    Signal("fault", r"(?:^|[\s\[])(?:ERROR|error)[\]:]?(?:\s|$)", error_type="exception"),
    Signal("numbered", r"^error 7\d$", error_type="hardware"),
    Signal("around", r"(?<!no )error in stage [3-5]\b", error_type="data"),
    Signal("counted", r"number of nan iterations:\s{1,6}[1-9]", kind="nan"),
    Signal("stated", r"loss:?\s*(?:nan|inf)\b", ignore_case=True, kind="nan"),
    Signal("address", r"^\s{1,16}ip: (?P<peer>[\w.:-]{3,60})\s*$", kind="peer"),
)
COUNTED = (
    "iteration 7/ 9 | lm loss: 2.5 | loss scale: 1.0 | number of skipped iterations: 0 | number of nan iterations: "
)


@settings(max_examples=examples(15))
@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(["", "[rank3]: ", "(W pid=12) ", "x "]),
            st.sampled_from(
                [
                    *("errors 0", "error", "error 71", "error 81", "no error in stage 3", "error in stage 4"),
                    *(
                        f"{COUNTED}0",
                        f"{COUNTED}3",
                        "Loss NaN",
                        "lm loss: inf | number of nan iterations:",
                        " ip: 10.0.0.7",
                    ),
                ]
            ),
            st.sampled_from(["", " ", " 17", "7"]),
        ).map("".join),
        min_size=1,
        max_size=30,
    ),
    times=st.sampled_from([1, 80]),
)
def test_lines_that_look_alike_are_judged_as_each_would_be(parts: list[str], times: int) -> None:
    matcher = Matcher(LOOSE)
    batch = Splitter().feed("".join(f"{part}\n" for part in parts * times).encode())
    expected = [index for index in range(len(batch)) if any(matcher.matches(batch.line(index).text))]
    assert list(Prefilter(Matcher(LOOSE)).lines(batch)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("x " * 600 + "KeyError", ["fault"], id="within the limit"),
        pytest.param("python train.py " + "--flag value " * 400 + "exited: KeyError", ["fault"], id="the end"),
        pytest.param("KeyError " + "--flag value " * 400, ["fault"], id="the beginning"),
        pytest.param("x " * 2000 + "KeyError" + " x" * 2000, [], id="what is far from both is not looked at"),
        pytest.param("KeyError" + "x" * 5000, [], id="a word that is cut in two ends nowhere"),
    ],
)
def test_of_a_long_line_the_beginning_and_the_end_are_searched(line: str, expected: list[str]) -> None:
    assert names(Matcher(SIGNALS), line) == expected


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"error " * 400_000 + b"\n", id="one line of megabytes"),
        pytest.param((b"loss nan error nccl" * 100 + b"\n") * 200, id="long lines full of words that signals have"),
        pytest.param(b"\x1b[" * 500_000 + b"\n", id="nothing but escapes"),
        pytest.param(b"\r" * 1_000_000 + b"\n", id="nothing but carriage returns"),
        pytest.param(b"\n" * 1_000_000, id="nothing but newlines"),
        pytest.param(b"1%it/s, " * 200_000 + b"\n", id="a bar that never ends"),
        pytest.param(bytes(range(256)) * 6000, id="every byte"),
    ],
)
def test_hostile_text_is_read_to_its_end(data: bytes) -> None:
    # A pattern that goes back and forth over it would hang here.
    matcher = matcher_of(load("default"))
    prefilter, batch = Prefilter(matcher), batch_of(data)
    for index in list(prefilter.lines(batch))[:50]:
        list(matcher.matches(batch.line(index).text))


def test_a_pattern_that_could_run_on_over_many_lines_is_not_searched_for_in_all_of_them_at_once() -> None:
    signals = [
        Signal("open", r"request failed \([^)]*\) 5[3-9]"),
        Signal("late", r"request failed [^)]{0,3000}\) 5[3-9]"),
    ]
    lines = "".join(f"request failed (of {number} {number * 7919 % 1000}\n" for number in range(30_000))
    assert list(Prefilter(Matcher(signals)).lines(batch_of(lines.encode()))) == []
