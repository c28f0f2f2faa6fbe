"""Completions of option values and arguments, found by the metavar in the help, so that new commands get them too.

Run ids are read from the store within a time limit, without any error message.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from lastbeat import settings as configuration
from lastbeat.model.runid import is_run_id
from lastbeat.settings import opening
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat_cli import options
from lastbeat_cli.options import STATUSES

if TYPE_CHECKING:
    Item = CompletionItem[str]
else:
    Item = CompletionItem  # Generic in later versions of click only.
Items = Iterable[Item]
LIMIT_S: Final = 1.0
"""Longest time, in seconds, to read the ids."""
MOST: Final = 2000
"""Most ids offered."""
_PAGE: Final = 1000
_SLASH_AND_ALL_BELOW: Final = "/\U0010ffff"


class _Taught(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in later versions only
    """A parameter type that only completes."""

    name = "text"

    def __init__(self, items: Callable[[click.Context, str], Items]) -> None:
        self._items = items

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's interface
        incomplete: str,
    ) -> list[Any]:
        return list(self._items(ctx, incomplete))


def teach(group: click.Group, words: list[str]) -> None:
    """Give completing types to the command that ``words`` name. Only for a process that exits afterwards."""
    command: click.Command | None = group
    for word in words:
        if not isinstance(command, click.Group):
            break
        if not word.startswith("-"):
            command = command.get_command(click.Context(command), word)
    for param in command.params if command is not None else ():
        taught = _by_name(param)
        if taught is not None:
            param.type = _Taught(taught)


def _by_name(param: click.Parameter) -> Callable[[click.Context, str], Items] | None:
    called = (param.metavar or "").strip("[].")
    if called == "ID" and param.name != "run_id":
        return None
    return _TAKES.get(called)


def _runs(ctx: click.Context, typed: str) -> Items:
    given = ctx.params.get(next((p.name for p in ctx.command.params if isinstance(p, click.Argument)), None) or "")
    named = set(given) if isinstance(given, tuple) else set()
    return [CompletionItem(name) for name in beginning_with(typed, ctx.params) if name not in named]


def _of_shell(kind: str) -> Callable[[click.Context, str], Items]:
    """What the shell completes by itself: ``file`` or ``dir``."""
    return lambda _, typed: [CompletionItem(typed, type=kind)]


_files: Final = _of_shell("file")
_folders: Final = _of_shell("dir")


def _files_and_runs(ctx: click.Context, typed: str) -> Items:
    # A word with a slash is a path, not a run id.
    return [*_files(ctx, typed), *(() if "/" in typed else _runs(ctx, typed))]


def _statuses(ctx: click.Context, typed: str) -> Items:  # noqa: ARG001 - all share one signature
    before, comma, last = typed.rpartition(",")
    named = before.upper().split(",")
    return [
        CompletionItem(f"{before}{comma}{status}")
        for status in STATUSES
        if status.startswith(last.upper()) and status not in named
    ]


_TAKES: Final[dict[str, Callable[[click.Context, str], Items]]] = {
    "RUN": _runs,
    "ID": _runs,
    "PATTERN": _runs,
    "FILE|DIR|RUN": _files_and_runs,
    "PATH": _files,
    "NAMES-OR-PATHS": _files,
    "-- COMMAND [ARG": _files,
    "-- JOB [ARG": _files,
    "DIR": _folders,
    "URL-OR-DIR": _folders,
    "NAMES": _statuses,
}


def beginning_with(typed: str, given: Mapping[str, Any], limit_s: float = LIMIT_S) -> list[str]:
    """Ids that begin with ``typed``, in the fleet that the options ``given`` or the settings name.

    Empty if the store does not list all of them in time: the user would take some of them for all.
    """
    until = time.monotonic() + limit_s
    # An error message would disturb the prompt.
    return call_with_timeout(lambda: _list_names(typed, given, until), limit_s, [])


def _list_names(typed: str, given: Mapping[str, Any], until: float) -> list[str]:
    texts = {name: text for name, text in given.items() if isinstance(text, str)}
    settings = configuration.load(options.arguments(texts))
    store = opening.store(settings)
    if typed and not store.traits.local:
        names: Iterator[str] = from_bucket(store, typed, until)
    else:
        names = iter(store.folders())
    # As in every shell, hidden names are offered only after a typed dot.
    shown = (name for name in names if name.startswith(typed) and (typed or not name.startswith(".")))
    # A name that begins with a dash would be read as an option.
    return sorted({name for name in shown if is_run_id(name) and not name.startswith("-")})[:MOST]


def from_bucket(store: Any, typed: str, until: float) -> Iterator[str]:
    """The names that begin with ``typed``, without listing the names before them. Raises TimeoutError after
    ``until``."""
    # Right before the first key that begins with ``typed``.
    after = typed[:-1] + chr(ord(typed[-1]) - 1) + "\U0010ffff" if typed > "!" else ""
    count = 0
    while count < MOST:
        page = store.list("", start_after=after, limit=_PAGE)
        names = list(dict.fromkeys(entry.key.partition("/")[0] for entry in page.entries if "/" in entry.key))
        for name in names:
            if name.startswith(typed):
                count += 1
                yield name
            elif f"{name}/" > typed:
                return
        if not page.more or not page.entries:
            return
        if time.monotonic() > until:
            raise TimeoutError
        after = page.entries[-1].key.partition("/")[0] + _SLASH_AND_ALL_BELOW
