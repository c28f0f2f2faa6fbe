"""Fleets and rows as JSON can hold them: what ``lastbeat fleet --json`` prints and the page gets. Pure.

Every row has its ``rank``, its place in the order of need, from 0 (see :mod:`lastbeat.views.order`). That alone is no
change of a row: in a delta, rows that are not named keep their order among themselves, and those that are named go to
the places that their ranks tell.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, Final

from lastbeat.model import document
from lastbeat.model.job import JobState
from lastbeat.model.json_values import json_number
from lastbeat.model.named_view import NamedView
from lastbeat.model.record import Acknowledgement
from lastbeat.model.silence import Silence
from lastbeat.model.status import Status
from lastbeat.model.version import __version__
from lastbeat.model.view import FleetView, JobGist, Row, Span, StoreOutage, WatchState
from lastbeat.views.row_keys import ASKED_LIMIT, known_keys, value

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed of a view since its reader's sequence number."""

    since: int
    changed: Sequence[Row]
    gone: Sequence[str] = ()


def fleet_document(  # noqa: PLR0913 - what a document has beside the view, each by its name
    view: FleetView,
    *,
    made_at: datetime | None = None,
    live: bool = False,
    interval_s: float | None = None,
    stale_s: float | None = None,
    seq: int = 0,
    epoch: str = "",
    delta: Delta | None = None,
    keys: Sequence[str] = (),
) -> dict[str, object]:
    """The document with all of its documented keys; unknown values are null. ``made_at`` is when it was made. Rows have
    the values of those ``keys`` alone, because all of them make a large fleet larger by megabytes."""
    ranks = {row.run_id: place for place, row in enumerate(view.rows)}
    rows: Iterable[Row] = view.rows
    if delta is not None:
        rows = sorted((row for row in delta.changed if row.run_id in ranks), key=lambda row: ranks[row.run_id])
    return {
        "schema": SCHEMA,
        **_members(view),
        "made_at": plain(made_at if made_at is not None else view.at),
        "version": __version__,
        "live": live,
        "interval_s": interval_s,
        "seq": seq,
        "since": delta.since if delta is not None else None,
        "epoch": epoch,
        "stale_s": stale_s,
        "counts": dict(view.counts),
        "gone": list(delta.gone) if delta is not None else [],
        "keys": known_keys(view.rows),
        "runs": [row_document(row, ranks[row.run_id], keys) for row in rows],
    }


def row_document(row: Row, rank: int | None = None, keys: Sequence[str] = ()) -> dict[str, object]:
    """One run. ``rank``: its place in the order of need. ``keys``: names whose values it has, where it knows them."""
    values = {key: found for key in keys[:ASKED_LIMIT] if (found := value(row, key)) is not None}
    plain_values = {key: clean(each) if isinstance(each, str) else _number(each, 6) for key, each in values.items()}
    return {
        **_members(row),
        **{name: _number(value, 6) for name, value in row.figures.named().items()},
        "rank": rank,
        "eta_s": None if row.eta_s is None else round(row.eta_s),
        "losses": [_number(loss, 4) if _is_number(loss) else None for loss in row.losses],
        "steps_per_s": _number(row.steps_per_s, 4),
        "tokens_per_s": _number(row.tokens_per_s, 4),
        "silenced": plain(row.silence),
        **({"values": plain_values} if keys else {}),
    }


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: of a dataclass what people see of it."""
    how = _PLAIN.get(value.__class__)
    return value if how is None else how(value)


def clean(text: str | None) -> str | None:
    """``text`` as UTF-8 can hold it; nearly all of it is ASCII, and then there is nothing to look for."""
    return text if text is None or text.isascii() else str(document.clean(text))


_MEMBERS: Final = {
    FleetView: "root at older unread silenced silences views watching fault ignored notes",
    NamedView: "name filter status sort columns group by",
    Row: "run_id status shown recorded reason cause action conditions since attempt phase step_at stands_still "
    "stall_limited beat_at host owner team tags strip watched_since pending doubt fault complete acknowledged job",
    Silence: "id runs until why by",
    Acknowledgement: "at by note",
    JobGist: "launcher id state restarts attempt waits starts_at text",
    StoreOutage: "reason advice since",
    WatchState: "last_pass_at interval_s overdue known recorded_at",
}
"""Type → the attributes that its object has, under their names."""
_NAMES: Final = {kind: names.split() for kind, names in _MEMBERS.items()}


def _members(value: Any) -> dict[str, object]:
    return {name: plain(getattr(value, name)) for name in _NAMES[type(value)]}


def _time(when: datetime) -> str:
    """Whole seconds: no store is more exact about when a file was written."""
    return when.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


_PLAIN: Final[Mapping[type, Callable[[Any], object]]] = {
    **dict.fromkeys(_MEMBERS, _members),
    **dict.fromkeys((Status, JobState), attrgetter("value")),
    str: clean,
    datetime: _time,
    tuple: lambda values: [plain(each) for each in values],
    Span: lambda span: [plain(span.since), plain(span.status), span.attempt],
    # Of a job that was never restarted no attempt is known.
    JobGist: lambda job: {**_members(job), "attempt": clean(job.attempt) or None},
}


def _is_number(value: float | None) -> bool:
    return isinstance(json_number(value), (int, float))


def _number(value: float | None, digits: int) -> float | str | None:
    """With ``digits`` significant digits; as text where JSON has no such number."""
    told = json_number(value)
    if not isinstance(told, float):
        return told
    short = float(f"{told:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
