"""Single values of a catalogue file, each checked where it stands."""

import math
import re
from collections.abc import Collection
from typing import Final

from lastbeat.signals.drafts import Fault, nearest
from lastbeat.signals.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode, line_of, tag_of

TEXT_LIMIT: Final = 2000
_MOST_FAULTS: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_TRUTHS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_KINDS: Final = {"int": "a number", "float": "a number", "bool": "yes or no", "null": "empty", "timestamp": "a time"}


class Notes:
    """What was found wrong with one file."""

    def __init__(self, file: str, faults: list[Fault]) -> None:
        self._file = file
        self._faults = faults

    @property
    def full(self) -> bool:
        """Whether more was found than anybody will read."""
        return len(self._faults) >= _MOST_FAULTS

    def add(self, line: int, what: str) -> None:
        self._faults.append(Fault(self._file, line, what))

    def is_key(self, node: Node, where: str) -> bool:
        """Whether ``node`` can be a key."""
        if isinstance(node, ScalarNode) and tag_of(node) in {"str", "int", "float", "bool", "null", "timestamp"}:
            return True
        self.add(line_of(node), f"{where}: a key has to be a name, not {kind_of(node)}")
        return False

    def mapping(self, node: Node, where: str, keys: Collection[str]) -> dict[str, Node]:
        """The values of ``node`` by key; keys that are not among ``keys`` or stand twice are faults."""
        if tag_of(node) == "null":
            return {}
        if not isinstance(node, MappingNode) or tag_of(node) != "map":
            self.add(line_of(node), f"{where} has to be 'key: value' lines ({', '.join(keys)}), not {kind_of(node)}")
            return {}
        found: dict[str, Node] = {}
        for key, value in node.value:
            if self.full:
                break
            if not self.is_key(key, where):
                continue
            name = str(key.value)
            if name not in keys:
                near = nearest(name, keys) or f"; there are: {', '.join(keys)}"
                self.add(line_of(key), f"{where}: unknown key {name[:60]!r}{near}")
            elif name in found:
                self.add(line_of(key), f"{where}: {name!r} stands twice (line {line_of(found[name])}); remove one")
            else:
                found[name] = value
        return found


def kind_of(node: Node) -> str:
    """What ``node`` is, in words."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    tag = tag_of(node)
    return _KINDS.get(tag) or ("text" if tag == "str" else f"tagged {tag[:60]!r}, which is not taken")


def text(node: Node | None, where: str, notes: Notes) -> str | None:
    """Text, or None with a fault where ``node`` is something else."""
    if node is None:
        return None
    if not isinstance(node, ScalarNode) or tag_of(node) != "str":
        notes.add(line_of(node), f"{where} is {kind_of(node)}; it has to be text, quoted if need be: '…'")
        return None
    value = str(node.value)
    if len(value) > TEXT_LIMIT * 2 or (len(value) > TEXT_LIMIT and where not in {"pattern", "regex", "substring"}):
        notes.add(line_of(node), f"{where} has {len(value):,} characters, and {TEXT_LIMIT:,} is the most; shorten it")
        return None
    if "\0" in value or (not value.strip() and where != "hint"):
        notes.add(line_of(node), f"{where} is empty or holds a NUL; write what it is to be, or remove the key")
        return None
    return value


def word(node: Node | None, where: str, notes: Notes, among: Collection[str] | None = None) -> str | None:
    """A name, one of ``among`` if that is given."""
    value = text(node, where, notes)
    if value is None or node is None:
        return None
    if among is not None and value not in among:
        notes.add(line_of(node), f"{where} {value[:60]!r} is none of {', '.join(among)}{nearest(value, among)}")
        return None
    fault = name_fault(value)
    if fault is not None:
        notes.add(line_of(node), f"{where}: {fault}")
        return None
    return value


def truth(node: Node | None, where: str, notes: Notes) -> bool | None:
    """Yes or no."""
    if node is None:
        return None
    if isinstance(node, ScalarNode) and tag_of(node) == "bool":
        return _TRUTHS[str(node.value).lower()]
    notes.add(line_of(node), f"{where} is {kind_of(node)}; it has to be true or false")
    return None


def seconds(node: Node | None, where: str, notes: Notes) -> float | None:
    """A number of seconds above 0."""
    if node is None:
        return None
    try:
        value = float(node.value) if isinstance(node, ScalarNode) and tag_of(node) in {"int", "float"} else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value <= 10**9:
        notes.add(line_of(node), f"{where} has to be a number of seconds above 0")
        return None
    return value


def name_fault(name: str) -> str | None:
    """What is wrong with ``name`` as the name of something."""
    if _NAME.fullmatch(name):
        return None
    return f"{name[:60]!r} is no name; take letters, digits and _ . - (at most 100 of them, a letter or digit first)"
