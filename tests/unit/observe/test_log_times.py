"""Which text was printed before an attempt began, as far as its lines tell."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.watch.observe.log_times import bytes_before

NOW = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SINCE = NOW - timedelta(hours=1)


def stamped(minutes: float, count: int = 1, words: str = "step", form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Lines that were printed one a second, the last of them so many minutes before now."""
    first = NOW - timedelta(minutes=minutes, seconds=count - 1)
    return "".join(f"{first + timedelta(seconds=second):{form}} {words}\n" for second in range(count))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", stamped(0, 300), id="all of it is new"),
        pytest.param("", "no times at all\n" * 300, id="nothing has a time"),
        pytest.param("", "", id="nothing"),
        pytest.param(stamped(90, 300), stamped(1, 300), id="old lines before new ones"),
        pytest.param(stamped(90, 1), stamped(1, 1), id="one and one"),
        pytest.param(stamped(90, 64), stamped(1, 1), id="as many as are passed over at once"),
        pytest.param(stamped(90, 65), stamped(1, 130), id="and one more"),
        pytest.param(stamped(90, 20) + "Traceback\n  frame\n" * 20, stamped(1, 20), id="lines without a time between"),
        pytest.param("", "loaded the checkpoint of 2025-12-01 10:00:00\n" + "plain\n" * 50 + stamped(0, 1),
                     id="an old time in a log without times"),
        pytest.param("", "loaded the checkpoint of 2025-12-01 10:00:00\n" + "plain\n" * 50, id="and nothing newer"),
        pytest.param("", "epoch took 0:10:22, 99:12:33 to go\n" * 300, id="durations are no times"),
        pytest.param(stamped(90, 100, "took 0:10:22"), stamped(1, 100, "took 0:10:22"), id="beside times neither"),
        pytest.param(stamped(3000, 300), "", id="days old, and nothing since"),
        pytest.param(stamped(95, 100, form="%Y-%m-%dT%H:%M:%SZ"), "", id="old by a time that names its zone"),
        pytest.param("", stamped(95, 100), id="old, or of another zone"),
        pytest.param("", stamped(430, 100) + stamped(420.1, 100), id="new, of a zone seven hours behind"),
        pytest.param(stamped(-400, 100), stamped(-479.9, 100), id="old, of a zone eight hours ahead"),
    ],
)  # fmt: skip
def test_how_much_of_a_log_is_an_earlier_attempts(before: str, after: str) -> None:
    text = (before + after).encode()
    assert bytes_before(text, SINCE, NOW) == len(before)


_pieces = st.sampled_from(
    ["2026-01-01 10:30:00 ", "2026-01-01 11:30:00 ", "0:10:22", "x", "\n", "\r", "\x00", "Jan  1 10:00:00 "]
)


@given(st.lists(_pieces | st.text(max_size=5), max_size=60).map("".join))
def test_no_text_breaks_it_and_lines_stay_whole(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    end = bytes_before(data, SINCE, NOW)
    assert end in {0, len(data)} or data[end - 1 : end] == b"\n"
