"""A user's catalogue file → a draft, or all faults in it.

This module checks a file by itself. ``composing`` checks it against the files that it extends.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import UNSAID, Document, HandwrittenModel, MaybeBlank, Name, Seconds, Text, not_blank
from lastbeat.explain.scanning import literals, template_demand
from lastbeat.explain.signals import pattern_checks
from lastbeat.explain.signals.composing import MOST_SIGNALS, Draft, DraftEntry
from lastbeat.model.file_fault import FileFault
from lastbeat.model.signal import Role, Severity, Verdict

NAMED: Final = ("error_types", "signals", "absences")
"""Keys that hold named entries."""
_EVIDENCE: Final = (None, "exception", "traceback", "chain")
"""Kinds of lines that report a failure. All others belong to a healthy run."""


def _or_truth(value: object, text: ValidatorFunctionWrapHandler) -> Any:
    return value if isinstance(value, bool) else text(value)


def _groups(value: object) -> object:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return {each: each for each in value}
    if isinstance(value, dict):
        return value
    raise ValueError("has to be 'field: group' lines, or a list of groups")


Pattern = Annotated[str, Field(max_length=pattern_checks.PATTERN_LIMIT), AfterValidator(not_blank)]
PatternOrTruth = Annotated[Pattern, WrapValidator(_or_truth, json_schema_input_type=bool | Pattern)]
Groups = Annotated[dict[Name, Name], BeforeValidator(_groups, json_schema_input_type=dict[Name, Name] | list[Name])]


class PatternEntry(HandwrittenModel):
    """The pattern of an entry, under one of the keys ``pattern``, ``regex`` and ``substring``."""

    ignore_case: bool = UNSAID
    substring: PatternOrTruth = UNSAID
    """Plain text to look for; or true: the pattern is plain text."""
    pattern: Pattern = UNSAID
    """A regular expression that is searched for in each line, in the syntax that Python's re and RE2 share."""
    regex: Pattern = UNSAID
    """Another word for ``pattern``."""

    @field_validator("pattern", "regex")
    @classmethod
    def _sound(cls, text: str, info: ValidationInfo) -> str:
        for other in (key for key in ("substring", "pattern") if isinstance(info.data.get(key), str)):
            raise ValueError(f"{info.field_name} and {other} both stand here; one pattern is needed")
        if not info.data.get("substring"):
            for what in pattern_checks.faults(text, ignore_case=bool(info.data.get("ignore_case"))):
                raise ValueError(what)
        return text

    @model_validator(mode="after")
    def _complete(self) -> "PatternEntry":
        said = self.stated()
        if self.text is None and "substring" in said:
            raise ValueError("substring: true, but no pattern; one pattern is needed")
        if self.text is None and "ignore_case" in said:
            raise ValueError("ignore_case belongs to a pattern; write the pattern here, too")
        return self

    @property
    def text(self) -> str | None:
        """The pattern or plain text to search for, or None if the entry has none."""
        said = self.stated()
        return next((said[key] for key in ("pattern", "regex", "substring") if isinstance(said.get(key), str)), None)

    def search(self, extract: Mapping[str, str] | None) -> dict[str, Any]:
        """The fields of ``model.signal`` that say how to search. ``extract`` None: all named groups."""
        text, plain, ignore_case = self.text or "", bool(self.substring), bool(self.ignore_case)
        groups = extract
        if groups is None:
            groups = {} if plain else {group: group for group in pattern_checks.groups_of(text)}
        how = {"ignore_case": ignore_case, "substring": plain}
        fields = {
            "pattern": text,
            **{key: True for key, yes in (("substring", plain), ("ignore_case", ignore_case)) if yes},
            **({"extract": dict(groups)} if groups else {}),
        }
        return {**fields, "literals": literals.required(text, **how), "demand": template_demand.demand(text, **how)}


class SignalEntry(PatternEntry):
    """A pattern, and the meaning of a line that matches it. Without a pattern, changes to a signal of an extended
    file."""

    extract: Groups = UNSAID
    """Field → named group of the pattern. Left out: each named group."""
    verdict: Verdict = UNSAID
    severity: Severity = UNSAID
    """Left out: error; info for a line of a healthy run."""
    role: Role = UNSAID
    """root: what went wrong. cascade: what follows from something else. confirmation: says that something ended, not
    why."""
    kind: Name = UNSAID
    """What a line of a healthy run is: progress, checkpoint, validation, done, advice, … Such lines are no evidence."""
    error_type: Name = UNSAID
    subsystem: Name = UNSAID
    hint: MaybeBlank = UNSAID
    """What to do; {field} stands for what was extracted, and [with {field}] is left out where it is not known."""
    restartable: bool = UNSAID
    envelope: bool = UNSAID
    """true: the same line, or the lines right below it, name the failure by another signal, which is then the cause."""

    @field_validator("extract")
    @classmethod
    def _groups_are_there(cls, extract: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        said = [info.data.get(key) for key in ("pattern", "regex", "substring")]
        if said == [None, None, None]:
            raise ValueError("belongs to a pattern; write the pattern here, too")
        plain = bool(said[2])
        text = said[0] or said[1]
        if plain or text:
            groups = () if plain or not isinstance(text, str) else pattern_checks.groups_of(text)
            there = f"it has {', '.join(groups)}" if groups else "it has no named group: (?P<name>…)"
            for group in (each for each in extract.values() if each not in groups):
                raise ValueError(f"names the group {group!r}, which the pattern lacks; {there}")
        return extract

    def fields(self) -> dict[str, Any]:
        """The entry as fields of ``model.signal.Signal``."""
        said = self.stated(without=("ignore_case", "substring", "pattern", "regex", "extract"))
        if self.text is None:
            return said
        if said.get("kind") not in _EVIDENCE:
            said.setdefault("severity", "info")
        return {**self.search(self.extract), **said}


class AbsenceEntry(PatternEntry):
    """A rule about a line that must appear: one of the signal ``signal``, or one that matches the rule's own
    pattern."""

    signal: Name = UNSAID
    within_s: Seconds = UNSAID
    """Seconds from the attempt's start to the first one."""
    every_s: Seconds = UNSAID
    """Seconds from one to the next."""
    hint: Text = UNSAID

    @model_validator(mode="after")
    def _whole(self) -> "AbsenceEntry":
        if (self.text is None) == (self.signal is None):
            raise ValueError("has to name either a signal or a pattern")
        if self.within_s is None and self.every_s is None:
            raise ValueError("says no time; add within_s: (from the start) or every_s: (from line to line)")
        return self

    def fields(self, name: str) -> dict[str, Any]:
        """The rule ``name`` as fields of ``model.signal.Absence``."""
        within_s, every_s = float(self.within_s or self.every_s), float(self.every_s or self.within_s)
        return {"hint": self.hint or "", "signal": self.signal or name, "within_s": within_s, "every_s": every_s}


class TypeEntry(HandwrittenModel):
    """A user's error type, or changes to a built-in one."""

    restartable: bool = UNSAID
    """Whether a restart from the last checkpoint is likely to get past this."""
    meaning: Text = UNSAID
    hint: Text = UNSAID
    """What to do about it, unless a signal has a hint of its own."""


class LimitsEntry(HandwrittenModel):
    """Limits that apply unless the settings say otherwise."""

    inactivity_s: Seconds = UNSAID
    """A run without a new line or a new step for this many seconds is stalled."""
    inactivity_check_s: Seconds = UNSAID
    poll_s: Seconds = UNSAID


def _section(value: object) -> object:
    if isinstance(value, dict) and len(value) > MOST_SIGNALS:
        raise ValueError(f"there are more than {MOST_SIGNALS:,} signals; join patterns with '|'")
    return {} if value is None else value


def _short(value: object) -> object:
    # People try ``name: pattern`` first, and its meaning is clear.
    return {"pattern": value} if value is None or isinstance(value, str | int | float) else value


def _one_or_more(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str) else value


def _nothing(value: object) -> object:
    return {} if value is None else value


Names = Annotated[list[Text], BeforeValidator(_one_or_more, json_schema_input_type=Text | list[Text] | None)]
Listed = list[dict[str, Any]]
"""The same entries, each with its name as ``name``."""
Signals = Annotated[
    dict[Name, Annotated[SignalEntry, BeforeValidator(_short, json_schema_input_type=Pattern | SignalEntry)]],
    BeforeValidator(_section, json_schema_input_type=dict[Name, Pattern | SignalEntry] | Listed | None),
]
Absences = Annotated[
    dict[Name, AbsenceEntry],
    BeforeValidator(_section, json_schema_input_type=dict[Name, AbsenceEntry] | Listed | None),
]
Types = Annotated[
    dict[Name, Annotated[TypeEntry, BeforeValidator(_nothing, json_schema_input_type=TypeEntry | None)]],
    BeforeValidator(_section, json_schema_input_type=dict[Name, TypeEntry | None] | Listed | None),
]


class CatalogueFile(HandwrittenModel):
    """A catalogue of log signals."""

    extends: Names = UNSAID
    """Catalogues and files that it extends. Left out: default."""
    description: Text = UNSAID
    error_types: Types = UNSAID
    signals: Signals = UNSAID
    absences: Absences = UNSAID
    limits: Annotated[LimitsEntry, BeforeValidator(_nothing, json_schema_input_type=LimitsEntry | None)] = UNSAID
    silence: Names = UNSAID
    """Signals and absence rules to leave out."""


def draft_of_file(text: str, file: str, faults: list[FileFault]) -> Draft:
    """The catalogue in ``text``. Its faults are added to ``faults``."""
    document = handwritten.read(text, file, faults, named=NAMED)
    if document is None or document.value is None:
        return Draft(file)
    found, left_out = handwritten.checked(CatalogueFile, document, faults)
    if found is None:
        return Draft(file)
    unusable = frozenset(str(place[1]) for place in left_out if len(place) > 1 and place[0] in NAMED)
    return _draft(found, document, faults)._replace(unusable=unusable)


def _draft(found: CatalogueFile, document: Document, faults: list[FileFault]) -> Draft:
    def entry(fields: Mapping[str, Any], *place: str) -> DraftEntry:
        return DraftEntry(fields, document.key_line(*place), {key: document.line(*place, key) for key in fields})

    def names(key: str) -> dict[str, int]:
        said, written = getattr(found, key) or (), document.value.get(key)
        return {
            name.strip(): document.line(key, written.index(name)) if isinstance(written, list) else document.line(key)
            for name in said
        }

    signals = {name: entry(each.fields(), "signals", name) for name, each in (found.signals or {}).items()}
    rules = (found.absences or {}).items()
    for name, rule in rules:
        if rule.text is None:
            continue
        place = ("absences", name)
        if name in signals:
            what = f"absences.{name} has a pattern, and there is a signal of that name; rename one"
            faults.append(FileFault(document.file, document.key_line(*place), what))
        signals[name] = entry({**rule.search(None), "kind": "expected", "severity": "info"}, *place)
    return Draft(
        document.file,
        names("extends") if "extends" in found.model_fields_set else None,
        found.description or "",
        signals,
        absences={name: entry(rule.fields(name), "absences", name) for name, rule in rules},
        error_types={
            name: entry(each.stated(), "error_types", name) for name, each in (found.error_types or {}).items()
        },
        limits=found.limits.stated() if found.limits else {},
        silence=names("silence"),
    )
