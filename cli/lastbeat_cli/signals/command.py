"""``signals``: list the signals that lastbeat finds in logs, and try your own."""

from importlib import import_module
from typing import cast

import click

from lastbeat import settings as configuration
from lastbeat.model.signal import Catalogue
from lastbeat.settings import SettingsError, catalogues, table
from lastbeat_cli import logs, options

WHICH = "Which signals"
# Subcommand → its module, the command's name in it, one sentence of help.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "list": ("lastbeat_cli.signals.listing", "listing", "List the signals of a catalogue, or the catalogues."),
    "show": ("lastbeat_cli.signals.listing", "show", "Show a signal, an error type or a catalogue."),
    "test": ("lastbeat_cli.signals.trying", "test", "Show which lines of a log each signal matches."),
    "check": ("lastbeat_cli.signals.trying", "check", "Check a catalogue file of your own."),
    "import": (
        "lastbeat_cli.signals.taking_over",
        "command",
        "Convert a Megatron launcher's log monitor and restart policy.",
    ),
    "eval": ("lastbeat_cli.signals.evaluation", "evaluate", "Score a catalogue on folders of labelled logs."),
}

which = options.option(
    "--signals",
    "given",
    metavar="NAMES-OR-PATHS",
    group=WHICH,
    help="Catalogues, comma separated, each on top of those before it [LASTBEAT_SIGNALS, else default].",
)


class _Commands(click.Group):
    """Lists every subcommand without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        return cast("click.Command", getattr(import_module(module), name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            ctx.fail(f"there is no command '{args[0]}'; there are: {', '.join(_COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, what) for name, (_, _, what) in _COMMANDS.items()])


@click.group(
    "signals", cls=_Commands, context_settings=options.HELP, no_args_is_help=False, invoke_without_command=True
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """The signals that lastbeat finds in logs: patterns, and the meaning of lines that match them.

    LASTBEAT_SIGNALS names the catalogue that watchers use: a built-in one, or a file of your own.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def catalogue(given: str | None) -> Catalogue:
    """The catalogue that ``--signals`` or else the setting names. Raises :class:`SettingsError` with all faults."""
    named = "--signals" if given is not None else "LASTBEAT_SIGNALS"
    if given is None:
        settings = configuration.load({})
        logs.follow(settings)
        given = settings[table.SIGNALS]
    try:
        return catalogues.catalogue(given or "")
    except ValueError as fault:
        raise SettingsError(str(fault).replace("LASTBEAT_SIGNALS: ", f"{named}: ").splitlines()) from None
