"""Numbers as JSON can hold them."""

import math


def json_number(value: float | None) -> float | str | None:
    """``value``, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, for which JSON has no numbers."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
