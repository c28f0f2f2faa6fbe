"""``signals test`` and ``signals check``: try a catalogue on a log, and check a catalogue file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from lastbeat.explain.scanning.matching import Matcher, matcher_of
from lastbeat.explain.scanning.prefilter import Prefilter
from lastbeat.explain.scanning.splitting import Batch, Splitter
from lastbeat.explain.signals.hints import filled
from lastbeat.explain.signals.loading import is_path
from lastbeat.model.as_json import picked
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.signal import Catalogue, Signal
from lastbeat.model.text import counted, one_line
from lastbeat.settings import SettingsError
from lastbeat_cli import exits, options
from lastbeat_cli.document import tell
from lastbeat_cli.explain import log_sources
from lastbeat_cli.explain.log_bytes import UnreadableLogError
from lastbeat_cli.signals import command as signals
from lastbeat_cli.signals.listing import absence_rules, failure, meaning

SHOWN: Final = 3
MOST_SHOWN: Final = 1000
_TEXT: Final = 200
EPILOG_TEST = """\
Exit status:
  0  the log was read, whatever matched
  3  the log or a catalogue could not be read; also wrong settings or arguments

Examples:
  lastbeat signals test slurm-4711.out
  lastbeat signals test train.log --signals cluster.yaml --only licence_denied --most 100
  lastbeat signals test cluster.yaml          # a catalogue file: as 'signals check' does
"""
EPILOG_CHECK = """\
Exit status:
  0  the catalogue can be used
  3  the catalogue has faults
"""


@dataclass(slots=True)
class _Hits:
    """The lines that one signal matches."""

    signal: Signal
    count: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)
    hint: str = ""
    """The signal's hint, with values from the first matching line."""


@click.command("test", cls=options.Grouped, epilog=EPILOG_TEST)
@click.argument("file", metavar="PATH")
@signals.which
@options.option("--only NAME", "Only this signal.", signals.WHICH)
@options.option("--most N", f"Lines shown a signal [{SHOWN}].", type=click.IntRange(0, MOST_SHOWN), default=SHOWN)
@options.form
def test(*, file: str, given: str | None, only: str | None, most: int, as_json: bool) -> int:
    """Show which lines of the log PATH each signal matches; - is standard input.

    A matching line is not yet a cause: 'lastbeat explain PATH' weighs all of them.
    """
    if is_path(file) and file.endswith((".yaml", ".yml")):
        return _check(file, as_json=as_json)
    catalogue = signals.catalogue(given)
    wanted = [each for each in catalogue.signals if only in (None, each.name)]
    if not wanted:
        raise SettingsError([f"--only: {catalogue.name} has no signal {only!r}; see 'lastbeat signals list'"])
    try:
        source = log_sources.stdin() if file == log_sources.STDIN else log_sources.file(Path(file))
        notes: list[str] = []
        # A catalogue has one matcher for all its signals; a selection needs its own.
        matcher = matcher_of(catalogue) if only is None else Matcher(wanted)
        hits, count = _hits(source, matcher, most, notes)
    except FileNotFoundError:
        raise SettingsError([f"there is no file {file}"]) from None
    except UnreadableLogError as fault:
        raise SettingsError([f"{fault}{f'; {fault.advice}' if fault.advice else ''}"]) from None
    document, lines = _document(catalogue, file, count, hits, notes), _lines(catalogue, file, count, hits, notes)
    tell(document, map(mask_tokens, lines), as_json=as_json)
    return exits.OK


@click.command("check", cls=options.Grouped, epilog=EPILOG_CHECK)
@click.argument("file", metavar="PATH")
@options.form
def check(*, file: str, as_json: bool) -> int:
    """Check the catalogue PATH for use alone or in LASTBEAT_SIGNALS; every fault is listed."""
    return _check(file, as_json=as_json)


def _check(file: str, *, as_json: bool) -> int:
    found = signals.catalogue(file if is_path(file) else f"./{file}")
    # An absence rule with a pattern of its own creates a signal, which is not counted twice.
    rules = {each.name for each in found.absences if each.name == each.signal}
    named = [each for each in found.signals if each.name not in rules]
    own = [each.name for each in named if is_path(each.source)]
    document = {"file": file, "signals": len(named), "own": own, "absences": len(found.absences)}
    more = f", {absence_rules(found)}" if found.absences else ""
    can = f"{file} can be used: {counted(len(named), 'signal')}, {len(own)} of them its own{more}"
    tell(document, [can], as_json=as_json)
    return exits.OK


def _hits(source: log_sources.LogInput, matcher: Matcher, most: int, notes: list[str]) -> tuple[dict[str, _Hits], int]:
    """The hits of each signal, in the catalogue's order, and the number of lines."""
    hits = {signal.name: _Hits(signal) for signal in matcher.signals}
    splitter, prefilter, count = Splitter(), Prefilter(matcher), 0
    for data in source.chunks(notes.append):
        count = _look(splitter.feed(data), prefilter, matcher, hits, most) or count
    count = _look(splitter.finish(), prefilter, matcher, hits, most) or count
    return {name: hit for name, hit in hits.items() if hit.count}, count


def _look(batch: Batch, prefilter: Prefilter, matcher: Matcher, hits: dict[str, _Hits], most: int) -> int:
    """Add the hits in ``batch``. Returns the number of its last line."""
    # The prefilter keeps the lines of steps apart from others; here they count, too.
    wanted = {*prefilter.lines(batch), *prefilter.progress(batch, 0, len(batch))}
    for index in sorted(wanted):
        line = batch.line(index)
        for signal, found in matcher.matches(line.text):
            hit = hits[signal.name]
            hit.count += 1
            if hit.count == 1 and signal.hint:
                fields = {name: found[group] for name, group in signal.extract.items()}
                where = {"rank": line.rank, "host": line.host, "line": line.number}
                hit.hint = one_line(filled(signal.hint, {**where, **fields}))
            if len(hit.lines) < most:
                hit.lines.append((line.number, one_line(line.raw)[:_TEXT]))
    return batch.number(len(batch) - 1) if len(batch) else 0


def _document(
    catalogue: Catalogue, file: str, count: int, hits: dict[str, _Hits], notes: list[str]
) -> dict[str, object]:
    return {
        "catalogue": catalogue.name,
        "file": file,
        "lines": count,
        "signals": [
            {
                "name": name,
                **picked(hit.signal, "error_type kind severity role"),
                "count": hit.count,
                "matches": [{"line": number, "text": mask_tokens(text)} for number, text in hit.lines],
                "hint": mask_tokens(hit.hint) or None,
            }
            for name, hit in hits.items()
        ],
        "notes": [mask_tokens(note) for note in notes],
    }


def _lines(catalogue: Catalogue, file: str, count: int, hits: dict[str, _Hits], notes: list[str]) -> Iterator[str]:
    of = f"{len(hits)} of the {counted(len(catalogue.signals), 'signal')} of {catalogue.name}"
    yield f"{file}: {counted(count, 'line')}; {of} match"
    # Failures first, because the other signals have many hits.
    for hit in sorted(hits.values(), key=lambda each: not failure(each.signal)):
        signal = hit.signal
        words = [meaning(signal), signal.severity, *([signal.role] if failure(signal) else [])]
        yield ""
        yield f"{signal.name} ({', '.join(words)}): {counted(hit.count, 'line')}"
        yield from (f"  {number}: {text}" for number, text in hit.lines)
        if hit.hint:
            yield f"  Hint: {hit.hint}"
    for note in notes:
        yield f"Note: {note}"
