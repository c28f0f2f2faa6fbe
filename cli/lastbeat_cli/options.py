"""Options and help texts that commands share."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import wraps
from typing import Any, TypeVar, cast

import click

from lastbeat.model.setting import Setting
from lastbeat.model.times import parse_span
from lastbeat.settings import every_setting

F = TypeVar("F", bound=Callable[..., Any])

WHERE = "Where the runs are"
WHO = "Who gets alerts"
REACH = "Where the jobs run"
LOGS = "Logs"
HOW = "How"

STATUSES = (
    "RUNNING", "WARNING", "FAILED", "TIMED_OUT", "SUCCEEDED", "CANCELLED", "PREEMPTED", "UNKNOWN", "NO_HEARTBEAT",
)  # fmt: skip
"""The values of --status."""

_UNITS_S = {"interval": 1.0, "stale_minutes": 60.0, "time_margin": 1.0}
"""Options that are settings and spans → the unit of a bare number, in seconds."""
HELP = {"help_option_names": ["-h", "--help"]}


class Grouped(click.Command):
    """A command whose options are listed under headings; an option's heading is its ``group``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            row = option.get_help_record(ctx)
            if row is not None:
                groups.setdefault(getattr(option, "group", HOW), []).append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class Option(click.Option):
    """An option with a heading. It may have other names, which the help does not list."""

    def __init__(self, *args: Any, group: str = HOW, also: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self._also = also

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        shown = copy(self)
        shown.opts = [name for name in self.opts if name not in self._also]
        return click.Option.get_help_record(shown, ctx)


def option(*names: str, group: str = HOW, also: tuple[str, ...] = (), **more: Any) -> Callable[[F], F]:
    """An option under the heading ``group``. ``also`` are other names, which the help does not list."""
    return click.option(*names, *also, cls=Option, group=group, also=also, **more)


class DurationRange(click.FloatRange):
    """The type of an option that is a span, in seconds: ``30s``, ``5m``, or a bare number of seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = parse_span(value) if isinstance(value, str) else None
        return super().convert(value if found is None else found, param, ctx)


class Argument(click.Argument):
    """An argument that is listed with the options, by any version of click."""

    def __init__(self, *args: Any, group: str, listed: tuple[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self._listed = listed

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002 - click's interface
        return self._listed


def argument(name: str, *, group: str, listed: tuple[str, str], **more: Any) -> Callable[[F], F]:
    """An argument under the heading ``group``. ``listed`` is its name and its help text."""
    return click.argument(name, cls=Argument, group=group, listed=listed, **more)


def run(group: str, help_text: str = "The run: its folder's name below the fleet root.") -> Callable[[F], F]:
    """The run as RUN or as ``--run-id``: the command gets ``run_id``, None without either."""

    def add(command: F) -> F:
        @wraps(command)
        def with_run(*, run: str | None, run_id: str | None, **rest: object) -> object:
            return command(run_id=one_run(run, run_id), **rest)

        word = argument("run", required=False, metavar="[RUN]", group=group, listed=("RUN, --run-id ID", help_text))
        return cast("F", word(click.option("--run-id", metavar="ID", hidden=True)(with_run)))

    return add


def one_run(word: str | None, run_id: str | None) -> str | None:
    """The run that a word and ``--run-id`` name. Raises :class:`click.UsageError` if they name two."""
    if word is not None and run_id is not None and word != run_id:
        raise click.UsageError(f"Got unexpected extra argument ({word[:80]}): --run-id names the run {run_id[:80]!r}")
    return word if word is not None else run_id


def stale_minutes(group: str = HOW) -> Callable[[F], F]:
    """The option for the age at which a heartbeat is stale."""
    return option("--stale-minutes", metavar="N", group=group, help="A heartbeat older than this is stale [10].")


def checkpoint_dir(group: str) -> Callable[[F], F]:
    """The option for the place of checkpoints."""
    return option("--checkpoint-dir", metavar="PATH-OR-URL", group=group, help="Where training saves its checkpoints.")


verbose = option("-v", "--verbose", is_flag=True, help="Log each action to stderr, with tracebacks.")
"""The option for a log of each action."""
_PLACE = (
    option(
        "--root",
        metavar="URL-OR-DIR",
        group=WHERE,
        help="Fleet root: s3:// gs:// az://bucket/prefix, or a directory.",
    ),
    option("--bucket", metavar="B", group=WHERE, help="S3 bucket; the prefix is MONITORING_PREFIX [training-runs]."),
    option("--region", metavar="R", group=WHERE, help="AWS region of the bucket [us-east-1]."),
)
_SIGNALS = (
    option("--signals", metavar="NAMES-OR-PATHS", group=LOGS, help="Catalogues of signals to find in logs [default]."),
)
_PEOPLE = (
    option("--slack-webhook", metavar="U", group=WHO, help="Slack Incoming Webhook. Prefer SLACK_WEBHOOK_URL."),
    option("--sns-topic", metavar="ARN", group=WHO, help="SNS topic."),
)
_REACH = (
    option(
        "--ray-address",
        metavar="URL",
        group=REACH,
        help="ray: address of the dashboard, http://HOST:8265 [RAY_ADDRESS].",
    ),
    option("--head-pod", metavar="POD", group=REACH, help="ray-pod: the pod of the cluster's head."),
    option("--namespace", metavar="NS", group=REACH, help="ray-pod, kubernetes: the namespace [kubectl's own]."),
    option("--container", metavar="C", group=REACH, help="ray-pod: the container [the pod's first]."),
    option("--context", metavar="CTX", group=REACH, help="ray-pod, kubernetes: the context [kubectl's current one]."),
)
_FORM = (
    option("--json", "as_json", is_flag=True, help="Print one JSON object on one line instead of text."),
    verbose,
)


def place(command: F) -> F:
    """The options that say where the runs are."""
    return _apply(_PLACE, command)


def reach(command: F) -> F:
    """The options that say where a launcher's jobs are."""
    return _apply(_REACH, command)


def reached(given: Mapping[str, str | None]) -> tuple[str, ...]:
    """The given options of :func:`reach` in the form that launchers take: ``--head-pod=ray-head``."""
    names = ("ray_address", "head_pod", "namespace", "container", "context")
    return tuple(f"--{name.replace('_', '-')}={given[name]}" for name in names if given.get(name) is not None)


def people(command: F) -> F:
    """The options for the recipients of alerts."""
    return _apply(_PEOPLE, command)


def form(command: F) -> F:
    """The options that every command has."""
    return _apply(_FORM, command)


def signals(command: F) -> F:
    """The option for signal catalogues."""
    return _apply(_SIGNALS, command)


def _apply(options: tuple[Callable[[F], F], ...], command: F) -> F:
    for each in reversed(options):
        command = each(command)
    return command


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
