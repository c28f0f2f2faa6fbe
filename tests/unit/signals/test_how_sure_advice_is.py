"""Hints: what the evidence says is filled in, and advice is as sure as the cause that it follows from."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.hints import GUESS, either, filled, restart_hint, shortened
from lastbeat.explain.signals.loading import load
from lastbeat.model.cause import sureness
from support.printed import STEPS
from support.there import there

CATALOGUE = load("default")


@pytest.mark.parametrize(
    ("restartable", "confidence", "said"),
    [
        pytest.param(True, 0.9, "from the last checkpoint, it may well get past this.", id="a restart helps"),
        pytest.param(True, 0.5, "from the last checkpoint, it may get past this.", id="it helps if the guess is right"),
        pytest.param(False, 0.9, "only after a change; without one it will end here again.",
                     id="a restart does not help"),
        pytest.param(False, 0.7, "only after a change; without one it will probably end here again.",
                     id="it probably does not"),
        pytest.param(False, 0.5, "if this is the cause, only after a change.",
                     id="a guess promises nothing"),
        pytest.param(None, 0.9, "it depends on what was behind this.", id="nobody knows"),
    ],
)  # fmt: skip
def test_a_restart(restartable: bool | None, confidence: float, said: str) -> None:
    assert restart_hint(restartable, confidence) == said


@pytest.mark.parametrize(
    ("line", "word"),
    [
        pytest.param("Out of memory: Killed process 4711 (python) total-vm:1kB", "sure", id="the kernel says so"),
        pytest.param("Killed", "perhaps", id="a shell that says Killed says not by whom"),
        pytest.param("worker exited with exit code 143", "perhaps", id="nor does a status"),
    ],
)
def test_the_hint_of_a_guess_begins_with_that(line: str, word: str) -> None:
    cause = there(explain_text(STEPS + line + "\n", CATALOGUE).cause)
    assert (sureness(cause.confidence), cause.hint.startswith(GUESS)) == (word, word == "perhaps")


def test_that_nothing_is_known_is_no_guess() -> None:
    cause = there(explain_text(STEPS + "Process exited with exit code 1\n", CATALOGUE).cause)
    assert (cause.error_type, GUESS in cause.hint) == ("unknown", False)


@pytest.mark.parametrize(
    ("hint", "short"),
    [
        pytest.param("Less of it.", "Less of it.", id="short enough"),
        pytest.param(GUESS + "Less of it.", "Less of it.", id="that it is a guess is said once, elsewhere"),
        pytest.param(f"{'a' * 150}. {'B' * 60}. {'C' * 60}.", f"{'a' * 150}. {'B' * 60}.", id="whole sentences"),
        pytest.param(
            "dmesg -T | grep -i 'oom. x' tells. " + "Z" * 220, "dmesg -T | grep -i 'oom. x' tells.", id="no end"
        ),
        pytest.param(f"{'word ' * 100}", f"{'word ' * 79}word …", id="a sentence that is too long is cut at a word"),
        pytest.param("", "", id="none"),
    ],
)
def test_a_hint_in_short(hint: str, short: str) -> None:
    assert shortened(hint) == short


def test_what_to_do_about_either() -> None:
    assert (
        either(("oom", GUESS + "Less of it."), ("cancelled", "Ask who."))
        == "If oom: Less of it. If cancelled: Ask who."
    )


ROWS = [
    pytest.param(
        "{size} asked, {free} free", {"size": "2 GiB", "free": "1 GiB"}, "2 GiB asked, 1 GiB free", id="known"
    ),
    pytest.param("{size} asked, {free} free", {"size": "2 GiB"}, "2 GiB asked, ? free", id="one is not known"),
    pytest.param("{size} asked[, {free} free].", {"size": "2 GiB"}, "2 GiB asked.", id="what is not known is left out"),
    pytest.param("{size} asked[, {free} free].", {"size": "2", "free": "1"}, "2 asked, 1 free.", id="… or said"),
    pytest.param("[{a} of {b} ]left", {"a": "1"}, "left", id="both or none"),
    pytest.param("ls iter_[0-9]*", {}, "ls iter_[0-9]*", id="brackets of a shell"),
    pytest.param(
        "quota -u ${USER} | awk '{print $1}'", {"user": "x"}, "quota -u ${USER} | awk '{print $1}'", id="braces of one"
    ),
    pytest.param("Rank {rank} on {host}", {"rank": 3, "host": "gpu-1"}, "Rank 3 on gpu-1", id="rank and host"),
    pytest.param("Rank {rank} on {host}", {"rank": None, "host": ""}, "This process on its node", id="neither"),
    pytest.param("exclude={host}", {}, "exclude=NODE", id="a host in a command"),
    pytest.param("look at rank {rank}", {"rank": 0}, "look at rank 0", id="rank 0 is a rank"),
    pytest.param("{what}!", {"what": "{rank}", "rank": 1}, "{rank}!", id="what a log says is not filled in turn"),
]


@pytest.mark.parametrize(("hint", "fields", "expected"), ROWS)
def test_filled(hint: str, fields: Mapping[str, object], expected: str) -> None:
    assert filled(hint, fields) == expected


@given(st.text(max_size=300), st.dictionaries(st.sampled_from(["rank", "host", "size"]), st.text(), max_size=3))
def test_no_hint_and_no_value_raises_or_grows_without_bound(hint: str, fields: Mapping[str, object]) -> None:
    assert len(filled(hint + "{size}[{host}]", fields)) <= 40 * len(hint) + 300
