"""The nodes of one catalogue file → a draft, or all that is wrong with it.

Here stands what can be said of a file by itself; what needs the files that it extends stands in ``composing``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lastbeat.signals import scalars, signal_entries
from lastbeat.signals.drafts import NAMED_LIMITS, Draft, Entry, Fault
from lastbeat.signals.scalars import Notes
from lastbeat.signals.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, line_of, nodes_of, tag_of

KEYS: Final = ("extends", "description", "error_types", "signals", "absences", "limits", "silence")


def draft(text: str, file: str, faults: list[Fault]) -> Draft:
    """The catalogue in ``text``; what is wrong with it is added to ``faults``."""
    notes = Notes(file, faults)
    node = nodes_of(text, file)
    if isinstance(node, Fault):
        faults.append(node)
        return Draft(file)
    if node is None or (isinstance(node, ScalarNode) and tag_of(node) == "null"):
        return Draft(file)
    parts = notes.mapping(node, "a catalogue", KEYS)
    absences, waited_for = _absences(parts.get("absences"), notes)
    signals = _entries(parts.get("signals"), "signals", notes, signal_entries.signal)
    for name, entry in waited_for.items():
        if name in signals:
            notes.add(entry.line, f"absence {name!r} has a pattern, and there is a signal of that name; rename one")
        signals[name] = entry
    return Draft(
        file,
        _names(parts["extends"], "extends", notes) if "extends" in parts else None,
        scalars.text(parts.get("description"), "description", notes) or "",
        signals,
        absences=absences,
        error_types=_entries(parts.get("error_types"), "error_types", notes, signal_entries.error_type),
        limits=_limits(parts.get("limits"), notes),
        silence=_names(parts.get("silence"), "silence", notes),
    )


def _entries(
    node: Node | None, key: str, notes: Notes, read: Callable[[str, Node, Notes], Mapping[str, Any] | None]
) -> dict[str, Entry]:
    """Name → entry, from a mapping, or from a list whose items say their ``name``."""
    entries: dict[str, Entry] = {}
    for name, value, line in _named(node, key, notes):
        if notes.full:
            break
        fault = scalars.name_fault(name)
        if fault is not None:
            notes.add(line, f"{key}: {fault}")
        elif name in entries:
            notes.add(line, f"{key}: {name!r} stands here twice (line {entries[name].line}); rename or remove one")
        else:
            fields = read(name, value, notes)
            if fields is not None:
                keys = value.value if isinstance(value, MappingNode) else []
                entries[name] = Entry(fields, line, {str(said.value): line_of(what) for said, what in keys})
    return entries


def _named(node: Node | None, key: str, notes: Notes) -> list[tuple[str, Node, int]]:
    if node is None or tag_of(node) == "null":
        return []
    if isinstance(node, MappingNode):
        return [(str(name.value), value, line_of(name)) for name, value in node.value if notes.is_key(name, key)]
    if not isinstance(node, SequenceNode):
        notes.add(line_of(node), f"{key} is {scalars.kind_of(node)}; it must be 'name: …' lines, each with its fields")
        return []
    found: list[tuple[str, Node, int]] = []
    for item in node.value:
        pairs = item.value if isinstance(item, MappingNode) else []
        names = [value for name, value in pairs if name.value == "name"]
        if not names or not isinstance(names[0], ScalarNode):
            notes.add(line_of(item), f"{key}: an item without a name; add 'name: …'")
            continue
        rest = MappingNode(item.tag, [pair for pair in pairs if pair[0].value != "name"], item.start_mark)
        found.append((str(names[0].value), rest, line_of(item)))
    return found


def _names(node: Node | None, key: str, notes: Notes) -> dict[str, int]:
    """A list of names, or one name, each with its line."""
    if node is None or tag_of(node) == "null":
        return {}
    items = node.value if isinstance(node, SequenceNode) else [node]
    found: dict[str, int] = {}
    for item in items:
        name = scalars.text(item, key, notes)
        if name is not None:
            found[name.strip()] = line_of(item)
    return found


def _limits(node: Node | None, notes: Notes) -> dict[str, float]:
    parts = notes.mapping(node, "limits", NAMED_LIMITS) if node is not None else {}
    read = {name: scalars.seconds(value, name, notes) for name, value in parts.items()}
    return {name: value for name, value in read.items() if value is not None}


def _absences(node: Node | None, notes: Notes) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """The rules, and the signals of those that bring a pattern in place of a signal's name."""
    rules = _entries(node, "absences", notes, signal_entries.absence)
    brought = {}
    for name, entry in rules.items():
        fields = dict(entry.fields)
        pattern = fields.pop("pattern_fields", None)
        if pattern is not None:
            brought[name] = Entry(pattern, entry.line)
            rules[name] = Entry({**fields, "signal": name}, entry.line)
    return rules, brought
