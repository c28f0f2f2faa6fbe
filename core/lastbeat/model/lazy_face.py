"""A room's face whose names are imported at their first use (PEP 562), so that importing the face loads nothing.

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from lastbeat.alerts.web.posting import deliver as deliver
    __getattr__ = lazy_face(__name__, {"posting": ("deliver",)})

A module writes ``from lastbeat.alerts import web`` at its top, and ``web.deliver(…)`` where it sends.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_face(room: str, names: "Mapping[str, Iterable[str]]") -> "Callable[[str], object]":
    """The ``__getattr__`` of the package ``room``. ``names`` maps each module below ``room`` to the names that the face
    has from there. No name may be that of a module right below ``room``, which the import system would put there."""
    homes = {name: module for module, listed in names.items() for name in listed}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module = f"{room}.{homes[name]}"
        # importlib's function would cost ``import lastbeat`` a third of a millisecond.
        __import__(module)
        found = getattr(sys.modules[module], name)
        setattr(sys.modules[room], name, found)
        return found

    return find
