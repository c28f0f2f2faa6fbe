"""Composes catalogue files into a catalogue: files extend others, replace their signals, and silence them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from lastbeat.explain.signals.error_types import TYPES
from lastbeat.explain.signals.hints import STANDING, fields_of
from lastbeat.model.error_type import ErrorType
from lastbeat.model.file_fault import FileFault
from lastbeat.model.signal import Absence, Catalogue, Signal
from lastbeat.model.text import nearest

MOST_SIGNALS: Final = 2000
"""Most signals of a catalogue."""
MOST_FILES: Final = 50
"""Most files that a catalogue extends, directly or indirectly."""
CHECKED: Final = 0
"""Line number of an entry of a compiled catalogue, which was checked before."""
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

# Named tuples, because they are created faster than dataclasses, and --once creates these classes at each start.


class DraftEntry(NamedTuple):
    """One signal, absence rule or error type of a file."""

    fields: Mapping[str, Any]
    """Field of ``model.signal`` → value, for the keys that the file has."""
    line: int = CHECKED
    lines: Mapping[str, int] = _NONE
    """Key → line of its value."""


class Draft(NamedTuple):
    """A catalogue file as read."""

    file: str
    extends: Mapping[str, int] | None = None
    """Name or path → line. None if the file has no such key."""
    description: str = ""
    signals: Mapping[str, DraftEntry] = _NONE
    made: Mapping[str, Signal] = _NONE
    """Complete signals of a compiled catalogue."""
    absences: Mapping[str, DraftEntry] = _NONE
    error_types: Mapping[str, DraftEntry] = _NONE
    limits: Mapping[str, float] = _NONE
    silence: Mapping[str, int] = _NONE
    """Name → line."""
    unusable: frozenset[str] = frozenset()
    """Names of faulty entries. Other entries that name them are not reported."""


def in_order(roots: Sequence[str], draft_of: Callable[[str], Draft | None], faults: list[FileFault]) -> list[Draft]:
    """``roots`` and all files that they extend, each once and after the files that it extends.

    If a file extends several, the first of those comes last, so that it outranks the others.
    """
    ordered: list[Draft] = []
    seen: set[str] = set()
    path: list[str] = []

    def visit(name: str, by: str, line: int) -> None:
        if name in path:
            circle = " → ".join([*path[path.index(name) :], name])
            faults.append(FileFault(by, line, f"it extends itself ({circle}); take one of them out"))
            return
        if name in seen or len(seen) > MOST_FILES:
            return
        seen.add(name)
        if len(seen) > MOST_FILES:
            faults.append(
                FileFault(by, line, f"with this, more than {MOST_FILES} files are extended; put some together")
            )
            return
        draft = draft_of(name)
        if draft is None:
            return
        path.append(name)
        for base, its_line in reversed(list((draft.extends or {}).items())):
            visit(base, draft.file, its_line)
        path.pop()
        ordered.append(draft)

    for root in roots:
        visit(root, root, 0)
    return ordered


class _Composition:
    """A catalogue under construction. Each file is checked against the files that it extends, except built-in ones.

    Signals of a file come before those that it extends, because the first match of a line counts.
    """

    def __init__(self, faults: list[FileFault]) -> None:
        self._faults = faults
        self._signals: dict[str, Signal] = {}
        self._absences: dict[str, Absence] = {}
        self._types: dict[str, ErrorType] = dict(TYPES)
        self._limits: dict[str, float] = {}
        self._files: list[str] = []
        self._unusable: set[str] = set()

    def add(self, draft: Draft) -> None:
        """Add ``draft``, which outranks all files so far."""
        self._files.append(draft.file)
        self._unusable |= draft.unusable
        for name, line in draft.silence.items():
            self._silence(draft, name, line)
        for name, entry in draft.error_types.items():
            known = self._types.get(name, ErrorType(name, restartable=None, meaning="", hint=""))
            self._types[name] = known._replace(**entry.fields)
        for name in draft.made.keys() & self._signals.keys():
            del self._signals[name]
        self._signals.update(draft.made)
        for name, entry in draft.signals.items():
            self._signal(draft, name, entry)
        if len(self._signals) > MOST_SIGNALS:
            what = f"more than {MOST_SIGNALS:,} signals; join patterns with '|' or silence what is not needed"
            self._faults.append(FileFault(draft.file, 0, what))
        for name, entry in draft.absences.items():
            self._absence(draft, name, entry)
        self._limits.update(draft.limits)

    def catalogue(self, name: str) -> Catalogue:
        """The composed catalogue."""
        return Catalogue(
            name,
            tuple(self._order()),
            tuple(self._absences.values()),
            self._types,
            self._limits.get("inactivity_s"),
            self._limits.get("inactivity_check_s"),
            self._limits.get("poll_s"),
        )

    def _order(self) -> Iterator[Signal]:
        files: dict[str, list[Signal]] = {}
        for signal in self._signals.values():
            files.setdefault(signal.source, []).append(signal)
        for file in reversed(self._files):
            yield from files.get(file, ())

    def _silence(self, draft: Draft, name: str, line: int) -> None:
        known = name in self._signals or name in self._absences or name in self._unusable
        if not known and line:
            near = nearest(name, [*self._signals, *self._absences])
            what = f"silence names {name!r}, which no extended file has{near}; see 'lastbeat signals list'"
            self._faults.append(FileFault(draft.file, line, what))
        self._signals.pop(name, None)
        self._absences.pop(name, None)
        for rule in [rule for rule, absence in self._absences.items() if absence.signal == name]:
            # That line is no longer searched for, so it would always be missing.
            del self._absences[rule]

    def _signal(self, draft: Draft, name: str, entry: DraftEntry) -> None:
        if "pattern" in entry.fields:
            self._signals.pop(name, None)
            signal = Signal(name, source=draft.file, **entry.fields)
        elif name in self._signals:
            signal = self._signals[name]._replace(**entry.fields)
        elif name in self._unusable:
            return
        else:
            near = nearest(name, self._signals)
            what = f"signal {name!r} has no pattern, and no extended file has a signal of that name{near}; add one"
            self._faults.append(FileFault(draft.file, entry.line, what))
            return
        self._check(draft, signal, entry)
        self._signals[name] = signal

    def _check(self, draft: Draft, signal: Signal, entry: DraftEntry) -> None:
        if signal.error_type is not None and signal.error_type not in {*self._types, *self._unusable}:
            near = nearest(signal.error_type, self._types)
            what = (
                f"signal {signal.name!r}: there is no error type {signal.error_type!r}{near}; add it under error_types"
            )
            self._faults.append(FileFault(draft.file, entry.lines.get("error_type", entry.line), what))
        for field in sorted(fields_of(signal.hint) - signal.extract.keys() - STANDING):
            what = f"signal {signal.name!r}: the hint says {{{field}}}, but extract gives no {field!r}; add it there"
            self._faults.append(FileFault(draft.file, entry.lines.get("hint", entry.line), what))

    def _absence(self, draft: Draft, name: str, entry: DraftEntry) -> None:
        signal = entry.fields["signal"]
        if entry.line and signal not in self._signals and signal not in self._unusable:
            near = nearest(signal, self._signals)
            what = f"absence {name!r} waits for the signal {signal!r}, which is not there{near}; add it under signals"
            self._faults.append(FileFault(draft.file, entry.line, what))
        self._absences[name] = Absence(name, **entry.fields)


def compose(name: str, drafts: Sequence[Draft], faults: list[FileFault]) -> Catalogue:
    """The catalogue of ``drafts``, each of which outranks those before it."""
    composition = _Composition(faults)
    for draft in drafts:
        composition.add(draft)
    return composition.catalogue(name)
