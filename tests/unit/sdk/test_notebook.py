"""What a notebook shows of a run: its state and its loss, escaped, bounded, without a wait."""

import re
from collections.abc import Callable
from math import isfinite
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.training.sdk.kept_curves import KeptCurves
from lastbeat.training.sdk.notebook import MOST_DRAWN, Point, picture
from lastbeat.training.sdk.run import Run


class Tensor:
    """Waits for a device if it is read."""

    def item(self) -> float:
        raise AssertionError("a display must not wait for a device")

    __float__ = __int__ = item
    __str__ = __repr__ = __format__ = None  # type: ignore[assignment]


def with_curve(run: Run) -> None:
    run.curves = KeptCurves()
    for step in range(5):
        run.curves.add("loss", 1000.0 + step, step, 4.0 - step)


def linked(address: str) -> Callable[[Run], object]:
    return lambda run: setattr(run, "_find_url", lambda: address)


ROWS: list[tuple[str, Callable[[Run], object], str]] = [
    ("a run that has just begun", lambda run: None, "<b>my-run</b> running: phase starting</div>"),
    ("its step and loss", lambda run: run.step(7, loss=0.123456), "training, step 7 of 50, loss 0.1235</div>"),
    ("a loss that is no number", lambda run: run.step(7, loss=float("nan")), "loss NaN</div>"),
    ("a tensor is left out, and not read", lambda run: run.step(Tensor(), loss=Tensor()), "phase training</div>"),
    ("a phase is text, not markup", lambda run: run.set_phase("<script>"), "phase &lt;script&gt;</div>"),
    ("a long phase is cut", lambda run: run.set_phase("p" * 9999), f"phase {'p' * 200}</div>"),
    ("a stop that is wanted", lambda run: run.ask_to_stop("<b>", ""), "stop &lt;b&gt;</div>"),
    ("its page is a link", linked('https://page/"x'), '<b><a href="https://page/&quot;x">my-run</a></b>'),
    ("an address that a browser would run is no link", linked("javascript:x"), "<b>my-run</b>"),
    ("its loss so far", with_curve, 'aria-label="loss from step 0 to 4, between 0 and 4"'),
    ("an end", lambda run: setattr(run, "ending", ("_error", "boom")), "<b>my-run</b> failed"),
]


@pytest.mark.parametrize(("act", "shown"), [pytest.param(*row[1:], id=row[0]) for row in ROWS])
def test_what_is_shown(act: Callable[[Run], object], shown: str) -> None:
    run = Run("my-run", None, 50)
    act(run)
    assert shown in (run._repr_html_() or "")


@given(st.lists(st.tuples(st.floats(0, 1e9), st.integers(0, 2**60).map(float), st.floats()), max_size=900))
def test_any_curve_is_a_small_well_formed_picture_within_its_frame(points: list[Point]) -> None:
    svg = picture(points)
    assert len(svg) < MOST_DRAWN * 14 + 500
    path = ElementTree.fromstring(f"<p>{svg}</p>").find(".//path")
    places = re.findall(r"[ML](\S+) ([^ML]+)", path.get("d", "") if path is not None else "")
    if len(points) <= MOST_DRAWN:
        finite = sum(isfinite(loss) for _, _, loss in points)
        assert len(places) == (finite if finite > 1 else 0)
    assert all(0 <= float(x) <= 240 and 0 <= float(y) <= 40 for x, y in places)
