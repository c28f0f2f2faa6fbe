"""``signals``: list the signals that lastbeat finds in logs, and try your own."""

from lastbeat import settings as configuration
from lastbeat.model.signal import Catalogue
from lastbeat.settings import SettingsError, catalogues, table
from lastbeat_cli import logs, options
from lastbeat_cli.lazy_group import CommandEntry, LazyGroup

WHICH = "Which signals"
which = options.option(
    "--signals NAMES-OR-PATHS",
    "Catalogues, comma separated, each on top of those before it [LASTBEAT_SIGNALS, else default].",
    WHICH,
    name="given",
)

command = LazyGroup(
    "signals",
    {
        "list": CommandEntry("signals.listing:listing", "List the signals of a catalogue, or the catalogues."),
        "show": CommandEntry("signals.listing:show", "Show a signal, an error type or a catalogue."),
        "test": CommandEntry("signals.trying:test", "Show which lines of a log each signal matches."),
        "check": CommandEntry("signals.trying:check", "Check a catalogue file of your own."),
        "import": CommandEntry("signals.taking_over", "Convert a Megatron launcher's log monitor and restart policy."),
        "eval": CommandEntry("signals.evaluation:evaluate", "Score a catalogue on folders of labelled logs."),
    },
    help="""The signals that lastbeat finds in logs: patterns, and the meaning of lines that match them.

    LASTBEAT_SIGNALS names the catalogue that watchers use: a built-in one, or a file of your own.
    """,
)


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
