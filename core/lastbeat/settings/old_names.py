"""Variables of earlier versions. Each is a part of another setting now; it is still read, and a hint says which."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from lastbeat.model.data import dataclass
from lastbeat.model.setting import Parts, Setting
from lastbeat.settings import table


@dataclass(frozen=True, slots=True)
class OldName:
    """``name`` is now the part ``key`` of ``setting``; without a key it is several parts."""

    name: str
    setting: Setting[Any]
    key: str
    example: str

    @property
    def parts(self) -> Parts[Any]:
        """The parts of the setting."""
        parts: Parts[Any] = self.setting.parse  # type: ignore[assignment]  # the rows of OLD_NAMES have no other
        return parts

    def row(self) -> Setting[Mapping[str, Any]]:
        """The variable as a setting whose value is key → value of its parts."""
        return Setting(self.name, self._parser(), "", example=self.example)

    def _parser(self) -> Callable[[str], Mapping[str, Any]]:
        if not self.key:
            return self.parts.read
        parse = self.parts.keys[self.key]
        return lambda text: {self.key: parse(text)}

    def written(self, text: str) -> dict[str, str]:
        """Key → the part that stands for ``text`` today."""
        if not self.key:
            return {part.partition(":")[0].strip(): part.strip() for part in text.split(",") if part.strip()}
        return {self.key: text if self.key == self.parts.bare else f"{self.key}:{text}"}

    def hint(self) -> str:
        """The setting and its part, for the question whether it was meant."""
        return f"{self.setting.name}={next(iter(self.written(self.example).values()))}"


OLD_NAMES: Final = tuple(
    OldName(*row)
    for row in (
        ("LASTBEAT_RANK_BEAT_SECONDS", table.BEAT_SECONDS, "ranks", "60"),
        ("LASTBEAT_HEALTH_SECONDS", table.BEAT_SECONDS, "health", "30"),
        ("LASTBEAT_OUT_OF_SECTION_TIMEOUT", table.SECTION_TIMEOUTS, "out_of_section", "300"),
        ("LASTBEAT_STRAGGLER_SECONDS", table.STRAGGLERS, "seconds", "300"),
        ("LASTBEAT_STRAGGLER_SCORES", table.STRAGGLERS, "", "individual:0.8"),
        ("LASTBEAT_STRAGGLER_RANKS", table.STRAGGLERS, "ranks", "5"),
        ("LASTBEAT_STRAGGLER_EVERY", table.STRAGGLERS, "every", "10"),
        ("LASTBEAT_STRAGGLER_JSON", table.STRAGGLERS, "json", "on"),
        ("LASTBEAT_GROUP_RUNS", table.GROUPS, "runs", "5"),
        ("LASTBEAT_GROUP_MINUTES", table.GROUPS, "minutes", "5"),
        ("LASTBEAT_REPEAT_HOURS", table.GROUPS, "repeat_hours", "4"),
        ("LASTBEAT_READ_MINUTES", table.SWEEP, "read_minutes", "20"),
        ("LASTBEAT_DISCOVER_MINUTES", table.SWEEP, "discover_minutes", "5"),
        ("LASTBEAT_NEWS_HOURS", table.SWEEP, "news_hours", "24"),
        ("LASTBEAT_FANOUT", table.SWEEP, "fanout", "2000"),
        ("LASTBEAT_LEASE_SECONDS", table.SWEEP, "lease_seconds", "60"),
        ("LASTBEAT_LOG_LEVEL", table.OWN_LOG, "level", "info"),
        ("LASTBEAT_LOG_FILE", table.OWN_LOG, "file", "/var/log/lastbeat.log"),
    )
)
ROWS: Final = tuple(old.row() for old in OLD_NAMES)
"""The old names, to be read beside the settings."""
HINTS: Final = {old.name: old.hint() for old in OLD_NAMES}
"""Old name → what it is now: ``LASTBEAT_GROUPS=runs:5``."""


def fold(texts: Mapping[str, str], held: dict[str, Any]) -> tuple[str, ...]:
    """Move the values of old names in ``held`` into those of their settings, and return the hints.

    ``texts`` has the text of every name that is set. A part that the setting itself names outranks the old name."""
    hints: list[str] = []
    for setting in dict.fromkeys(old.setting for old in OLD_NAMES):
        olds = [old for old in OLD_NAMES if old.setting is setting and old.name in texts]
        # A fault in the text of an old name is reported as one.
        values = {old: value for old in olds if (value := held.pop(old.name)) is not None}
        if values:
            hints += _folded(setting, values, texts, held)
    return tuple(hints)


def _folded(
    setting: Setting[Any], values: Mapping[OldName, Mapping[str, Any]], texts: Mapping[str, str], held: dict[str, Any]
) -> Iterator[str]:
    parts = next(iter(values)).parts
    text = texts.get(setting.name, "")
    try:
        named = parts.read(text)
    except ValueError:
        # A fault, too: the setting has its default.
        text, named = "", {}
    given = {key: value for each in values.values() for key, value in each.items()}
    held[setting.name] = parts.made({**({} if text else parts.read(setting.default)), **given, **named})
    moved: list[str] = []
    # What is off goes on being off beside its other parts.
    now = [text] if text else [setting.default] if setting.default == table.OFF else []
    for old in values:
        label = f"{old.name}={texts[old.name]}"
        written = [part for key, part in old.written(texts[old.name]).items() if key not in named]
        if written:
            moved.append(label)
            now += written
        else:
            yield f"{label} has no effect beside {setting.name}={text}; remove it"
    if moved:
        yield f"{' '.join(moved)} {'is' if len(moved) == 1 else 'are'} now {setting.name}={','.join(now)}"
