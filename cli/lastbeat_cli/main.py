"""``lastbeat``: the commands, each imported when it is called."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from lastbeat.model.version import __version__
from lastbeat_cli import frame
from lastbeat_cli.commands import COMMANDS, FIRST, SYNONYMS, meant
from lastbeat_cli.lazy_group import LazyGroup

_ASKED_BY_SHELL: Final = "_LASTBEAT_COMPLETE"
_ALL: Final = "lastbeat.all"
"""Key in click's context: whether the help lists every command."""
_EPILOG = """\
\b
'lastbeat help --all' lists every command, 'lastbeat COMMAND --help' its options.
Other words work, too: ls, ps, status (fleet), run (exec), tail (logs -f), ui
(dashboard), mute (silence), restart RUN. 'lastbeat init' sets everything up.
"""


class _Lastbeat(LazyGroup):
    """Its help lists what people need first, and every command with ``--all``."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_entries(formatter, COMMANDS if _ALL in ctx.meta else {name: COMMANDS[name] for name in FIRST})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if _ALL not in ctx.meta:
            super().format_epilog(ctx, formatter)


def _all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        print(ctx.get_help())
        ctx.exit()


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from lastbeat_cli.built import built  # noqa: PLC0415 - only for --version

        known = built().replace(" ", ", ")
        print(f"lastbeat {__version__}{known and f' ({known})'}")
        ctx.exit()


lastbeat: Final = _Lastbeat(
    "lastbeat",
    COMMANDS,
    also=("help", *SYNONYMS),
    help="Tells people that a long training run has died, why, and what to do next.",
    epilog=_EPILOG,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Version, commit and date.",
        ),
        click.Option(
            ["--all"], is_flag=True, is_eager=True, expose_value=False, callback=_all, help="List every command."
        ),
    ],
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The ``lastbeat`` command; returns its exit status."""
    if _ASKED_BY_SHELL in os.environ:
        from lastbeat_cli.completion.answer import answer  # noqa: PLC0415 - only for completion

        return answer(lastbeat)
    return frame.run(lastbeat, meant(sys.argv[1:] if arguments is None else arguments), "lastbeat")
