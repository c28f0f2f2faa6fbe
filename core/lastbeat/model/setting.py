"""A setting is defined once, with everything about it. Only ``lastbeat.settings`` reads the values.

Parsers turn text into a value, or raise ``ValueError`` with the end of a sentence: ``is not a number of minutes``.
:meth:`Setting.read` adds the rest.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar, cast

from lastbeat.model.data import dataclass
from lastbeat.model.secrets import mask_tokens

T = TypeVar("T")

_MOST: Final = 1_000_000.0
"""Minutes or seconds: far above any use, far below what time arithmetic can hold."""
_SWITCH: Final = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable. Without a default its value may be None: ``Setting[float | None]``."""

    name: str
    parse: Callable[[str], T]
    """Never called for blank text: blank means unset."""
    help: str
    """One sentence or two for ``.env.example``, the docs and ``--help``."""
    default: str = ""
    """As written in ``.env``. Empty: unset by default."""
    example: str = ""
    """A valid value, for error messages."""
    secret: bool = False
    """Its value is never shown, and masked wherever it appears."""
    option: str = ""
    """Its command-line option, if any: ``--root``."""
    stands_in: tuple[str, ...] = ()
    """Other environment variables that serve if this one is not set, in this order."""

    def read(self, text: str, called: str = "") -> T:
        """The value of ``text``. Raises ``ValueError`` with a whole sentence that names the setting, or ``called``
        instead."""
        try:
            return self.parse(text.strip())
        except ValueError as why:
            name = called or self.name
            if self.secret:
                like = f"; it looks like {self.example}" if self.example else ""
                raise ValueError(f"{name} {why}{like} (its value is a secret and not shown)") from None
            like = f"; use for example {self.example}" if self.example else ""
            raise ValueError(f"{name}={shown(text)} {why}{like}") from None

    def labelled(self, text: str) -> str:
        """The setting with this value, as people may see it: ``STALE_MINUTES='ten'``."""
        return f"{self.name} (a secret)" if self.secret else f"{self.name}={shown(text.strip())}"


class SettingValues:
    """The values of settings, by the setting itself: ``values[STALE_MINUTES]`` is a float."""

    def __init__(self, held: Mapping[str, object]) -> None:
        self._held = dict(held)

    def __getitem__(self, setting: Setting[T]) -> T:
        return cast("T", self._held.get(setting.name))

    def __contains__(self, name: object) -> bool:
        """Whether the setting called ``name`` was read, and is set or not."""
        return name in self._held

    def replaced(self, setting: Setting[T], value: T) -> "SettingValues":
        """A copy in which ``setting`` has this value."""
        return SettingValues({**self._held, setting.name: value})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SettingValues) and self._held == other._held

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Some of them are secrets.
        return f"SettingValues({len(self._held)})"


def shown(text: str) -> str:
    """``text`` for an error message: bounded, without URL passwords and anything else that looks like a secret."""
    text = mask_tokens(re.sub(r"//[^/@]*@", "//***@", text))
    return repr(text if len(text) <= 80 else text[:80] + "…")


def number(unit: str, *, zero: bool = False, least: float = 0.0) -> Callable[[str], float]:
    """Parses a number of ``unit`` above 0 (or from 0 on, or from ``least`` on)."""

    def parse(text: str) -> float:
        # Stricter than float(): no 1_0, no nan, no other scripts' digits.
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
            raise ValueError(f"is not a number of {unit}")
        value = float(text)
        if value < 0 or (value == 0 and not zero):
            raise ValueError("is negative" if zero else "is not more than 0")
        if value > _MOST or not math.isfinite(value):
            raise ValueError(f"is more than {_MOST:.0f} {unit}")
        if value < least:
            raise ValueError(f"is less than {least:g} {unit}")
        return value

    return parse


def count(least: int) -> Callable[[str], int]:
    """Parses a whole number from ``least`` on."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
            raise ValueError(f"is not a whole number from {least} on")
        return int(text)

    return parse


def switch(text: str) -> bool:
    """Parses on/off."""
    if text.lower() not in _SWITCH:
        raise ValueError("is neither on nor off")
    return _SWITCH[text.lower()]


def web_address(text: str) -> str:
    """Parses an http(s) address without user, query or fragment."""
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", text, re.ASCII):
        raise ValueError("is not a web address")
    return text
