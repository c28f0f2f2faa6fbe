"""Frozen dataclasses that are mappings, too.

``result.success`` is ``result["success"]``, and ``dict(result)`` is plain data that ``json.dumps`` takes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any


class AsMapping(Mapping[str, Any]):
    """A dataclass as a mapping of its fields. What it holds comes out of it as plain data."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return _plain(getattr(self, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> tuple[str, ...]:
        return tuple(each.name for each in fields(self))  # type: ignore[arg-type] # all that inherit are dataclasses


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in value}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
