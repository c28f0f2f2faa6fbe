"""Run ids for completion at a prompt: read from the store within a time limit, without any error message."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lastbeat import settings as configuration
from lastbeat.model.runid import is_run_id
from lastbeat.settings import opening
from lastbeat_cli import options

LIMIT_S: Final = 1.0
"""Longest time, in seconds, to read the ids."""
MOST: Final = 2000
"""Most ids offered."""
_PAGE: Final = 1000
_SLASH_AND_ALL_BELOW: Final = "/\U0010ffff"


def beginning_with(typed: str, given: Mapping[str, Any], limit_s: float = LIMIT_S) -> list[str]:
    """Ids that begin with ``typed``, in the fleet that the options ``given`` or the settings name.

    Empty if the store does not list all of them in time: the user would take some of them for all.
    """
    found: list[list[str]] = []
    until = time.monotonic() + limit_s

    def ask() -> None:
        try:
            found.append(_list_names(typed, given, until))
        except Exception:  # noqa: BLE001 - an error message would disturb the prompt
            return

    asking = threading.Thread(target=ask, name="lastbeat-names", daemon=True)
    asking.start()
    asking.join(limit_s)
    return found[0] if found else []


def _list_names(typed: str, given: Mapping[str, Any], until: float) -> list[str]:
    texts = {name: text for name, text in given.items() if isinstance(text, str)}
    settings = configuration.load(options.arguments(texts))
    store = opening.store(settings)
    if typed and not store.traits.local:
        names: Iterator[str] = from_bucket(store, typed, until)
    else:
        names = iter(store.folders())
    # As in every shell, hidden names are offered only after a typed dot.
    shown = (name for name in names if name.startswith(typed) and (typed or not name.startswith(".")))
    # A name that begins with a dash would be read as an option.
    return sorted({name for name in shown if is_run_id(name) and not name.startswith("-")})[:MOST]


def from_bucket(store: Any, typed: str, until: float) -> Iterator[str]:
    """The names that begin with ``typed``, without listing the names before them. Raises TimeoutError after
    ``until``."""
    # Right before the first key that begins with ``typed``.
    after = typed[:-1] + chr(ord(typed[-1]) - 1) + "\U0010ffff" if typed > "!" else ""
    count = 0
    while count < MOST:
        page = store.list("", start_after=after, limit=_PAGE)
        names = list(dict.fromkeys(entry.key.partition("/")[0] for entry in page.entries if "/" in entry.key))
        for name in names:
            if name.startswith(typed):
                count += 1
                yield name
            elif f"{name}/" > typed:
                return
        if not page.more or not page.entries:
            return
        if time.monotonic() > until:
            raise TimeoutError
        after = page.entries[-1].key.partition("/")[0] + _SLASH_AND_ALL_BELOW
