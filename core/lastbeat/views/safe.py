"""Makes text from training fit to be shown: cleaned, bounded, without secrets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar

from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, fit, one_line

LINE_LIMIT: Final = 1000
"""Most characters of one line of a log."""
TEXT_LIMIT: Final = 200
"""Most characters of a text in a row of a fleet."""
_USUAL_LIMIT: Final = 300
"""Most characters of a text on a run's page, unless it has a limit of its own."""
T = TypeVar("T")


def shown(text: str, mask: Callable[[str], str] = str, limit: int = TEXT_LIMIT) -> str:
    """``text`` as people may be shown it: one line, harmless, without secrets, bounded."""
    # Masked before it is cut, so that no part of a secret is left at the end.
    return fit(mask_tokens(mask(one_line(text))), limit)


@dataclass(frozen=True, slots=True)
class Safe:
    """Makes what training wrote fit to be shown; ``mask`` hides the secrets of who looks."""

    mask: Callable[[str], str] = str

    def text(self, text: str) -> str:
        """Many lines: cleaned, with every secret masked."""
        return mask_tokens(self.mask(clean(text)))

    def line(self, text: str, limit: int = LINE_LIMIT) -> str:
        """One line with its indentation, at most ``limit`` characters of it."""
        # What a terminal would break it at is no line of the file.
        return fit(self.text(text).replace("\n", " ").rstrip(), limit)

    def name(self, text: str, limit: int = _USUAL_LIMIT) -> str:
        """A few words on one line."""
        return shown(text, self.mask, limit)

    def maybe(self, text: str | None, limit: int = _USUAL_LIMIT) -> str | None:
        """:meth:`name` of what there is."""
        return None if text is None else self.name(text, limit)

    def all_of(self, value: T, **limits: int) -> T:
        """``value``, a dataclass, with :meth:`name` of every text in it. ``limits``: field → most characters of it."""
        made: T = self._all_of(value, _USUAL_LIMIT, limits)
        return made

    def _all_of(self, value: Any, limit: int, limits: Mapping[str, int]) -> Any:
        if isinstance(value, str) and not isinstance(value, Enum):
            return self.name(value, limit)
        if isinstance(value, (tuple, list)):
            return type(value)(self._all_of(each, limit, limits) for each in value)
        if isinstance(value, Mapping):
            return {self.name(str(key), limit): self._all_of(each, limit, limits) for key, each in value.items()}
        if not is_dataclass(value) or isinstance(value, type):
            return value
        parts = {each.name: getattr(value, each.name) for each in fields(value)}
        safe = {name: self._all_of(part, limits.get(name, _USUAL_LIMIT), limits) for name, part in parts.items()}
        return replace(value, **safe)

    def lines(self, data: Sequence[bytes]) -> tuple[str, ...]:
        """Lines of a log as they are shown."""
        return tuple(self.line(each.decode("utf-8", "replace")) for each in data)
