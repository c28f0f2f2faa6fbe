"""The data of a page that has all in it: packed so that no text of a run can be anything but data, and bounded."""

import base64
import gzip
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from lastbeat.model.text import counted

LIMIT_BYTES: Final = 720_000
"""The most that the packed data has; base64 makes 960,000 characters of it."""

Json = Mapping[str, Any]


def packed(data: Json) -> bytes:
    """``data`` as JSON, gzip and base64: letters, digits, ``+``, ``/`` and ``=`` alone. The same for the same data."""
    return base64.b64encode(squeezed(data))


def squeezed(data: Json) -> bytes:
    """``data`` as JSON, gzipped; without a time of its own."""
    # A lone surrogate, which UTF-8 has no bytes for, becomes a question mark.
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode("utf-8", "replace"), compresslevel=6, mtime=0)


def fitted(
    fleet: Json,
    runs: Iterable[tuple[str, Json]],
    *,
    needy: Collection[str],
    limit_bytes: int = LIMIT_BYTES,
    causes: Json | None = None,
) -> Json:
    """What a page has in it: the fleet, and of the documents of ``runs`` those that there is room for, in the order in
    which they come; and what failures cost (``causes``).

    How many of ``needy``, the runs that need people, have no document, is said. Rows go before documents: where not
    even they fit, those that need people least are left out.
    """
    costs = len(squeezed(causes)) if causes is not None else 0
    fleet, used = _rows_fitted(fleet, limit_bytes - costs)
    used += costs
    taken: dict[str, Json] = {}
    for run_id, document in runs:
        # Each packed alone takes more than all of them packed together.
        size = len(squeezed(document))
        if used + size <= limit_bytes:
            taken[run_id] = document
            used += size
    missing = sum(run_id not in taken for run_id in needy)
    if missing:
        fleet = _noted(fleet, f"This page has no details of {counted(missing, 'run')} of those that need people.")
    return {"fleet": fleet, "runs": taken, **({"causes": causes} if causes is not None else {})}


def _rows_fitted(fleet: Json, limit_bytes: int) -> tuple[Json, int]:
    size = len(squeezed(fleet))
    if size <= limit_bytes:
        return fleet, size
    rows = list(fleet["runs"])
    fits, too_many = 0, len(rows)
    while too_many - fits > max(1, len(rows) // 100):
        middle = (fits + too_many) // 2
        if len(squeezed({**fleet, "runs": rows[:middle]})) <= limit_bytes:
            fits = middle
        else:
            too_many = middle
    shown = _noted(
        {**fleet, "runs": rows[:fits]},
        f"This page has no room for {counted(len(rows) - fits, 'run')} of those that need people least.",
    )
    return shown, len(squeezed(shown))


def _noted(fleet: Json, note: str) -> Json:
    return {**fleet, "notes": [*fleet.get("notes", ()), note]}
