"""What an earlier process kept, taken back with suspicion: it may be damaged."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def made_of(kind: type[T], values: Mapping[str, Any]) -> T:
    """An instance of a flat dataclass. Raises TypeError where a value is of another type than its field."""
    types = get_type_hints(kind)
    for name, value in values.items():
        wanted = types.get(name)
        # JSON does not tell a whole number from one that happens to be whole.
        known = float(value) if type(value) is int and wanted is not int and wanted is not bool else value
        if wanted is None or not (isinstance(value, wanted) or isinstance(known, wanted)):
            raise TypeError(f"{name} is no {wanted}")
    return kind(**values)


def whole(value: Any) -> int | None:
    """A whole number, or none. Raises TypeError for anything else."""
    if value is not None and type(value) is not int:
        raise TypeError(f"{type(value).__name__} where a whole number was expected")
    return value
