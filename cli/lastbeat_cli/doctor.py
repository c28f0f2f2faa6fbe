"""``doctor``: check that everything is set up for watching. Each check reports its finding and the remedy."""

import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone

import click

from lastbeat import settings as configuration
from lastbeat.alerts.port import Channel, DeliveryError, named
from lastbeat.model.check_result import CheckResult
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES
from lastbeat.model.limits import EVERY_RUN, limits_of
from lastbeat.model.route import ROUTES_FILE
from lastbeat.model.runid import METADATA, SWEEP_MARK, is_hardly_a_run
from lastbeat.model.text import counted
from lastbeat.settings import Settings, SettingsError, opening, table
from lastbeat.settings.channels import configured_channels
from lastbeat.stores import registry
from lastbeat.stores.port import DeniedError, Entry, Store, StoreError
from lastbeat.stores.selftest import honours_conditions
from lastbeat.views.heartbeats import read_told
from lastbeat.views.judging import limits_shown
from lastbeat.views.page.writing import KEY
from lastbeat.watch.observe.fleet import FleetListing
from lastbeat.watch.record import routes
from lastbeat.watch.record.limits import FleetLimits
from lastbeat.watch.record.limits_file import faults_of
from lastbeat_cli import exits, logs, options
from lastbeat_cli.document import tell_checks
from lastbeat_cli.routes.lines import absent

EPILOG = """\
Exit status:
  0  everything is fine
  1  watching works, but there are warnings
  2  something does not work
  3  wrong settings or arguments
"""
_BODY = b"lastbeat doctor\n"
_FAR_OFF_S = 30.0
"""A clock that differs by more than this many seconds from the store's is reported."""
_RUNS_S = 20.0
"""Longest time, in seconds, to check whether runs are readable."""
_MOST_RUNS = 10
"""Most unreadable runs that are named."""


@click.command("doctor", cls=options.Grouped, epilog=EPILOG)
@options.place
@options.people
@options.form
def command(*, as_json: bool, **given: str | None) -> int:
    """Check settings, credentials, the store, permissions and channels; one line each, with the remedy.

    Channels are checked without sending a message.
    """
    try:
        settings = configuration.load(options.arguments(given), watching=True)
    except SettingsError as wrong:
        tell_checks((CheckResult("settings", "fail", fault) for fault in wrong.faults), as_json=as_json)
        return exits.UNKNOWN
    # Misspelt settings are one of the checks.
    logs.follow(settings, tell=False)
    return tell_checks(checks(settings), as_json=as_json)


def checks(settings: Settings) -> Iterator[CheckResult]:
    """Yield the result of every check, as each is made. Reads, writes and deletes one key of its own."""
    yield CheckResult("settings", "ok", f"the fleet root is {opening.root_url(settings)}")
    for warning in (*settings.warnings, *settings.name_hints):
        yield CheckResult("settings", "warn", warning)
    yield from _store(settings)
    yield _state(settings)
    yield from _channels(settings)


def _store(settings: Settings) -> Iterator[CheckResult]:
    try:
        store = opening.store(settings)
        started = time.monotonic()
        page = store.list("", limit=1)
        took_ms = (time.monotonic() - started) * 1000
    except SettingsError as wrong:
        # Only the store can check these settings.
        yield CheckResult("settings", "fail", str(wrong))
        return
    except StoreError as fault:
        # Only a request shows whether credentials work.
        yield _failed("credentials" if isinstance(fault, DeniedError) else "store", fault)
        return
    yield CheckResult("credentials", "ok", _credentials(settings))
    what = "has entries" if page.entries else "is empty: no run has written there yet"
    yield CheckResult("store", "ok", f"{store.url} answered in {took_ms:.0f} ms and {what}")
    # A key that a bucket policy for */_watchdog.json allows, because watchers write nothing else. It is no run's key.
    key = "_watchdog/_watchdog.json"
    try:
        store.read(key, 1)
    except StoreError as fault:
        yield _failed("reading", fault)
    else:
        yield from _reading(store)
    yield from _writing(store, key)
    yield _clock(store)
    yield from _ignored_settings(store, settings)
    yield from _limits(store, settings)
    yield from _routes(store, settings)
    if minutes := settings[table.PAGE_MINUTES]:
        yield _page(store, minutes)


def _credentials(settings: Settings) -> str:
    kind = registry.of(settings.root)
    if kind.TRAITS.local:
        return "a directory needs none"
    which = kind.credentials(settings.values, settings.environ)
    return f"accepted, {which}" if which else "accepted"


def _reading(store: Store) -> Iterator[CheckResult]:
    """Check whether each run is readable. In a bucket, permission to read one file covers all."""
    if not store.traits.local:
        yield CheckResult("reading", "ok", "allowed")
        return

    until = time.monotonic() + _RUNS_S
    listing = FleetListing(store, until=until)
    seen, closed, apart = 0, dict[str, StoreError](), dict[str, StoreError]()
    try:
        for run in listing:
            why = run.fault or _unread(store, run.files.values())
            if why is None:
                seen += 1
            elif run.fault is not None and is_hardly_a_run(run.run_id):
                apart[run.run_id] = why
            else:
                closed[run.run_id] = why
            if time.monotonic() >= until:
                break
    except StoreError as broken:
        yield _failed("reading", broken)
        return
    if listing.own_fault is not None:
        closed[SWEEP_MARK.partition("/")[0]] = listing.own_fault
    for name, why in list(closed.items())[:_MOST_RUNS]:
        yield CheckResult("reading", "warn", f"{name}: {why}", why.advice)
    if len(closed) > _MOST_RUNS:
        yield CheckResult("reading", "warn", f"the same goes for {len(closed) - _MOST_RUNS} more")
    for name, why in list(apart.items())[:_MOST_RUNS]:
        yield CheckResult("reading", "ok", f"{name} is taken for no run: {why}")
    late = "" if listing.done else "; there was no time to try all"
    yield CheckResult("reading", "ok", f"allowed, of {counted(seen, 'run')}{late}")


def _ignored_settings(store: Store, settings: Settings) -> Iterator[CheckResult]:
    """Runs of the last day that ignore a setting, because its value is wrong on their machine."""

    beats: list[tuple[datetime, str, Entry]] = []
    try:
        since = store.clock() - timedelta(days=1)
        for run in FleetListing(store, until=time.monotonic() + _RUNS_S):
            beat = run.files.get(METADATA)
            if beat is not None and beat.fault is None and beat.modified > since:
                beats.append((beat.modified, run.run_id, beat))
        for _, run_id, beat in sorted(beats, key=lambda each: each[:2])[: -_MOST_RUNS - 1 : -1]:
            blob = store.read(beat.key, DOCUMENT_LIMIT_BYTES)
            told = read_told(blob, settings.redactor).ignored_settings if blob is not None else ()
            if told:
                yield CheckResult(
                    "runs", "warn", f"{run_id} ignores {', '.join(told)}", "correct that where its training starts"
                )
    except StoreError as fault:
        yield CheckResult("runs", "warn", f"cannot be read: {fault}", fault.advice)


def _unread(store: Store, files: Iterable[Entry]) -> StoreError | None:
    """Why one of a run's files cannot be read, or None if all can."""
    for entry in files:
        if entry.fault is not None:
            return entry.fault
        try:
            store.read(entry.key, 1)
        except StoreError as fault:
            return fault
    return None


def _writing(store: Store, key: str) -> Iterator[CheckResult]:
    try:
        version = store.write(key, _BODY)
    except DeniedError as fault:
        detail = f"{fault}; watching works, with its record in LASTBEAT_STATE_DIR on this machine alone"
        yield CheckResult("writing", "warn", detail, fault.advice)
        return
    except StoreError as fault:
        yield _failed("writing", fault)
        return
    yield CheckResult("writing", "ok", "allowed")
    try:
        if honours_conditions(store, key, _BODY, version):
            yield CheckResult("conditional writes", "ok", "honoured: any number of watchers may run at once")
        else:
            detail = "ignored: with more than one watcher an alert may go out twice"
            yield CheckResult("conditional writes", "warn", detail, "watch from one place, or use another store")
    except StoreError as fault:
        yield _failed("conditional writes", fault)
    finally:
        left = _remove(store, key)
    if left is not None:
        yield left


def _remove(store: Store, key: str) -> CheckResult | None:
    try:
        store.delete(key)
    except StoreError as fault:
        return CheckResult(
            "tidying up", "warn", f"{key} stays behind: {fault}", "remove it by hand; lastbeat itself deletes nothing"
        )
    return None


def _clock(store: Store) -> CheckResult:
    try:
        off_s = (store.clock() - datetime.now(timezone.utc)).total_seconds()
    except StoreError as fault:
        return _failed("clock", fault)
    if abs(off_s) <= _FAR_OFF_S:
        return CheckResult("clock", "ok", f"this machine and the store agree within {max(1.0, abs(off_s)):.0f} s")
    which = "behind" if off_s > 0 else "ahead of"
    detail = f"this machine is {abs(off_s):.0f} s {which} the store; ages are measured by the store's clock"
    return CheckResult("clock", "warn", detail, "switch on time synchronisation (NTP) here")


def _limits(store: Store, settings: Settings) -> Iterator[CheckResult]:
    """Report the limits for runs without their own. The file may have been edited by hand."""
    try:
        faults, strange = faults_of(store)
        entries = () if faults else FleetLimits(store).all()
    except StoreError as fault:
        advice = fault.advice or "make it readable"
        yield CheckResult("limits", "fail", str(fault), f"{advice}; until then no limit makes a run TIMED_OUT")
        return
    for fault_of_file in faults:
        remedy = "mend it by hand: lastbeat limits; until then no limit makes a run TIMED_OUT"
        yield CheckResult("limits", "fail", str(fault_of_file), remedy)
    for unknown in strange:
        yield CheckResult("limits", "warn", str(unknown), "mend it by hand, or upgrade lastbeat here")
    if not faults:
        policy = settings.policy.of_fleet(limits_of(EVERY_RUN, [each for each in entries if each.runs == EVERY_RUN]))
        told = ", ".join(each.text for each in limits_shown(policy, None))
        globs = [each.runs for each in entries if each.runs != EVERY_RUN]
        named = ", ".join(globs[:_MOST_RUNS]) + (", …" if len(globs) > _MOST_RUNS else "")
        more = f"; there are others for {named}" if globs else ""
        yield CheckResult("limits", "ok", f"{told}{more}")


def _page(store: Store, minutes: float) -> CheckResult:
    """Check whether passes write the page, as set: they may lack the permission."""

    try:
        mark, page = store.read(SWEEP_MARK, 1), store.read(KEY, 1)
    except StoreError as fault:
        return _failed("page", fault)
    if mark is None:
        return CheckResult("page", "ok", f"the first pass leaves it at {KEY}")
    remedy = (
        "the passes' reports say why in their notes; they need LASTBEAT_PAGE_MINUTES, and to be allowed to write it"
    )
    if page is None:
        return CheckResult("page", "warn", f"passes are made and leave no {KEY}", remedy)
    late_s = (mark.modified - page.modified).total_seconds()
    if late_s > 2 * 60 * minutes:
        return CheckResult(
            "page", "warn", f"passes are made, but {KEY} is {late_s / 60:.0f} min older than the last", remedy
        )
    return CheckResult("page", "ok", f"passes leave it at {KEY}")


def _state(settings: Settings) -> CheckResult:
    directory = settings.state_dir
    if directory is None:
        return CheckResult("state directory", "warn", "there is no home to put it", "set LASTBEAT_STATE_DIR")
    # It is created when needed. Until then the nearest existing folder counts.
    near = next(path for path in (directory, *directory.parents) if path.exists())
    if near.is_dir() and os.access(near, os.W_OK | os.X_OK):
        return CheckResult(
            "state directory", "ok", f"{directory} {'is' if near == directory else 'can be made'} writable"
        )
    remedy = "set LASTBEAT_STATE_DIR to a folder that you may write to"
    return CheckResult("state directory", "warn", f"{directory} cannot be written to", remedy)


def _routes(store: Store, settings: Settings) -> Iterator[CheckResult]:
    """Check the fleet's alert routes; yields nothing if it has none."""

    remedy = "until then every alert goes to every channel; see: lastbeat routes check"
    try:
        found = routes.look(store)
    except StoreError as fault:
        yield CheckResult("routes", "warn", f"{ROUTES_FILE} cannot be read: {fault}", fault.advice or remedy)
        return
    if found.fault is not None:
        yield CheckResult("routes", "warn", found.fault, remedy)
    if found.table is None:
        return
    missing = absent(found.table, configured_channels(settings))
    for note in missing:
        yield CheckResult("routes", "warn", note, "set it up, or correct the routes: lastbeat routes set FILE")
    if not missing:
        count = len(found.table.routes) - 1
        yield CheckResult("routes", "ok", f"{counted(count, 'route')} and the default hold")


def _channels(settings: Settings) -> Iterator[CheckResult]:
    found = configured_channels(settings)
    if not found:
        detail = "none is set up, so no alert is sent"
        yield CheckResult("channels", "warn", detail, "set for example SLACK_WEBHOOK_URL or SNS_TOPIC_ARN")
    yield from map(_channel, found)


def _channel(channel: Channel) -> CheckResult:
    try:
        return CheckResult("channel", "ok", channel.check())
    except DeliveryError as fault:
        return CheckResult("channel", "fail", named(channel.describe, fault.what), fault.advice)


def _failed(name: str, fault: StoreError) -> CheckResult:
    return CheckResult(name, "fail", str(fault), fault.advice)
