"""A room's face whose names are imported at their first use (PEP 562), so that importing the face loads nothing.

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from lastbeat.alerts.web.posting import deliver as deliver
    __getattr__ = lazy_face(__name__, {"deliver": "posting"})

A module writes ``from lastbeat.alerts import web`` at its top, and ``web.deliver(…)`` where it sends.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_face(room: str, homes: "Mapping[str, str]") -> "Callable[[str], object]":
    """The ``__getattr__`` of the package ``room``. ``homes`` maps each name to its module below ``room``."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        found = getattr(import_module(f"{room}.{homes[name]}"), name)
        setattr(sys.modules[room], name, found)
        return found

    return find
