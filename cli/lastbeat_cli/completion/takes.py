"""Completions of option values and arguments, found by the metavar in the help, so that new commands get them too."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from lastbeat_cli.options import STATUSES
from lastbeat_cli.run.names import beginning_with

if TYPE_CHECKING:
    Item = CompletionItem[str]
else:
    Item = CompletionItem  # Generic in later versions of click only.
Items = Iterable[Item]


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
