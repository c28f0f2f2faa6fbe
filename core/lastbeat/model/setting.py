"""What a setting is. ``settings.py`` alone reads values; a channel's own settings stand beside the channel."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable.

    ``parse`` turns its text into a value or raises ``ValueError`` with the whole message for people,
    ``STALE_MINUTES='ten' is not a number of minutes; use for example 10``. It is never called for a blank
    value: blank is unset.
    """

    name: str
    parse: Callable[[str], object]
    default: str
    """As it would be written in ``.env``; empty when unset by default."""
    help: str
    """One sentence for ``.env.example`` and ``--help``."""
    secret: bool = False
    """Never shown, not even in an error about its own syntax."""
