"""A signal, an absence rule or an error type as a catalogue file says it → the fields of ``model.signal``."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from lastbeat.model.signal import Role, Severity, Verdict
from lastbeat.scanning import line_templates, literals
from lastbeat.signals import pattern_checks, scalars
from lastbeat.signals.scalars import Notes
from lastbeat.signals.yaml_nodes import MappingNode, Node, SequenceNode, line_of, tag_of

_PATTERN_KEYS: Final = ("pattern", "regex", "substring", "ignore_case", "extract")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "verdict": get_args(Verdict),
    "severity": get_args(Severity),
    "role": get_args(Role),
}
_WORDS: Final = ("kind", "error_type", "subsystem")
_EVIDENCE: Final = (None, "exception", "traceback", "chain")
"""Kinds of lines that tell of a failure; those of all others are a healthy run's."""
SIGNAL_KEYS: Final = (*_PATTERN_KEYS, *_CHOICES, *_WORDS, "hint", "restartable")
ABSENCE_KEYS: Final = ("signal", "pattern", "regex", "substring", "ignore_case", "within_s", "every_s", "hint")
TYPE_KEYS: Final = ("restartable", "meaning", "hint")


def signal(name: str, node: Node, notes: Notes) -> Mapping[str, Any] | None:
    """The fields of the signal ``name``; without ``pattern`` they change one that is extended."""
    if not isinstance(node, MappingNode):
        # ``name: pattern`` is what people try first, and it is clear what they mean.
        pattern = scalars.text(node, "pattern", notes)
        return _searchable(name, {"pattern": pattern}, node, None, notes) if pattern is not None else None
    where = f"signal {name!r}"
    parts = notes.mapping(node, where, SIGNAL_KEYS)
    fields: dict[str, Any] = {}
    for key, among in _CHOICES.items():
        fields[key] = scalars.word(parts.get(key), key, notes, among)
    for key in _WORDS:
        fields[key] = scalars.word(parts.get(key), key, notes)
    fields["hint"] = scalars.text(parts.get("hint"), "hint", notes)
    fields["restartable"] = scalars.truth(parts.get("restartable"), "restartable", notes)
    fields = {key: value for key, value in fields.items() if value is not None}
    if not parts.keys() & {"pattern", "regex", "substring"}:
        for key in parts.keys() & set(_PATTERN_KEYS):
            notes.add(line_of(parts[key]), f"{where}: {key} belongs to a pattern; write the pattern here, too")
        return fields
    pattern_fields = _pattern(parts, where, notes)
    if pattern_fields is None:
        return None
    searchable = _searchable(name, pattern_fields, node, parts.get("extract"), notes)
    if fields.get("kind") not in _EVIDENCE:
        fields.setdefault("severity", "info")
    return {**searchable, **fields} if searchable is not None else None


def absence(name: str, node: Node, notes: Notes) -> Mapping[str, Any] | None:
    """The fields of the rule ``name``; ``pattern_fields`` holds a signal's where the rule brings its own pattern."""
    where = f"absence {name!r}"
    parts = notes.mapping(node, where, ABSENCE_KEYS)
    if not isinstance(node, MappingNode):
        return None
    within = scalars.seconds(parts.get("within_s"), "within_s", notes)
    every = scalars.seconds(parts.get("every_s"), "every_s", notes)
    fields: dict[str, Any] = {"hint": scalars.text(parts.get("hint"), "hint", notes) or ""}
    if not parts.keys() & {"within_s", "every_s"}:
        notes.add(
            line_of(node), f"{where} says no time; add within_s: (from the start) or every_s: (from line to line)"
        )
        return None
    patterns = parts.keys() & {"pattern", "regex", "substring"}
    if ("signal" in parts) == bool(patterns):
        notes.add(line_of(node), f"{where} has to name either a signal or a pattern")
        return None
    if patterns:
        pattern_fields = _pattern(parts, where, notes)
        searchable = _searchable(name, pattern_fields, node, None, notes) if pattern_fields is not None else None
        if searchable is None:
            return None
        fields["pattern_fields"] = {**searchable, "kind": "expected", "severity": "info"}
    else:
        fields["signal"] = scalars.word(parts["signal"], "signal", notes)
    if None in fields.values() or (within is None and every is None):
        return None
    fields["within_s"] = within if within is not None else every
    fields["every_s"] = every if every is not None else within
    return fields


def error_type(name: str, node: Node, notes: Notes) -> Mapping[str, Any] | None:
    """What a file says of the error type ``name``."""
    parts = notes.mapping(node, f"error type {name!r}", TYPE_KEYS)
    fields = {
        "restartable": scalars.truth(parts.get("restartable"), "restartable", notes),
        "meaning": scalars.text(parts.get("meaning"), "meaning", notes),
        "hint": scalars.text(parts.get("hint"), "hint", notes),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _pattern(parts: Mapping[str, Node], where: str, notes: Notes) -> dict[str, Any] | None:
    """``pattern``, ``substring`` and ``ignore_case`` from the ways in which they can be said."""
    said = [key for key in ("pattern", "regex", "substring") if key in parts]
    plain = False
    if "substring" in said and tag_of(parts["substring"]) == "bool":
        plain = bool(scalars.truth(parts["substring"], "substring", notes))
        said.remove("substring")
    if len(said) != 1:
        what = " and ".join(said) or "substring: true, but no pattern"
        notes.add(line_of(parts[said[0] if said else "substring"]), f"{where} has {what}; one pattern is needed")
        return None
    pattern = scalars.text(parts[said[0]], said[0], notes)
    if pattern is None:
        return None
    fields: dict[str, Any] = {"pattern": pattern}
    if plain or said[0] == "substring":
        fields["substring"] = True
    if scalars.truth(parts.get("ignore_case"), "ignore_case", notes):
        fields["ignore_case"] = True
    return fields


def _searchable(
    name: str, fields: dict[str, Any], node: Node, extract: Node | None, notes: Notes
) -> dict[str, Any] | None:
    """``fields`` with ``extract`` and ``literals``, if the pattern is sound."""
    line = _pattern_line(node)
    substring = bool(fields.get("substring"))
    ignore_case = bool(fields.get("ignore_case"))
    found = [] if substring else pattern_checks.faults(fields["pattern"], ignore_case=ignore_case)
    for what in found:
        notes.add(line, f"signal {name!r}: {what}")
    if found:
        return None
    groups = () if substring else pattern_checks.groups_of(fields["pattern"])
    wanted = {group: group for group in groups} if extract is None else _extract(extract, name, notes)
    for group in pattern_checks.missing(groups, wanted.values()):
        there = f"it has {', '.join(groups)}" if groups else "it has no named group: (?P<name>…)"
        notes.add(
            line_of(extract) if extract is not None else line,
            f"signal {name!r}: extract names the group {group!r}, which the pattern lacks; {there}",
        )
    if wanted:
        fields["extract"] = wanted
    how = {"ignore_case": ignore_case, "substring": substring}
    fields["literals"] = literals.required(fields["pattern"], **how)
    fields["demand"] = line_templates.demand(
        fields["pattern"], ignore_case=bool(fields.get("ignore_case")), substring=substring
    )
    return fields


def _extract(node: Node, name: str, notes: Notes) -> dict[str, str]:
    """Field → group, from a mapping or from a list of names that are both."""
    where = f"signal {name!r}: extract"
    if isinstance(node, SequenceNode):
        names = [scalars.word(item, where, notes) for item in node.value]
        return {each: each for each in names if each is not None}
    if not isinstance(node, MappingNode):
        notes.add(line_of(node), f"{where} is {scalars.kind_of(node)}; it has to be 'field: group' lines")
        return {}
    found = {}
    for key, value in node.value:
        field = scalars.word(key, where, notes)
        group = scalars.word(value, where, notes)
        if field is not None and group is not None:
            found[field] = group
    return found


def _pattern_line(node: Node) -> int:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value in {"pattern", "regex"}:
                return line_of(value)
    return line_of(node)
