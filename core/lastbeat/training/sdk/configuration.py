"""What training was configured with, as metadata.json has it: flat, bounded and without secrets.

Reading a configuration may run training's code, so it goes through :class:`values.ValueReader`.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final

from lastbeat.model.secrets import MASK, is_secret, mask_tokens
from lastbeat.training.sdk.values import as_text

KEYS_MOST: Final = 64
"""Most keys that are kept, in training's order."""
TAGS_MOST: Final = 20
KEY_CHARS: Final = 100
VALUE_CHARS: Final = 100
TAG_CHARS: Final = 50
_DEPTH_MOST: Final = 8
"""Most levels of nesting that are read."""
_ITEMS_MOST: Final = 16
"""Most items of a list that are shown."""


def as_config(value: object) -> dict[str, str | float | bool] | None:
    """The keys of ``value`` with their numbers and texts: ``{"model.layers": 24, "lr": 0.0003}``.

    ``value`` is a mapping (OmegaConf's too), a namespace of argparse, a dataclass (as a trainer's arguments are), or a
    model of pydantic; in it anything else becomes text. What is None is left out. None if ``value`` is none of these.
    """
    try:
        if _members(value) is None:
            return None
        return {key[:KEY_CHARS]: _harmless(key, each) for key, each in islice(_flat("", value, _DEPTH_MOST), KEYS_MOST)}
    except BaseException:  # noqa: BLE001 - it is training's code, which may raise anything
        return None


def _harmless(key: str, value: str | float | bool) -> str | float | bool:
    if not isinstance(value, str):
        return value
    return MASK if is_secret(key.replace(".", "_"), value) else value[:VALUE_CHARS]


def as_tags(value: object) -> list[str] | None:
    """A text, or each of several, as short texts without blank ones; None if that is none."""
    try:
        given = [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]
        texts = [(as_text(each) or "").strip()[:TAG_CHARS] for each in given[:TAGS_MOST]]
        return list(dict.fromkeys(mask_tokens(text) for text in texts if text))
    except BaseException:  # noqa: BLE001 - as above
        return None


def _flat(prefix: str, value: Any, depth: int) -> Iterator[tuple[str, str | float | bool]]:
    members = _members(value) if depth else None
    if members is not None:
        for name, each in members:
            if not name.startswith("_"):
                yield from _flat(f"{prefix}.{name}" if prefix else name, each, depth - 1)
    elif value is not None:
        yield prefix, _leaf(value)


def _members(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The names in ``value`` with what they stand for, or None if it has none."""
    if isinstance(value, Mapping) or (hasattr(value, "items") and hasattr(value, "keys")):
        return ((str(name), each) for name, each in value.items())
    if isinstance(value, (Namespace, SimpleNamespace)):
        return iter(vars(value).items())
    if is_dataclass(value) and not isinstance(value, type):
        return ((each.name, getattr(value, each.name, None)) for each in fields(value))
    dumped = getattr(value, "model_dump", None)
    return iter(dumped().items()) if callable(dumped) and not isinstance(value, type) else None


def _leaf(value: Any) -> str | float | bool:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bool, int, float)):
        # A number that JSON has not, or that is longer than a value may be, is text.
        return value if isinstance(value, bool) or abs(value) < 2**53 else str(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        shown = [str(each) for each in list(value)[:_ITEMS_MOST]]
        return f"[{', '.join(shown)}{', …' if len(value) > _ITEMS_MOST else ''}]"
    return str(value)
