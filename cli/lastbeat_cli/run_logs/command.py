"""``logs``: the stored output of a run."""

from typing import Final

import click

from lastbeat.explain.scanning import matching
from lastbeat.explain.signals import pattern_checks
from lastbeat.model.signal import Signal
from lastbeat.settings import opening
from lastbeat_cli import exits, options, values
from lastbeat_cli.run import one_run
from lastbeat_cli.run_logs import showing
from lastbeat_cli.run_logs.files import LogSelection
from lastbeat_cli.run_logs.printing import Grep, Printer

MOST_LINES: Final = 1_000_000
LINES: Final = 40
LEAST_INTERVAL_S: Final = 0.1
WHICH: Final = "Which lines"
FILES: Final = "Which files"
EPILOG = """\
Without --file and --rank, prints the run's main log, logs/training_log_latest.txt, or the closest match. With several
files each line begins with its file's name.

-f follows until the run has succeeded or failed and its last lines are printed, as 'kubectl logs -f' does. A run that
is only silent may come back, so -f waits for it until Ctrl-C. Rotated, rewritten and windowed logs are followed, and so
are log files that appear later. -F continues after the end of the run, as 'tail -F' does, and follows the next attempt.

Exit status:
  0  the lines were printed, even if there were none
  3  there is no such run or log, or the log cannot be read; also wrong settings or arguments
  141  the reader closed the pipe, as head does

Examples:
  lastbeat logs mistral-20250804-171621 -f
  lastbeat logs mistral-20250804-171621 --grep 'loss (nan|inf)' -i -n 5
  lastbeat logs mistral-20250804-171621 --rank 0 --rank 7 -n 100
"""


@click.command("logs", cls=options.Grouped, epilog=EPILOG)
@one_run.argument
@options.option("-n --lines N|all", f"Number of last lines [{LINES}; all with --grep].", WHICH)
@options.option("-f --follow", "Print new lines, too, until the run is over.", WHICH)
@options.option("-F", "As -f, but continue after the run is over.", WHICH, name="follow_on")
@options.option("--grep RE", "Only lines that match this regular expression.", WHICH)
@options.option("-i --ignore-case", "--grep ignores upper and lower case.", WHICH)
@options.option("--interval SECONDS", "Time between two reads while following [2].", WHICH, default="2")
@options.option("--file NAME", "A log by its name, also with * and ?; repeatable.", FILES, name="named", multiple=True)
@options.option("--rank N", "The logs of this rank; repeatable.", FILES, multiple=True)
@options.option("--list", "List the files, the newest first.", FILES, name="listing")
@options.place
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    run: str,
    lines: str | None,
    follow: bool,
    follow_on: bool,
    grep: str | None,
    ignore_case: bool,
    interval: str,
    named: tuple[str, ...],
    rank: tuple[str, ...],
    listing: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Print the end of a run's log, without terminal escapes and with secrets masked."""
    faults: list[str] = []
    most = _most(lines, faults, whole=grep is not None)
    interval_s = values.interval(interval, faults, least=LEAST_INTERVAL_S)
    looked_for = _grep(grep, faults, ignore_case=ignore_case)
    choice = LogSelection(named, tuple(values.count("--rank", each, faults, 999_999) for each in rank))
    settings = one_run.read(run, given, faults)
    store = opening.store(settings)
    asked = showing.Asked(settings, store, run, choice)
    printer = Printer(as_json=as_json, grep=looked_for)
    if listing:
        showing.list_files(asked, as_json=as_json)
    elif follow or follow_on:
        showing.follow(asked, printer, most, interval_s, ends=not follow_on)
    else:
        showing.show(asked.meant(), printer, most)
    printer.flush()
    return exits.OK


def _most(text: str | None, faults: list[str], *, whole: bool) -> int | None:
    if text is None:
        return None if whole else LINES
    if text.lower() == "all":
        return None
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST_LINES:
        return int(text)
    faults.append(
        f"--lines={text[:40]!r} is neither a whole number up to {MOST_LINES:,} nor 'all'; use for example -n 100"
    )
    return None


def _grep(pattern: str | None, faults: list[str], *, ignore_case: bool) -> Grep | None:
    if pattern is None:
        if ignore_case:
            faults.append("--ignore-case says something of --grep, which is missing")
        return None
    wrong = pattern_checks.faults(pattern, ignore_case=ignore_case)
    if wrong:
        faults.extend(f"--grep: {each}" for each in wrong)
        return None
    return Grep(matching.compiled(Signal("", pattern, ignore_case=ignore_case)))
