"""A setting is defined once, with everything about it. Only ``lastbeat.settings`` reads the values.

Parsers turn text into a value, or raise ``ValueError`` with the end of a sentence: ``is not a number of minutes``.
:meth:`Setting.read` adds the rest.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, Final, Generic, TypeVar, cast

from lastbeat.model.data import dataclass
from lastbeat.model.secrets import mask_tokens

T = TypeVar("T")

_MOST: Final = 1_000_000.0
"""Minutes or seconds: far above any use, far below what time arithmetic can hold."""
MOST_OF_A_KEY: Final = 60
"""Characters of a key in a setting of several parts, a section's name for example."""
_PARSE: Final = "parse"
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


def part(default: T, parse: Callable[[str], T]) -> T:
    """A field of a setting's value that people set as ``name:text``."""
    made: T = field(default=default, metadata={_PARSE: parse})
    return made


@dataclass(frozen=True, eq=False)
class Parts(Generic[T]):
    """Parses a list of parts: ``runs:5,minutes:5``. Text without any part gives the value of all defaults."""

    kind: type[T]
    """The frozen dataclass of the value. Each of its fields that :func:`part` made is a part of that name."""
    make: Callable[..., T] | None = None
    """Makes the value in place of ``kind``, of the parts that are there, as keywords. May raise as a parser does."""
    bare: str = ""
    """The key of a part that is a value alone, as ``stop`` in ``stop,every:10``."""
    others: Callable[[str], object] | None = None
    """The parser of the value of every other key; None: there are no others."""

    def __call__(self, text: str) -> T:
        return self.made(self.read(text))

    def made(self, parts: Mapping[str, Any]) -> T:
        """The value of these parts, by their keys."""
        return (self.make or self.kind)(**parts)

    @property
    def keys(self) -> dict[str, Callable[[str], object]]:
        """Key → the parser of its value."""
        named = fields(self.kind)  # type: ignore[arg-type]  # a dataclass
        return {each.name: each.metadata[_PARSE] for each in named if _PARSE in each.metadata}

    def read(self, text: str) -> dict[str, Any]:
        """Key → value of each part in ``text``. Raises ``ValueError`` with the end of a sentence."""
        found: dict[str, Any] = {}
        keys = self.keys
        for part in filter(None, (each.strip() for each in text.split(","))):
            key, value = self._split(part, keys)
            if key in found:
                raise ValueError(f"has two values for {shown(key)}")
            parse = keys.get(key, self.others)
            try:
                found[key] = parse(value) if parse is not None else value
            except ValueError as why:
                if value == text:
                    raise
                end = f"which {why}" if value == part else f"and {shown(value)} {why}"
                raise ValueError(f"has {shown(part)}, {end}") from None
        if text and not found:
            raise ValueError("names nothing")
        return found

    def _split(self, part: str, keys: Mapping[str, Callable[[str], object]]) -> tuple[str, str]:
        key, colon, value = (each.strip() for each in part.partition(":"))
        if key in keys and colon:
            return key, value
        if keys.get(part) is switch:
            return part, "on"
        if self.bare and not colon:
            return self.bare, part
        if self.others is None:
            known = ", ".join(f"{each}:…" for each in keys if each != self.bare)
            raise ValueError(f"has {shown(part)}, which is none of {known}")
        # A section's name may have colons, its seconds have none.
        key, colon, value = (each.strip() for each in part.rpartition(":"))
        if not key or len(key) > MOST_OF_A_KEY:
            raise ValueError(f"has {shown(part)}, where a name of at most {MOST_OF_A_KEY} characters and : belong")
        return key, value
