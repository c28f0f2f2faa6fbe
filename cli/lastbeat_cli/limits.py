"""``limits``: the time limits of this fleet's runs for silence, stalls and start-up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import click

from lastbeat.model.as_json import picked
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.limits import EVERY_RUN, FIXED, LEARNED, LIMITS, LimitEntry, limits_of
from lastbeat.model.policy import Policy
from lastbeat.model.runid import METADATA
from lastbeat.model.setting import number
from lastbeat.model.silence import is_pattern
from lastbeat.model.times import format_time
from lastbeat.settings import opening
from lastbeat.stores import run_names
from lastbeat.stores.port import Store, StoreError
from lastbeat.views.judging import in_force, limits_shown
from lastbeat.watch.record.limits import FleetLimits, check_minutes
from lastbeat.watch.record.limits_file import faults_of
from lastbeat_cli import exits, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell
from lastbeat_cli.learned_limits import show_learned

WHAT: Final = "Which runs"
WHICH: Final = "Which limits; 'default' takes one back"
LEARNED_LIMITS: Final = "What a run has learned (LASTBEAT_LEARN)"
DEFAULT: Final = "default"
_OFF: Final = "off"
EPILOG = """\
The limit for a run is the first of these that is set, for each kind of limit:
  1. the run's own: stale_minutes and stall_minutes in lastbeat.run or metadata.json
  2. the fleet's, kept here: the run's id outranks a glob, and a glob with more literal characters
     outranks one with fewer ('mistral-7b-*' before 'mistral-*' before '*')
  3. the watcher's settings: STALE_MINUTES, LASTBEAT_STALL_MINUTES, LASTBEAT_START_MINUTES

Exit status:
  0  the limits were shown or changed
  1  with --learned: no limit was learned yet
  3  not done because of an error or a damaged limits file; also wrong settings or arguments

Examples:
  lastbeat limits
  lastbeat limits --stale-minutes 20
  lastbeat limits 'mistral-*' --stale learned --stall-minutes 30
  lastbeat limits mistral-7b-3
  lastbeat limits 'mistral-*' --stall-minutes default
  lastbeat limits 'mistral-*' --remove
  lastbeat limits mistral-7b-3 --learned
"""


@click.command("limits", cls=options.Grouped, epilog=EPILOG)
@options.argument(
    "runs", "[PATTERN]", "Runs that the limits apply to, quoted; to set or clear limits: every run ['*'].", group=WHAT
)
@options.option("--stale-minutes N", "A longer silence is TIMED_OUT.", WHICH, name="stale_minutes")
@options.option("--stale HOW", "learned: sooner, if a run's usual heartbeats show that it has died; or fixed.", WHICH)
@options.option(
    "--stall-minutes N", "No new step for this long is a warning, for twice as long TIMED_OUT; off: not watched.", WHICH
)
@options.option("--start-minutes N", "Longest time to a run's first heartbeat.", WHICH)
@options.option(
    "--remove",
    "Remove the limits of exactly this PATTERN; with --learned what RUN has learned, so that it learns again.",
    WHICH,
    name="clear",
    also=("--clear", "--reset"),
)
@options.option("--remove-all", "Remove all limits, even damaged ones.", WHICH, name="clear_all", also=("--clear-all",))
@options.option("--learned", "Show the limits that RUN has learned from itself.", LEARNED_LIMITS)
@options.option("--apply", "With --learned: freeze them; print them as settings.", LEARNED_LIMITS, name="applies")
@options.place
@options.form
def command(  # noqa: PLR0913 - one for each option
    *,
    runs: str | None,
    stale_minutes: str | None,
    stale: str | None,
    stall_minutes: str | None,
    start_minutes: str | None,
    clear: bool,
    clear_all: bool,
    learned: bool,
    applies: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Show or set the limits of this fleet. They apply to its runs for every watcher, whatever its environment.

    Limits are kept beside the runs. They take effect in a sweep from its next listing, and in a watch of one run within
    15 minutes, or within one minute if a heartbeat is late.
    PATTERN must match the whole run id; upper and lower case differ. * is any text, ? one character, [abc] one of
    these.
    With the id of one run and nothing to set, shows the limits in force for that run and their sources.

    A run that is TIMED_OUT stays so until it beats or makes progress, even if its limit is raised.
    """
    faults: list[str] = []
    texts = {"stale_minutes": stale_minutes, "stall_minutes": stall_minutes, "start_minutes": start_minutes}
    wish = _wish(texts, stale, faults)
    if bool(wish) + clear + clear_all > 1:
        faults.append("ask for one thing: limits to set, or --remove, or --remove-all")
    if clear_all and runs is not None:
        faults.append("--remove-all is for all runs; to remove the limits of one PATTERN, use --remove")
    if applies and not learned:
        faults.append("--apply is of --learned; use for example lastbeat limits my-run --learned --apply")
    if learned:
        if wish or clear_all:
            faults.append("--learned shows, applies or removes what a run has learned; leave the other limits out")
        return show_learned(runs, given, faults, applies=applies, removes=clear, as_json=as_json)
    if runs is not None:
        values.check_globs([runs], faults)
    settings = values.settings(given, faults)
    store = opening.store(settings)
    limits = FleetLimits(store)
    if clear_all:
        limits.clear_all()
        _tell([], [f"the fleet's limits are removed: no run in {store.url} has any now"], as_json=as_json)
    elif clear:
        _clear(limits, runs or EVERY_RUN, store, as_json=as_json)
    elif wish:
        made = limits.change(runs or EVERY_RUN, lambda entry: _set(entry, wish, store.clock()))
        _tell([made], _missing(store, made), as_json=as_json)
    else:
        return _show(limits, store, runs, settings.policy, as_json=as_json)
    return exits.OK


def _wish(texts: dict[str, str | None], stale: str | None, faults: list[str]) -> dict[str, Any]:
    """The limits to change: name → new value, or None to remove the limit."""
    wish: dict[str, Any] = {}
    for name, text in texts.items():
        if text is None:
            continue
        option, zero = f"--{name.replace('_', '-')}", name != "stale_minutes"
        try:
            wish[name] = _minutes(option, text.strip(), name, zero=zero)
        except ValueError as why:
            like = "20, or default" if name != "stall_minutes" else "30, off, or default"
            faults.append(f"{option}={text[:40]!r} {why}; use for example {like}")
    if stale is not None and stale not in {LEARNED, FIXED, DEFAULT}:
        faults.append(
            f"--stale={stale[:40]!r} is not one of {LEARNED}, {FIXED} and {DEFAULT}; minutes: --stale-minutes 20"
        )
    elif stale is not None:
        wish["stale"] = None if stale == DEFAULT else stale
    return wish


def _minutes(option: str, text: str, name: str, *, zero: bool) -> float | None:
    if text == DEFAULT:
        return None
    if text == _OFF and name == "stall_minutes":
        return 0.0
    found = number("minutes", zero=zero)(options.in_unit(text, 60.0))
    try:
        return check_minutes(option, found, zero=zero)
    except ValueError:
        raise ValueError("is more than 30 days") from None


def _set(entry: LimitEntry, wish: dict[str, Any], now: datetime) -> LimitEntry:
    return replace(entry, **wish, by=author(), at=now.replace(microsecond=0))


def _missing(store: Store, made: LimitEntry) -> list[str]:
    """Notes on new limits: that a single run does not exist (perhaps a typo), or has no limits any more."""
    if made.says_nothing:
        return [f"{made.runs} has no limits of its own any more"]
    if is_pattern(made.runs):
        return []
    try:
        return (
            [] if store.list(f"{made.runs}/", limit=1).entries else [f"there is no run {made.runs} in {store.url} yet"]
        )
    except StoreError as fault:
        return [f"whether there is a run called {made.runs} could not be seen: {fault}"]


def _clear(limits: FleetLimits, runs: str, store: Store, *, as_json: bool) -> None:
    if limits.clear(runs) is None:
        raise StoreError(f"{store.url}/{LIMITS} has no limits of {runs[:80]!r}", "see what there is: lastbeat limits")
    left = limits.all()
    others = f"others are left, of {', '.join(entry.runs for entry in left)}" if left else "no others are left"
    _tell([], [f"the limits of {runs} are removed; {others}"], as_json=as_json)


def _show(limits: FleetLimits, store: Store, runs: str | None, policy: Policy, *, as_json: bool) -> int:
    """Show the fleet's limits, or the limits in force for one run. Raises :class:`StoreError` for a faulty file."""
    faults, strange = faults_of(store)
    if faults:
        told = "; ".join(map(str, faults))
        raise StoreError(
            f"{store.url}: {told}",
            "correct it by hand, or remove all limits: lastbeat limits --remove-all. Until then no limit makes a run "
            "TIMED_OUT, and passes say so",
        )
    entries = limits.all()
    notes = list(map(str, strange))
    if runs is not None and not is_pattern(runs):
        if not any(entry.runs == runs for entry in entries) and not store.list(f"{runs}/", limit=1).entries:
            raise run_names.unknown(store, runs)
        _tell_run(store, runs, policy.of_fleet(limits_of(runs, entries)), notes, as_json=as_json)
        return exits.OK
    shown = [entry for entry in entries if runs is None or entry.runs == runs]
    if not shown:
        of = f"no run in {store.url} has" if runs is None else f"{runs} has"
        notes.append(f"{of} limits of the fleet: the watcher's settings apply")
    _tell(shown, notes, here=policy, as_json=as_json)
    return exits.OK


def _tell_run(store: Store, run_id: str, policy: Policy, notes: list[str], *, as_json: bool) -> None:
    blob = store.read(f"{run_id}/{METADATA}", DOCUMENT_LIMIT_BYTES)
    beat = read_heartbeat(blob) if blob is not None else None
    if beat is None:
        notes = [*notes, f"there is no metadata.json of {run_id} in {store.url}, so it states no limits of its own"]
    elif beat.fault:
        notes = [*notes, f"metadata.json of {run_id} cannot be read, so its own limits are not known: {beat.fault}"]
    shown = list(limits_shown(in_force(policy, beat, None), beat))
    holds = [picked(each, "name limit_s source text") for each in shown]
    told = [f"{run_id}: {each.text}" for each in shown]
    document = {"run_id": run_id, "holds": holds, "notes": notes}
    tell(document, [*told, *(f"Note: {note}" for note in notes)], as_json=as_json)


def _tell(entries: Sequence[LimitEntry], notes: Sequence[str], *, here: Policy | None = None, as_json: bool) -> None:
    document: dict[str, Any] = {"limits": [_document(each) for each in entries]}
    told = [f"{entry.runs}: {_words(entry)}{_set_by(entry)}" for entry in entries if not entry.says_nothing]
    if here is not None:
        document["settings_here"] = {
            "stale_minutes": here.stale_s / 60,
            "stall_minutes": None if here.stall_s is None else here.stall_s / 60,
            "start_minutes": here.start_grace_s / 60,
        }
        limits = ", ".join(each.what for each in limits_shown(here, None))
        told.append(f"Settings here, for what is not said above: {limits}")
    tell({**document, "notes": notes}, [*told, *(f"Note: {note}" for note in notes)], as_json=as_json)


def _words(entry: LimitEntry) -> str:
    told = []
    if entry.stale_minutes is not None:
        told.append(f"stale after {entry.stale_minutes:g}m")
    if entry.stale is not None:
        told.append(
            {LEARNED: "sooner as their beats tell (learned)", FIXED: "no sooner (fixed)"}.get(entry.stale, entry.stale)
        )
    if entry.stall_minutes is not None:
        told.append(f"stalled after {entry.stall_minutes:g}m" if entry.stall_minutes else "no stall limit")
    if entry.start_minutes is not None:
        told.append(f"to begin within {entry.start_minutes:g}m")
    return ", ".join(told)


def _set_by(entry: LimitEntry) -> str:
    told = [f"set by {entry.by}"] if entry.by else []
    told += [f"at {format_time(entry.at)}"] if entry.at is not None else []
    return f" ({' '.join(told)})" if told else ""


def _document(entry: LimitEntry) -> dict[str, Any]:
    return {**picked(entry, "runs stale_minutes stall_minutes start_minutes stale at"), "by": entry.by or None}
