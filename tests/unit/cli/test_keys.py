"""Which keys bytes are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat_cli.terminal.keys import Keys

PRESSED = [
    pytest.param([b"j"], ["j"], id="a letter"),
    pytest.param([b"\x1b[A\x1b[B"], ["up", "down"], id="two arrows at once"),
    pytest.param([b"\x1bOA"], ["up"], id="an arrow in application mode"),
    pytest.param([b"\x1b", b"[5", b"~"], ["pageup"], id="a key in three parts"),
    pytest.param([b"\x1b[1;5C"], [], id="a key that means nothing here"),
    pytest.param([b"\r"], ["enter"], id="Enter"),
    pytest.param(["ü".encode()[:1], "ü".encode()[1:]], ["ü"], id="a letter in two parts"),
    pytest.param([b"\xff\xfej"], ["j"], id="bytes that are no text"),
    pytest.param([b"\x1bq"], ["escape", "q"], id="an escape before another key"),
    pytest.param([b"\x00\x01"], [], id="controls that mean nothing"),
    pytest.param([b"\x7f"], ["backspace"], id="Backspace"),
    pytest.param([b"a\x1b[200~q run\n\x1b[Ax\x1b[201~b"], ["a", "pasted:q runx", "b"], id="what is pasted is no keys"),
    pytest.param([b"\x1b[200~ru", b"n\x1b[20", b"1~"], ["pasted:run"], id="pasted in pieces"),
    pytest.param([b"\x1b[201~a"], ["a"], id="the end of what never began"),
]


@pytest.mark.parametrize(("data", "keys"), PRESSED)
def test_keys(data: list[bytes], keys: list[str]) -> None:
    decoder = Keys()
    assert [key for part in data for key in decoder.feed(part)] == keys
    assert not decoder.waiting


def test_an_escape_alone_is_a_key_when_nothing_follows() -> None:
    decoder = Keys()
    assert decoder.feed(b"\x1b") == []
    assert decoder.waiting
    assert decoder.flush() == ["escape"]
    assert not decoder.waiting


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_whatever_comes_it_goes_on(parts: list[bytes]) -> None:
    decoder = Keys()
    for part in parts:
        for key in decoder.feed(part):
            assert key.strip("\x1b\n\r") == key != ""
    decoder.flush()
    assert decoder.feed(b"j")[-1:] == ["j"]
