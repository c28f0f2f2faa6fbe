"""docs/commands*.md, made from the commands themselves."""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from lastbeat_cli.main import lastbeat
from support.checkout import ROOT

PAGES = {
    "commands-report.md": ("to report a run", ("exec", "beat", "fail", "complete", "preempted")),
    "commands-watch.md": ("to watch runs", ("watch", "silence", "ack", "limits", "routes", "archive", "forget")),
    "commands-look.md": ("to look at runs", ("fleet", "show", "logs", "dashboard", "mcp")),
    "commands-explain.md": ("to understand a failure", ("explain", "signals", "report")),
    "commands-restart.md": ("to stop and restart runs", ("stop", "restart")),
    "commands-setup.md": ("to set lastbeat up", ("init", "check", "deploy", "completion")),
}
"""Page → what its commands are for, and these."""
_HEAD = """\
For people who look for an option. `lastbeat COMMAND --help` prints the same.

Every command takes `--help`; most take `--root` (the fleet root: `s3://`, `gs://` or `az://bucket/prefix`, or a
directory; else MONITORING_ROOT), `--json` and `--verbose`. Rarer options, and older names: [options.md](options.md).
"""
_COMMON = {"--help", "--json", "--root", "--verbose"}
"""Options that the first lines of a page explain, and that get no row."""


def written() -> dict[Path, str]:
    """Each page → its text."""
    return {ROOT / "docs" / name: "\n".join(_page(name)) for name in PAGES}


def _page(name: str) -> Iterator[str]:
    purpose, words = PAGES[name]
    others = [f"[{each}]({page})" for page, (each, _) in PAGES.items() if page != name]
    yield from (f"# Commands {purpose}", "", _HEAD, f"Commands {', '.join(others[:-1])} and {others[-1]}.", "")
    top = click.Context(lastbeat, info_name="lastbeat")
    for word in words:
        yield from _command(word, top)


def _command(word: str, above: click.Context) -> Iterator[str]:
    """What the help of a command says, and that of the commands below it."""
    assert isinstance(above.command, click.Group)
    command = above.command.get_command(above, word)
    assert command is not None
    context = click.Context(command, info_name=word, parent=above)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from _command(below, context)
        return
    usage = [each for each in command.collect_usage_pieces(context) if each != "[OPTIONS]"]
    yield from (f"## {context.command_path}", "")
    if usage:
        yield from (f"`{' '.join([context.command_path, *usage])}`", "")
    yield from (_plain(command.help or ""), "")
    rows = [_row(*shown) for each in command.get_params(context) if (shown := _shown(each, context))]
    if rows:
        yield from ("| option | what it does |", "|---|---|", *rows, "")


def _shown(option: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """The option and its sentence; None where it has no row of its own."""
    said = option.get_help_record(context) if _COMMON.isdisjoint(option.opts) else None
    return said if said and said[1] else None


def _row(option: str, sentence: str) -> str:
    return f"| `{_cell(option)}` | {_cell(sentence)} |"


def _plain(text: str) -> str:
    return "\n".join(line for line in cleandoc(text).splitlines() if line != "\b")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
