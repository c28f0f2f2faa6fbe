"""Numbers as training has them: Python's, numpy's, tensors of any framework, on any device."""

from typing import SupportsFloat, SupportsInt

from lastbeat.model.numbers import json_number

LIMIT_CHARS = 200


def number(value: object) -> float | str | None:
    """``value`` as JSON can hold it; a non-finite one is ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``.

    A tensor is synchronised with its device here, so never call this in the training thread. None for what is no
    number. Never raises, whatever ``__float__`` does.
    """
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        item = getattr(value, "item", None)
        plain = item() if callable(item) else value
        found = float(plain) if isinstance(plain, SupportsFloat) else None
    except Exception:  # noqa: BLE001 - a tensor on a lost device may raise anything, and beating must go on
        return None
    return json_number(found)


def whole(value: object) -> int | None:
    """``value`` as an integer, or None. Never raises."""
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        return int(value) if isinstance(value, SupportsInt) else None
    except Exception:  # noqa: BLE001 - as above
        return None


def text(value: object) -> str | None:
    """``value`` as a bounded text, or None."""
    if value is None:
        return None
    try:
        return str(value)[:LIMIT_CHARS]
    except Exception:  # noqa: BLE001 - as above
        return None
