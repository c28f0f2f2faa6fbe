"""The same patterns for programs that only say which lines match: ``grep -E -f`` and ripgrep."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lastbeat.explain.scanning import regex_tree
from lastbeat.explain.scanning.matching import compiled
from lastbeat.explain.scanning.prefilter import EACH_STEP
from lastbeat.model.signal import Signal

_NEWLINE = 1 << ord("\n")


def plain(signals: Sequence[Signal]) -> list[Signal]:
    """Signals whose patterns these programs take, and that match a line whether its prefixes are off or on."""
    return [
        signal
        for signal in signals
        if signal.kind not in EACH_STEP and all(_plain(node) for node in regex_tree.nodes(_tree(signal)))
    ]


def _plain(node: regex_tree.Node) -> bool:
    return not isinstance(node, regex_tree.BackReference) and not (
        isinstance(node, regex_tree.Assertion) and node.name != "AT_BOUNDARY"
    )


def _tree(signal: Signal) -> regex_tree.Node:
    return regex_tree.parse(compiled(signal).pattern, ignore_case=signal.ignore_case)


def grep(signals: Sequence[Signal], folder: Path) -> list[str]:
    """``grep -E -f`` without captures; its own syntax, in the C locale."""
    patterns = folder / "patterns.ere"
    patterns.write_text("\n".join(_written(_tree(signal)) for signal in plain(signals)) + "\n", encoding="latin-1")
    return ["grep", "-a", "-n", "-E", "-f", str(patterns)]


def ripgrep(signals: Sequence[Signal], folder: Path, program: Path) -> list[str]:
    patterns = folder / "patterns.rust"
    written = []
    for signal in plain(signals):
        pattern = re.sub(r"\(\?P<\w+>", "(?:", compiled(signal).pattern)
        # Python escapes a space and other characters that need it nowhere else.
        written.append(("(?i)" if signal.ignore_case else "") + re.sub(r"\\([ #&~'\"<>/:;=!@,`%_])", r"\1", pattern))
    patterns.write_text("\n".join(written) + "\n", encoding="utf-8")
    return [
        str(program),
        "--no-config",
        "-a",
        "-n",
        "--no-heading",
        "--color=never",
        "--no-unicode",
        "-f",
        str(patterns),
    ]


def run(command: Sequence[str], path: Path) -> tuple[float, list[int]]:
    """CPU seconds, and the numbers of the lines that match."""
    with subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}) as child:
        said = child.stdout.read() if child.stdout is not None else b""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in {0, 1}:
        raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, [int(line.partition(b":")[0]) for line in said.splitlines()]


def _written(node: regex_tree.Node) -> str:
    if isinstance(node, regex_tree.CharSet):
        return _set(node.mask)
    if isinstance(node, regex_tree.Concatenation):
        return "".join(map(_written, node.items))
    if isinstance(node, regex_tree.Alternation):
        return "(" + "|".join(map(_written, node.options)) + ")"
    if isinstance(node, regex_tree.Repeat):
        most = "" if node.most >= regex_tree.UNLIMITED else node.most
        inside = _written(node.item)
        return f"({inside}){{{node.least},{most}}}" if inside else ""
    return r"\b"


def _set(mask: int) -> str:
    negated = bool(mask & regex_tree.OTHER)
    listed = regex_tree.characters((regex_tree.EVERY & ~mask if negated else mask) & ~_NEWLINE)
    if negated and not listed:
        return "."
    if not negated and len(listed) == 1:
        return listed if listed.isalnum() or listed in " _:;,/'\"#%&=~@!<>`-" else f"\\{listed}"
    # In a bracket expression a backslash is one, and three characters have their places.
    inside = "".join(character for character in listed if character not in "]^-")
    first, last = "]" * ("]" in listed), "^" * ("^" in listed) + "-" * ("-" in listed)
    return f"[{'^' * negated}{first}{inside}{last}]"
