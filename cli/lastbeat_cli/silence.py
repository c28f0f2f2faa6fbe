"""``silence``: send no alerts about some runs for a while."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from lastbeat.model.silence import LEAST_S, MOST_S, InvalidSilenceError, Silence, check_why
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_duration, format_time
from lastbeat.settings import opening
from lastbeat.watch.record.silences import Silences
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import dump
from lastbeat_cli.silencing import SilenceWish, lift_silence, make_silence

WHAT = "What to silence"
EPILOG = """\
\b
Exit status:
  0  done
  3  not done because of an error; also wrong settings or arguments

\b
Examples:
  lastbeat silence 'mistral-*' --for 2h
  lastbeat silence 'mistral-*' --for 2h --why 'moving to the new cluster'
  lastbeat silence --list
  lastbeat silence --remove 'mistral-*'
"""


@click.command("silence", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "[PATTERN]", "Which runs to silence, quoted.", group=WHAT)
@options.option("--for", "duration", metavar="DURATION", group=WHAT, help="Duration: 30m, 2h, 1d, 1h30m; at most 30d.")
@options.option(
    "--why",
    also=("--reason",),
    metavar="TEXT",
    group=WHAT,
    help="A reason for others to read [none]; each run's record keeps it, too.",
)
@options.option("--list", "listed", is_flag=True, group=WHAT, help="List the silences in force.")
@options.option(
    "--remove", "lift", also=("--lift",), metavar="ID", group=WHAT, help="End a silence now, by its id or by its glob."
)
@options.place
@options.form
def command(
    *,
    runs: str | None,
    duration: str | None,
    why: str | None,
    listed: bool,
    lift: str | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Send no alerts about the runs that PATTERN matches, for a while.

    PATTERN matches whole run ids; upper and lower case differ. * is any text, ? one character, [abc] one of these.

    Transitions of these runs are still recorded, with the author of the silence and the reason if one was given. When
    the silence ends, nothing is sent about the time of the silence, not even that a run is still TIMED_OUT. Every
    watcher of this fleet root honours a silence at the latest a minute after it was made or lifted. Alerts that the
    watchdog itself is blind are always sent. Silencing a glob again extends its silence.
    """
    faults: list[str] = []
    wish: SilenceWish | None = None
    if (runs is not None) + listed + (lift is not None) != 1:
        faults.append("ask for one thing: PATTERN with --for, or --list, or --remove ID")
    elif runs is not None:
        wish = _wish(runs, duration, why, faults)
    elif (duration, why) != (None, None):
        faults.append("--for and --why belong to a PATTERN that is to be silenced")
    settings = values.settings(given, faults)
    store = opening.store(settings)
    now = store.clock()
    if wish is not None:
        made = make_silence(store, wish, author(), now)
        _tell((made.silence,), made.notes, "Silenced", now, as_json=as_json, covered=made.covered)
    elif lift is not None:
        _tell(lift_silence(store, lift.strip(), now), [], "Lifted", now, as_json=as_json)
    else:
        held = Silences(store).all(now)
        none = [] if held else [f"no run in {store.url} is silenced"]
        _tell(held, none, "Silenced", now, as_json=as_json)
    return exits.OK


def _wish(runs: str, duration: str | None, why: str | None, faults: list[str]) -> SilenceWish | None:
    """The wanted silence, or None. Adds what is wrong with it to ``faults``."""
    checked, length_s = "", 0.0
    values.check_globs([runs], faults)
    if duration is None:
        faults.append("--for is missing: how long? Use for example --for 2h")
    else:
        length_s = values.span(
            "--for", duration, faults, least_s=LEAST_S, most_s=MOST_S, like="30m, 2h or 1h30m", unit_s=None
        )
    try:
        checked = check_why(why or "")
    except InvalidSilenceError as fault:
        faults.append(str(fault))
    return None if faults else SilenceWish(runs, timedelta(seconds=length_s), checked)


def _tell(
    silences: Sequence[Silence],
    notes: Sequence[str],
    word: str,
    now: datetime,
    *,
    as_json: bool,
    covered: int | None = None,
) -> None:
    # Masked before escaping: otherwise a secret with a quote in it would not be recognized.
    if as_json:
        shown = [{key: logs.redact(text) for key, text in _document(each).items()} for each in silences]
        matches = {} if covered is None else {"matches": covered}
        print(dump({"silences": shown, **matches, "notes": list(map(logs.redact, notes))}))
        return
    for each in silences:
        until = f"{format_time(each.until.replace(microsecond=0))} ({format_duration(each.until - now)} left)"
        print(one_line(logs.redact(f"{word}: {each.runs} until {until}, id {each.id}, by {each.author}")))
    if covered:
        print(f"Covers {counted(covered, 'run')} now")
    for note in notes:
        # The glob may be mistyped, and then no run would be silenced.
        word = "Warning" if covered == 0 and note is notes[-1] else "Note"
        print(one_line(logs.redact(f"{word}: {note}")))


def _document(silence: Silence) -> dict[str, str]:
    return {
        "id": silence.id,
        "runs": silence.runs,
        "starts_at": format_time(silence.starts_at) or "",
        "until": format_time(silence.until) or "",
        "why": silence.why,
        "by": silence.by,
    }
