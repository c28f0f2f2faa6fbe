"""A team's named views of its fleet: which runs, in which order, with which columns. One document beside the runs,
which people change by compare-and-set; the page and ``lastbeat fleet --view`` read it."""

from dataclasses import replace
from typing import Any, Final

from lastbeat.model.codec import DamagedError, codec
from lastbeat.model.data import dataclass
from lastbeat.model.named_view import PARTS, VIEWS, NamedView
from lastbeat.model.persisted import Persisted
from lastbeat.model.text import fit, nearest, one_line
from lastbeat.stores.port import Blob, Store, StoreError
from lastbeat.watch.record import fleet_document
from lastbeat.watch.record.fleet_document import LIMIT_BYTES, change

MOST: Final = 100
"""Most views of a team."""
TEXT_LIMIT: Final = 500
"""Longest filter, order or list of columns, in characters."""
NAME_LIMIT: Final = 60


@dataclass(frozen=True)
class ViewList(Persisted):
    """The document."""

    views: tuple[NamedView, ...]


def read_views(store: Store) -> tuple[NamedView, ...]:
    """The team's views. Raises :class:`StoreError`."""
    return _decode(store.read(VIEWS, LIMIT_BYTES)).views


def view_named(store: Store, name: str) -> NamedView:
    """Raises :class:`StoreError`, also where there is none of that name."""
    views = {view.name: view for view in read_views(store)}
    if name not in views:
        known = f"these are: {', '.join(views)}" if views else "lastbeat fleet --save-view NAME makes one"
        raise StoreError(f"there is no view {name[:NAME_LIMIT]!r}{nearest(name, list(views))}", known)
    return views[name]


class InvalidViewError(ValueError):
    """A view that cannot be saved; the message says why."""


def save_view(store: Store, view: NamedView) -> str:
    """Add ``view``, or put it in place of the one of its name; one that asks for nothing is removed. Returns a word for
    what was done. Raises :class:`StoreError` and :class:`InvalidViewError`."""
    if not view.name.strip() or len(view.name) > NAME_LIMIT or view.name != one_line(view.name):
        raise InvalidViewError(f"a name has one line of at most {NAME_LIMIT} characters")
    there = False

    def changed(blob: Blob | None) -> ViewList:
        nonlocal there
        held = _decode(blob)
        others = tuple(each for each in held.views if each.name != view.name)
        there = len(others) < len(held.views)
        kept = others if view.is_empty else (*others, _checked(view))
        if len(kept) > MOST:
            raise StoreError(f"there are {len(others)} views already", f"remove some, from {VIEWS}")
        return replace(held, views=tuple(sorted(kept, key=lambda each: each.name)))

    change(store, VIEWS, changed, f"remove some, from {VIEWS}")
    if view.is_empty and not there:
        raise InvalidViewError("there is nothing to save; give a filter, a status, an order or columns")
    return "Removed" if view.is_empty else "Replaced" if there else "Saved"


def _decode(blob: Blob | None) -> ViewList:
    if blob is None:
        return ViewList(())
    try:
        held = codec(ViewList).read(fleet_document.parse(blob, VIEWS, '{"schema": 1, "views": []}'))
    except DamagedError as fault:
        raise StoreError(f"{VIEWS} is damaged: {fault}", "mend it, or delete it") from fault
    # Any user with write access to the store may have written this, and terminals show it.
    return replace(held, views=tuple(map(_checked, held.views[:MOST])))


def _checked(view: NamedView) -> NamedView:
    parts: dict[str, Any] = {part: fit(one_line(getattr(view, part)), TEXT_LIMIT) for part in (*PARTS, "by")}
    return replace(view, name=fit(one_line(view.name), NAME_LIMIT), **parts)
