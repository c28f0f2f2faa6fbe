"""A group of commands, each imported when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from lastbeat.model.text import did_you_mean, near_names
from lastbeat_cli import options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """One command of a group."""

    place: str
    """Its module below ``lastbeat_cli``, and behind a colon its name there, ``command`` by default."""
    what: str
    """What it does, in one sentence."""
    heading: str = "Commands"
    """The heading under which the help lists it."""


class CommandGroup(click.Group):
    """Without a command it prints its help, and a mistyped command is compared with those that it has."""

    also: tuple[str, ...] = ()
    """Other words for its commands. The caller replaces them; a mistyped command is compared with them."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        super().__init__(
            name, context_settings=options.HELP, no_args_is_help=False, invoke_without_command=True, **more
        )

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is None:
            print(ctx.get_help())
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            near = did_you_mean(near_names(args[0], [*known, *self.also], cutoff=0.7))
            rest = "" if self.also else f"; there are: {', '.join(known)}"
            if "run" in known:
                rest += f". For a run: {ctx.command_path} run {args[0]}"
            ctx.fail(f"there is no command '{args[0]}'{(near and f'. {near}') or rest}")
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """Lists its commands by heading without importing any."""

    def __init__(self, name: str, entries: Mapping[str, CommandEntry], also: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(name, **more)
        self.entries = entries
        self.also = also

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        if cmd_name not in self.entries:
            return None
        module, _, name = self.entries[cmd_name].place.partition(":")
        return cast("click.Command", getattr(import_module(f"lastbeat_cli.{module}"), name or "command"))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        found = [
            CompletionItem(name, help=each.what) for name, each in self.entries.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        self.format_entries(formatter, self.entries)

    @staticmethod
    def format_entries(formatter: click.HelpFormatter, entries: Mapping[str, CommandEntry]) -> None:
        """Write ``entries`` under their headings."""
        for heading in dict.fromkeys(entry.heading for entry in entries.values()):
            with formatter.section(heading):
                formatter.write_dl([(name, entry.what) for name, entry in entries.items() if entry.heading == heading])
