"""A room whose modules are imported at their first use (PEP 562), so that importing the room loads nothing.

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from lastbeat.alerts.web import posting as posting
    __getattr__ = lazy_face(__name__)

A module writes ``from lastbeat.alerts import web`` at its top, and ``web.posting.deliver(…)`` where it sends.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def lazy_face(room: str) -> "Callable[[str], ModuleType]":
    """The ``__getattr__`` of the package ``room``, which imports its modules at their first use. Type checkers know
    those that it imports for them."""

    def find(name: str) -> "ModuleType":
        try:
            # importlib's function would cost ``import lastbeat`` a third of a millisecond.
            __import__(f"{room}.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"{room}.{name}":
                raise
            raise AttributeError(f"module {room!r} has no attribute {name!r}") from None
        return sys.modules[f"{room}.{name}"]

    return find
