"""Names of runs for a prompt: asked of the store, bounded in time and in number, and silently."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lastbeat.model.runid import InvalidRunIdError, check_run_id

LIMIT_S: Final = 1.0
MOST: Final = 2000
_PAGE: Final = 1000
_SLASH_AND_ALL_BELOW: Final = "/\U0010ffff"


def beginning_with(typed: str, given: Mapping[str, Any], limit_s: float = LIMIT_S) -> list[str]:
    """Ids that begin with ``typed``, of the fleet that the options ``given`` or the settings name.

    Where the store does not tell all of them in time there are none: some of them would be taken for all.
    """
    found: list[list[str]] = []
    until = time.monotonic() + limit_s

    def ask() -> None:
        try:
            found.append(_asked(typed, given, until))
        except Exception:  # noqa: BLE001 - nobody who presses Tab wants to know
            return

    asking = threading.Thread(target=ask, name="lastbeat-names", daemon=True)
    asking.start()
    asking.join(limit_s)
    return found[0] if found else []


def _asked(typed: str, given: Mapping[str, Any], until: float) -> list[str]:
    from lastbeat import opening  # noqa: PLC0415 - as above
    from lastbeat import settings as configuration  # noqa: PLC0415 - what it costs is within the limit, too
    from lastbeat_cli import options  # noqa: PLC0415 - as above

    texts = {name: text for name, text in given.items() if isinstance(text, str)}
    settings = configuration.load(options.arguments(texts))
    store = opening.store(settings)
    if typed and not store.traits.local:
        names: Iterator[str] = from_bucket(store, typed, until)
    else:
        names = iter(store.folders())
    # As everywhere at a prompt, hidden names are for who begins one.
    shown = (name for name in names if name.startswith(typed) and (typed or not name.startswith(".")))
    return sorted({name for name in shown if _is_run(name)})[:MOST]


def from_bucket(store: Any, typed: str, until: float) -> Iterator[str]:
    """The names that begin with ``typed``, without a listing of all that come before them."""
    # Right before the first key that begins with what was typed.
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


def _is_run(name: str) -> bool:
    # One that begins with a dash would be read as an option.
    if name.startswith("-"):
        return False
    try:
        check_run_id(name)
    except InvalidRunIdError:
        return False
    return True
