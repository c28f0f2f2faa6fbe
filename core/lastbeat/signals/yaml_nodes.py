"""YAML text → its nodes, which know their lines. Nothing in it is ever built into an object of its choosing.

Only users' own files are YAML when lastbeat runs, so only they pay for this import.
"""

from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from lastbeat.signals.drafts import Fault

SIZE_LIMIT: Final = 1_000_000
"""Characters of a file."""
DEPTH_LIMIT: Final = 10
NODES_LIMIT: Final = 100_000
_TAG: Final = "tag:yaml.org,2002:"
__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "line_of", "nodes_of", "tag_of"]

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
except ImportError:  # PyYAML was built without libyaml: slower, and the same events.
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class _Parser(Reader, Scanner, Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)


class _RefusedError(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class _Nodes(Composer, _Parser, Resolver):
    """Nodes of one document, without aliases: a few lines of those can stand for a billion nodes."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self._depth = 0
        self._count = 0

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event: Any = self.peek_event()
        line = int(event.start_mark.line) + 1
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(line, f"aliases (*{event.anchor}) are not taken; write it out")
        if self._depth >= DEPTH_LIMIT:
            raise _RefusedError(line, f"nested more than {DEPTH_LIMIT} levels deep; no catalogue needs that")
        self._count += 1
        if self._count > NODES_LIMIT:
            raise _RefusedError(line, f"more than {NODES_LIMIT:,} keys and values; no catalogue needs that")
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def nodes_of(text: str, file: str) -> Node | Fault | None:
    """The document's node, None where it is empty, or what is wrong with it."""
    if len(text) > SIZE_LIMIT:
        return Fault(file, 0, f"it has {len(text):,} characters, and {SIZE_LIMIT:,} is the most; is it the right file?")
    try:
        node: Node | None = _Nodes(text).get_single_node()
    except _RefusedError as refused:
        return Fault(file, refused.line, refused.what)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        advice = "in \"…\" a backslash has to be doubled, in '…' it stands for itself"
        if "escape" not in what:
            advice = "text with ': ', '#' or a leading * has to stand in '…'"
        return Fault(file, mark.line + 1 if mark is not None else 0, f"not YAML: {what}; {advice}")
    except yaml.YAMLError as error:
        return Fault(file, 0, f"not YAML: {' '.join(str(error).split())[:200]}; save it as UTF-8 text")
    return node


def line_of(node: Node) -> int:
    """Where ``node`` begins, from 1."""
    return int(node.start_mark.line) + 1


def tag_of(node: Node) -> str:
    """``str``, ``int``, ``map``, …; the whole tag where it is none of YAML's own."""
    return str(node.tag).removeprefix(_TAG)
