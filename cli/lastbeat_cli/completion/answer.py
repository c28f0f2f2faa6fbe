"""The completions of a command line, in answer to a shell.

It runs in the user's prompt, so it is fast and silent: any error yields no completions.
"""

import os
import sys
from typing import Final

from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from lastbeat_cli.commands import SYNONYMS, meant
from lastbeat_cli.completion.takes import Item, teach
from lastbeat_cli.lazy_group import LazyGroup

ASKED = "_LASTBEAT_COMPLETE"
_LINE, _BREAKS = "_LASTBEAT_LINE", "_LASTBEAT_BREAKS"
_LONGEST: Final = 10_000
_QUOTES: Final = "\"'\\"


def answer(group: LazyGroup) -> int:
    """Print the completions of the line in the environment, and exit."""
    told: list[str] = []
    try:
        told = lines(os.environ.get(_LINE, "")[:_LONGEST], os.environ.get(_BREAKS, ""), group)
        sys.stdout.write("".join(f"{each}\n" for each in told))
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - a traceback would disturb the prompt
        told = []
    # Exit at once, without waiting for threads that hang in a store.
    os._exit(0)


def lines(line: str, breaks: str, group: LazyGroup) -> list[str]:
    """The answer for ``line``, the text before the cursor. The shell breaks words at the characters in ``breaks``."""
    words = split_arg_string(line)
    if not line or line[-1].isspace():
        words.append("")
    *before, typed = words[1:] or [""]
    cut = _broken_off(line, typed, breaks)
    return [_line(item, cut) for item in _items(group, before, typed)]


def _items(group: LazyGroup, before: list[str], typed: str) -> list[Item]:
    if before[:1] == ["help"]:
        before = before[1:]
    if not before:
        return _commands(typed, group)
    if before == ["restart"]:
        # A run may stand where restart has commands.
        return [*_more(group, before, typed), *_more(group, ["restart", "resume"], typed)]
    return _more(group, meant(before), typed)


def _commands(typed: str, group: LazyGroup) -> list[Item]:
    """The commands that begin with ``typed``, else the other words for commands; none of them is imported."""
    if typed.startswith("-"):
        return [CompletionItem(each) for each in ("--all", "--help", "--version") if each.startswith(typed)]
    found = [CompletionItem(name, help=each.what) for name, each in group.entries.items() if name.startswith(typed)]
    return found or [
        CompletionItem(word, help=" ".join(words)) for word, words in SYNONYMS.items() if word.startswith(typed)
    ]


def _more(group: LazyGroup, before: list[str], typed: str) -> list[Item]:
    teach(group, before)
    return ShellComplete(group, {}, "lastbeat", ASKED).get_completions(before, typed)


def _broken_off(line: str, typed: str, breaks: str) -> int:
    """The number of typed characters that the shell does not want repeated."""
    value = typed.partition("=")[2] if typed.startswith("-") else typed
    last = line[len(line.rstrip()) :] or line.rsplit(maxsplit=1)[-1]
    if any(quote in last for quote in _QUOTES):
        return 0
    return 1 + max((value.rfind(char) for char in breaks if not char.isspace()), default=-1)


def _line(item: Item, cut: int) -> str:
    if item.type not in {"plain", "nospace"}:
        return str(item.type)
    meaning = " ".join((item.help or "").split())
    return f"{item.type}\t{item.value[cut:]}" + (f"\t{meaning}" if meaning else "")
