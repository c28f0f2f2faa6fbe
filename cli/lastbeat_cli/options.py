"""Options and help texts that commands share."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from lastbeat.model.setting import Setting
from lastbeat.model.times import parse_span
from lastbeat.settings import every_setting
from lastbeat.stores import registry
from lastbeat_cli import logs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

WHERE = "Where the runs are"
WHO = "Who gets alerts"
LOGS = "Logs"
HOW = "How"

STATUSES = (
    "RUNNING", "WARNING", "FAILED", "TIMED_OUT", "SUCCEEDED", "CANCELLED", "PREEMPTED", "UNKNOWN", "NO_HEARTBEAT",
)  # fmt: skip
"""The values of --status."""

_UNITS_S = {"interval": 1.0, "stale_minutes": 60.0, "time_margin": 1.0}
"""Options that are settings and spans → the unit of a bare number, in seconds."""
HELP = {"help_option_names": ["-h", "--help"]}
_UNLISTED = "Rarer options, and older names: docs/options.md."
"""The last line of a help that does not list all options."""


class Grouped(click.Command):
    """A command whose options are listed under headings; an option's heading is its ``group``."""

    def __init__(
        self,
        name: str | None = None,
        context_settings: Mapping[str, Any] | None = None,
        epilog: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(name, {**HELP, **(context_settings or {})}, epilog=as_written(epilog), **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as fault:
            # click leaves some faults without their command.
            fault.ctx = fault.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            row = option.get_help_record(ctx)
            # Some versions of click list every argument, without a help text.
            if row is not None and row[1]:
                groups.setdefault(getattr(option, "group", HOW), []).append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        if unlisted(self, ctx):
            formatter.write_paragraph()
            formatter.write_text(_UNLISTED)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        older = unlisted(self, ctx)
        return [each for each in super().shell_complete(ctx, incomplete) if each.value not in older]


def as_written(text: str | None) -> str | None:
    """``text`` with click's mark before each paragraph that has indented lines, so that it is not wrapped."""
    if text is None:
        return None
    return "\n\n".join(f"\b\n{part}" if "\n  " in part else part for part in text.split("\n\n"))


def listed(command: click.Command, ctx: click.Context) -> list[str]:
    """The names of the options that the help of ``command`` lists."""
    shown = [each for each in command.get_params(ctx) if isinstance(each, click.Option) and not each.hidden]
    return [name for each in shown for name in each.opts if name not in getattr(each, "also", ())]


def unlisted(command: click.Command, ctx: click.Context) -> set[str]:
    """The names of the options that ``command`` takes and its help does not list."""
    taken = {name for each in command.get_params(ctx) if isinstance(each, click.Option) for name in each.opts}
    return taken.difference(listed(command, ctx))


class Option(click.Option):
    """An option with a heading. It may have other names, which the help does not list."""

    def __init__(self, *args: Any, group: str = HOW, also: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.also = also

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        shown = copy(self)
        shown.opts = [name for name in self.opts if name not in self.also]
        return click.Option.get_help_record(shown, ctx)


def option(
    spelling: str, what: str, group: str = HOW, name: str | None = None, *, also: tuple[str, ...] = (), **more: Any
) -> Callable[[F], F]:
    """An option under the heading ``group``: ``option("-n --lines N", "Number of last lines.", WHICH)``.

    ``spelling`` is as in the help; without a value's name or a ``type`` it is a flag. The command gets it as ``name``,
    by default made of its spelling. ``also`` are other names, which the help does not list.
    """
    words = spelling.split()
    metavar = words.pop() if not words[-1].startswith("-") else None
    if metavar is None and "type" not in more:
        more["is_flag"] = True
    names = [*words, *also, *([name] if name is not None else [])]
    return click.option(*names, cls=Option, group=group, also=also, metavar=metavar, help=what, **more)


class DurationRange(click.FloatRange):
    """The type of an option that is a span, in seconds: ``30s``, ``5m``, or a bare number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = parse_span(value) if isinstance(value, str) else None
        return super().convert(value if found is None else found, param, ctx)


class Argument(click.Argument):
    """An argument that is listed with the options, by any version of click."""

    def __init__(self, *args: Any, group: str, row: tuple[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self._row = row

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002 - click's interface
        return self._row


def argument(name: str, metavar: str, what: str, *, group: str, shown: str = "", **more: Any) -> Callable[[F], F]:
    """An argument under the heading ``group``, where it is called ``shown``, by default as in ``metavar``.

    A ``metavar`` in brackets makes it optional, and one that ends in dots takes any number of words.
    """
    row = (shown or metavar.strip("[].") + "…" * metavar.endswith("..."), what)
    nargs, required = (-1 if metavar.endswith("...") else 1), not metavar.startswith("[")
    return click.argument(
        name, cls=Argument, group=group, row=row, metavar=metavar, nargs=nargs, required=required, **more
    )


def run(
    group: str, what: str = "The run: its folder's name below the fleet root.", older: str = "--run-id"
) -> Callable[[F], F]:
    """The run as RUN or by the option ``older``: the command gets ``run_id``, None without either."""

    def add(command: F) -> F:
        @wraps(command)
        def with_run(*, run: str | None, run_id: str | None, **rest: object) -> object:
            return command(run_id=one_run(run, run_id, older), **rest)

        word = argument("run", "[RUN]", what, group=group, shown="RUN, --run-id ID" if older == "--run-id" else "")
        return cast("F", word(click.option(older, "run_id", metavar="ID", hidden=True)(with_run)))

    return add


def fleet(group: str) -> Callable[[F], F]:
    """The fleet as ROOT: the command gets the root among its settings, as by ``--root``."""

    def add(command: F) -> F:
        @wraps(command)
        def with_root(*, place: str | None, **rest: Any) -> object:
            if place is not None and any(rest.get(each) for each in ("root", "bucket")):
                raise click.UsageError("ROOT and --root name two fleets; leave one of them out")
            return command(**rest if place is None else {**rest, "root": place})

        what = "The fleet: a directory, s3://…, gs://… or az://… [as set]."
        return cast("F", argument("place", "[ROOT]", what, group=group)(with_root))

    return add


def one_run(word: str | None, run_id: str | None, option: str = "--run-id") -> str | None:
    """The run that a word and ``option`` name. Raises :class:`click.UsageError` if they name two."""
    if word is not None and run_id is not None and word != run_id:
        raise click.UsageError(f"Got unexpected extra argument ({word[:80]}): {option} names the run {run_id[:80]!r}")
    return word if word is not None else run_id


def missing_run(ctx: click.Context | None = None) -> str:
    """What to say where the command lacks its run."""
    path = (ctx or click.get_current_context()).command_path
    return f"RUN is missing; use for example {path} my-run"


def stale_minutes(group: str = HOW) -> Callable[[F], F]:
    """The option for the age at which a heartbeat is stale."""
    return option("--stale-minutes N", "A heartbeat older than this is stale [10].", group)


def checkpoint_dir(group: str) -> Callable[[F], F]:
    """The option for the place of checkpoints."""
    return option("--checkpoint-dir PATH-OR-URL", "Where training saves its checkpoints.", group)


def _log_actions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not ctx.resilient_parsing:
        logs.verbose(on=wanted)


verbose = option(
    "-v --verbose", "Log each action to stderr, with tracebacks.", expose_value=False, callback=_log_actions
)
"""The option for a log of each action, which begins at once."""


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator that adds ``options`` in this order."""
    return lambda command: reduce(lambda made, add: add(made), reversed(options), command)


def hidden(*names: str) -> Callable[[F], F]:
    """Options that the help does not list. docs/options.md does."""
    return together(*(click.option(name, hidden=True) for name in names))


_root: Final = option("--root URL-OR-DIR", f"Fleet root: {registry.beginnings()}bucket/prefix, or a directory.", WHERE)
place: Final = together(_root, hidden("--bucket", "--region"))
"""The options that say where the runs are."""
whole_place: Final = together(
    _root,
    option("--bucket B", "S3 bucket; the prefix is MONITORING_PREFIX [training-runs].", WHERE),
    option("--region R", "AWS region of the bucket [us-east-1].", WHERE),
)
"""As :data:`place`; the help also lists the bucket."""
signals: Final = option("--signals NAMES-OR-PATHS", "Catalogues of signals to find in logs [default].", LOGS)
"""The option for signal catalogues."""
people: Final = together(
    option("--slack-webhook U", "Slack Incoming Webhook. Prefer SLACK_WEBHOOK_URL.", WHO),
    option("--sns-topic ARN", "SNS topic.", WHO),
)
"""The options for the recipients of alerts."""
form: Final = together(option("--json", "Print one JSON object on one line instead of text.", name="as_json"), verbose)
"""The options that every command has."""


def arguments(given: Mapping[str, str | None]) -> dict[str, str]:
    """The settings on the command line: name of the setting → text. ``given`` is keyed by click's option names."""
    rest = {name: in_unit(text, _UNITS_S.get(name)) for name, text in given.items() if text is not None}
    # An option that is not the core's or a store's belongs to a channel, or to the command alone.
    found = _taken(rest, every_setting(channels=False))
    return found | (_taken(rest, every_setting()) if rest else {})


def in_unit(text: str, unit_s: float | None) -> str:
    """A duration such as ``2h`` as a bare number of ``unit_s`` seconds; any other text, or without a unit, as it is."""
    length_s = parse_span(text, None) if unit_s is not None else None
    return text if unit_s is None or length_s is None else f"{length_s / unit_s!r}"


def _taken(given: dict[str, str], settings: Iterable[Setting[Any]]) -> dict[str, str]:
    """Move the options of ``settings`` out of ``given``, and return them by the settings' names."""
    options = {each.option.removeprefix("--").replace("-", "_"): each.name for each in settings if each.option}
    return {options[name]: given.pop(name) for name in list(given) if name in options}
