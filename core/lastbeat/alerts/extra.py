"""Helpers for channels whose library is an extra: the advice if it is missing, and a time limit on its calls."""

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from lastbeat.alerts.port import DeliveryError

T = TypeVar("T")


def install(extra: str) -> str:
    """The advice if the library of ``extra`` is missing."""
    return f"install it where lastbeat runs: pip install 'lastbeat[{extra}]'"


def is_missing(library: str) -> bool:
    """Whether ``library`` cannot be imported here. Imports nothing."""
    return find_spec(library) is None


def demand(library: str, extra: str, *, to: str) -> None:
    """Raise :class:`DeliveryError` if ``library`` is missing. It may be installed later, or another watcher may have
    it, so the alert waits."""
    if is_missing(library):
        raise DeliveryError(f"{to}: {library} is not installed", retryable=True, advice=install(extra))


def within(seconds: float, call: Callable[[], T], *, to: str) -> T:
    """The result of ``call``. Raises what ``call`` raises, or :class:`DeliveryError` after ``seconds``.

    Libraries limit each wait for the network, not all of them together. A call that takes longer goes on in its thread,
    and may still succeed. The alert then comes twice.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that asked
            errors.append(error)

    thread = threading.Thread(target=run, name="lastbeat-send", daemon=True)
    thread.start()
    thread.join(seconds)
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise DeliveryError(f"{to}: no complete answer within {seconds:g} s", retryable=True)
