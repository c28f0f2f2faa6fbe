"""``silence``: send no alerts about some runs for a while."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from lastbeat.model.as_json import picked
from lastbeat.model.silence import LEAST_S, MOST_S, InvalidSilenceError, Silence, check_why
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, format_time
from lastbeat.settings import opening
from lastbeat.views.acting.silencing import SilenceWish, lift_silence, make_silence
from lastbeat.watch.record.silences import Silences
from lastbeat_cli import exits, options, values
from lastbeat_cli.author import author
from lastbeat_cli.document import tell

WHAT = "What to silence"
EPILOG = """\
Exit status:
  0  done
  3  not done because of an error; also wrong settings or arguments

Examples:
  lastbeat silence 'mistral-*' --for 2h
  lastbeat silence 'mistral-*' --for 2h --why 'moving to the new cluster'
  lastbeat silence --list
  lastbeat silence --remove 'mistral-*'
"""


@click.command("silence", cls=options.Grouped, epilog=EPILOG)
@options.argument("runs", "[PATTERN]", "Which runs to silence, quoted.", group=WHAT)
@options.option("--for DURATION", "Duration: 30m, 2h, 1d, 1h30m; at most 30d.", WHAT, name="duration")
@options.option(
    "--why TEXT", "A reason for others to read [none]; each run's record keeps it, too.", WHAT, also=("--reason",)
)
@options.option("--list", "List the silences in force.", WHAT, name="listed")
@options.option("--remove ID", "End a silence now, by its id or by its glob.", WHAT, name="lift", also=("--lift",))
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
    matches = {} if covered is None else {"matches": covered}
    document = {
        "silences": [picked(each, "id runs starts_at until why by") for each in silences],
        **matches,
        "notes": list(notes),
    }
    told = [f"{word}: {each.runs} until {_until(each, now)}, id {each.id}, by {each.author}" for each in silences]
    if covered:
        told.append(f"Covers {counted(covered, 'run')} now")
    # The glob may be mistyped, and then no run would be silenced.
    words = ["Note"] * (len(notes) - 1) + ["Warning" if covered == 0 else "Note"] * bool(notes)
    told += [f"{word}: {note}" for word, note in zip(words, notes, strict=True)]
    tell(document, told, as_json=as_json)


def _until(silence: Silence, now: datetime) -> str:
    return f"{format_time(silence.until.replace(microsecond=0))} ({format_duration(silence.until - now)} left)"
