"""``signals list`` and ``signals show``: signals and their meaning."""

from collections.abc import Iterator, Mapping, Sequence

import click

from lastbeat.explain.signals import loading
from lastbeat.model.as_json import picked
from lastbeat.model.error_type import ErrorType
from lastbeat.model.signal import Absence, Catalogue, Signal
from lastbeat.model.text import counted, nearest
from lastbeat.settings import SettingsError
from lastbeat.views.lines import paint
from lastbeat_cli import exits, options
from lastbeat_cli.document import tell
from lastbeat_cli.signals import command as signals

ROWS = ("signal", "means", "severity", "role", "catalogue")
LIMITS = {"inactivity_s": "stall after", "inactivity_check_s": "checked every", "poll_s": "logs read every"}
EPILOG = """\
Exit status:
  0  the signals were printed
  3  there is no such signal; also a catalogue that cannot be used, wrong settings or arguments
"""


@click.command("list", cls=options.Grouped, epilog=EPILOG)
@signals.which
@options.option("--catalogues", "List the built-in catalogues instead.", signals.WHICH)
@options.form
def listing(*, given: str | None, catalogues: bool, as_json: bool) -> int:
    """List the signals of a catalogue. If several match a line, the first one counts."""
    if catalogues:
        found = {name: loading.description(name) for name in loading.names()}
        tell({"catalogues": found}, paint.columns(list(found.items())), as_json=as_json)
        return exits.OK
    catalogue = signals.catalogue(given)
    document = {"catalogue": catalogue.name, "signals": [signal_document(each) for each in catalogue.signals]}
    rows = [(s.name, meaning(s), s.severity, s.role if failure(s) else "-", s.source) for s in catalogue.signals]
    tell(document, [*_head(catalogue), "", *paint.columns([ROWS, *rows])], as_json=as_json)
    return exits.OK


@click.command("show", cls=options.Grouped, epilog=EPILOG)
@click.argument("name")
@signals.which
@options.form
def show(*, name: str, given: str | None, as_json: bool) -> int:
    """Show NAME: a signal, an absence rule, an error type, or a built-in catalogue."""
    catalogue = signals.catalogue(given)
    found = _named(catalogue, name)
    if not found:
        known = [*(each.name for each in catalogue.signals), *(each.name for each in catalogue.absences)]
        hint = nearest(name, [*known, *catalogue.error_types, *loading.names()])
        if _named(loading.load(loading.DEFAULT), name):
            hint = f"; {loading.DEFAULT} has it, so it was silenced or its catalogue is not extended"
        raise SettingsError([f"{name!r} is neither a signal nor an error type of {catalogue.name}{hint}"])
    lines = [line for number, (_, each) in enumerate(found.values()) for line in (*([""] if number else ()), *each)]
    tell({key: value for key, (value, _) in found.items()}, lines, as_json=as_json)
    return exits.OK


def _named(catalogue: Catalogue, name: str) -> dict[str, tuple[object, list[str]]]:
    """Everything with that name: kind → document, and lines for people."""
    found: dict[str, tuple[object, list[str]]] = {}
    for signal in catalogue.signals:
        if signal.name == name:
            found["signal"] = signal_document(signal), list(_signal(signal, catalogue))
    for absence in catalogue.absences:
        if absence.name == name:
            found["absence"] = absence_document(absence), list(_absence(absence))
    if name in catalogue.error_types:
        error_type = catalogue.error_types[name]
        theirs = [signal.name for signal in catalogue.signals if signal.error_type == name]
        facts = {**picked(error_type, "name restartable meaning hint"), "signals": theirs}
        found["error_type"] = facts, list(_type(error_type, theirs))
    if name in loading.names():
        built_in = loading.load(name)
        document = {
            "name": name,
            "description": loading.description(name),
            "extends": list(loading.extends(name)),
            "limits": {key: getattr(built_in, key) for key in LIMITS if getattr(built_in, key) is not None},
            "signals": [signal.name for signal in built_in.signals],
        }
        names = ", ".join(document["signals"])
        extends = ", ".join(loading.extends(name)) or "nothing"
        found["catalogue"] = document, [*_head(built_in), loading.description(name), f"Extends: {extends}", names]
    return found


def failure(signal: Signal) -> bool:
    """Whether the signal can be evidence of a failure."""
    return signal.kind is None


def meaning(signal: Signal) -> str:
    """The signal's error type, else its kind, else its verdict."""
    return signal.error_type or signal.kind or signal.verdict or "-"


def signal_document(signal: Signal) -> dict[str, object]:
    """A signal as a document."""
    return {
        **picked(signal, "name pattern substring ignore_case verdict kind error_type subsystem severity role envelope"),
        **picked(signal, "extract restartable"),
        "hint": signal.hint or None,
        "catalogue": signal.source,
    }


def absence_document(absence: Absence) -> dict[str, object]:
    """An absence rule as a document."""
    return picked(absence, "name signal within_s every_s hint")


def _signal(signal: Signal, catalogue: Catalogue) -> Iterator[str]:
    error_type = catalogue.error_types.get(signal.error_type or "")
    again = signal.restartable if signal.restartable is not None else error_type.restartable if error_type else None
    facts: Mapping[str, object] = {
        "Signal": signal.name,
        "Catalogue": f"{signal.source}{'' if loading.is_path(signal.source) else '.yaml, built in'}",
        "Text" if signal.substring else "Pattern": signal.pattern + (" (in any case)" if signal.ignore_case else ""),
        "Error type": f"{error_type.name}: {error_type.meaning}" if error_type else None,
        "Kind": f"{signal.kind}, a line of a healthy run" if signal.kind else None,
        "Verdict": signal.verdict,
        "Subsystem": signal.subsystem,
        "Severity": signal.severity,
        "Role": signal.role if failure(signal) else None,
        "Envelope": "its details, in the line or right below it, are the cause" if signal.envelope else None,
        "Restart helps": _restart_helps(again) if failure(signal) else None,
        "Extracts": ", ".join(f"{field}" for field in signal.extract) or None,
        "Hint": signal.hint or (f"{error_type.hint} (the error type's)" if error_type else None),
    }
    yield from _facts(facts)


def _absence(absence: Absence) -> Iterator[str]:
    yield from _facts(
        {
            "Absence": absence.name,
            "Waits for": f"a line that {absence.signal} matches",
            "At the latest": f"{absence.within_s:g} s after the start, then every {absence.every_s:g} s",
            "Hint": absence.hint or None,
        }
    )


def _type(error_type: ErrorType, theirs: Sequence[str]) -> Iterator[str]:
    yield from _facts(
        {
            "Error type": error_type.name,
            "Meaning": error_type.meaning or None,
            "Restart helps": _restart_helps(error_type.restartable),
            "Hint": error_type.hint or None,
            "Signals": ", ".join(theirs) or "none",
        }
    )


def _restart_helps(restartable: bool | None) -> str:
    return {True: "yes, it may well", False: "no, not before something changed", None: "it depends"}[restartable]


def _facts(facts: Mapping[str, object]) -> Iterator[str]:
    width = max(map(len, facts))
    yield from (f"{key + ':':<{width + 1}} {value}" for key, value in facts.items() if value is not None)


def _head(catalogue: Catalogue) -> Iterator[str]:
    limits = [f"{word} {getattr(catalogue, key):g} s" for key, word in LIMITS.items() if getattr(catalogue, key)]
    rules = [absence_rules(catalogue)] if catalogue.absences else []
    yield f"Catalogue {catalogue.name}: {', '.join([counted(len(catalogue.signals), 'signal'), *rules, *limits])}"


def absence_rules(catalogue: Catalogue) -> str:
    """The number of absence rules, as text."""
    count = len(catalogue.absences)
    return counted(count, "absence rule")
