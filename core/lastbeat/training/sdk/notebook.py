"""A run as a notebook shows it: its state in a line of text, and its loss as a small picture."""

from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Final

from lastbeat.training.sdk.curves import halved
from lastbeat.training.sdk.values import as_int, as_number, as_text, safe_to_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastbeat.training.sdk.run import Run
    from lastbeat.training.sdk.values import ReadAs

MOST_DRAWN: Final = 160
"""Points of the picture at most, whatever the curve holds."""
_WIDTH_PX, _HEIGHT_PX, _EDGE_PX = 240, 40, 2
Point = tuple[float, float, float]
"""Unix time, step and loss."""


def html_of(run: "Run") -> str:
    """The run as HTML. Reads no tensor and asks no store: it shows what the latest beat knew."""
    step, loss = run.latest[:2] if run.latest is not None else (None, None)
    at_step, total = _read(step, as_int), _read(run.total_steps, as_int)
    facts = {
        "phase": None if run.ended else _read(run.phase_now[0], as_text),
        "step": None if at_step is None else f"{at_step} of {total}" if total is not None else str(at_step),
        "loss": _figure(_read(loss, as_number)),
        "stop": run.stop_wanted,
    }
    said = ", ".join(f"{name} {escape(str(value)[:200])}" for name, value in facts.items() if value)
    name, url = escape(run.run_id[:200]), run.url or ""
    title = f'<a href="{escape(url)}">{name}</a>' if url.startswith(("https://", "http://")) else name
    points = [bucket[:3] for bucket in run.curves.buckets("loss")] if run.curves is not None else []
    return f"<div><b>{title}</b> {run.status}{': ' + said if said else ''}{picture(points)}</div>"


def picture(points: "Sequence[Point]") -> str:
    """The points as an SVG, with a gap where the loss is not finite; empty without two finite losses."""
    while len(points) > MOST_DRAWN:
        points = halved(points)
    known = [loss for _, _, loss in points if isfinite(loss)]
    if len(known) < 2:
        return ""
    steps = [step for _, step, _ in points]
    # Training may go back to an earlier step.
    first, last, least, greatest = min(steps), max(steps), min(known), max(known)
    # Halves, because a difference of the largest numbers is infinite.
    height, width = greatest / 2 - least / 2, last - first
    path, pen = [], "M"
    for _, step, loss in points:
        if not isfinite(loss):
            pen = "M"
            continue
        across = (step - first) / width if width else 0.0
        up = (loss / 2 - least / 2) / height if height else 0.5
        x, y = across * (_WIDTH_PX - 2 * _EDGE_PX) + _EDGE_PX, (1 - up) * (_HEIGHT_PX - 2 * _EDGE_PX) + _EDGE_PX
        path.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    label = f"loss from step {first:.0f} to {last:.0f}, between {least:.4g} and {greatest:.4g}"
    return (
        f'<br/><svg width="{_WIDTH_PX}" height="{_HEIGHT_PX}" role="img" aria-label="{label}"><title>{label}</title>'
        f'<path d="{"".join(path)}" fill="none" stroke="currentColor"/></svg>'
    )


def _read(value: object, read_as: "ReadAs") -> object:
    return read_as(value) if safe_to_read(value) else None


def _figure(loss: object) -> str | None:
    return f"{loss:.4g}" if isinstance(loss, (int, float)) else loss if isinstance(loss, str) else None
