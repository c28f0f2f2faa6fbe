"""``explain``: why a run failed, read from its logs."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lastbeat import settings as configuration
from lastbeat.explain.causes import exit_codes
from lastbeat.explain.causes.fingerprint import fingerprint_of
from lastbeat.model import runid
from lastbeat.model.text import clean, did_you_mean, near_names
from lastbeat.settings import Settings, SettingsError, opening, table
from lastbeat.stores import registry
from lastbeat.stores.port import MissingStoreError, StoreError
from lastbeat.views.lines import paint
from lastbeat.watch.observe import local_dumps
from lastbeat_cli import exits, explain, logs, options
from lastbeat_cli.document import dump, enveloped
from lastbeat_cli.explain import log_sources, reading
from lastbeat_cli.explain.lines import story_lines
from lastbeat_cli.explain.log_bytes import UnreadableLogError
from lastbeat_cli.explain.log_sources import LogInput
from lastbeat_cli.explain.story import ExplainReport, story_document
from lastbeat_cli.signals.command import catalogue

if TYPE_CHECKING:
    from lastbeat.watch.observe.flight_recorders import DumpFile
    from lastbeat_cli.explain.run import RankFacts

WHAT = "What to explain"
EPILOG = """\
Exit status:
  0  everything was read, whether or not a cause was found
  3  something could not be read (the rest is explained anyway); also wrong arguments

Examples:
  lastbeat explain train.log
  lastbeat explain logs/rank*.log slurm-4711.out --exit-code 137
  kubectl logs job/train | lastbeat explain -
  lastbeat explain mistral-20250804 --root s3://my-bucket/training-runs
"""


@click.command("explain", cls=options.Grouped, epilog=EPILOG)
@options.argument(
    "named",
    "[FILE|DIR|RUN]...",
    "Logs (also .gz) and dumps of flight recorders, a directory of them, - for standard input, or a run's id.",
    group=WHAT,
)
@options.option(
    "--signals NAMES-OR-PATHS", "Catalogues of signals [LASTBEAT_SIGNALS, else default].", WHAT, name="given_signals"
)
@options.option("--exit-code N", "The run's exit code.", WHAT, type=click.IntRange(-255, 255))
@options.option("--scheduler-state WORD", "The job's state as the scheduler calls it: OUT_OF_MEMORY, TIMEOUT.", WHAT)
@options.place
@options.form
def command(
    *,
    named: tuple[str, ...],
    given_signals: str | None,
    exit_code: int | None,
    scheduler_state: str | None,
    as_json: bool,
    **given: str | None,
) -> int:
    """Say why a run failed, with the line that shows it, and what to do.

    Reads any log, of any size, without settings. Several files are taken as ranks of one run; a name such as rank3.log
    gives the rank. A name that is no file is taken as the id of a run below the fleet root.
    """
    if not named and not log_sources.is_piped_in():
        print(click.get_current_context().get_help(), file=sys.stderr)
        return exits.UNKNOWN
    settings, wrong = _settings(given)
    looking = _Looking(settings, wrong)
    sources = looking.sources(named)
    if scheduler_state and exit_codes.of_scheduler(scheduler_state) is None:
        looking.notes.append(f"the scheduler's state {scheduler_state[:40]!r} tells no cause")
    story = reading.story(
        sources,
        catalogue(looking.signals(given_signals)),
        mask,
        looking.faults,
        looking.notes,
        end=reading.StatedEnd(exit_code, scheduler_state),
        neighbours=not as_json,
        ranks=looking.ranks(),
        dumps=looking.dumps,
    )
    for fault in looking.faults:
        print(mask(f"Error: {fault}" + (f"\n{fault.advice}" if fault.advice else "")), file=sys.stderr)
    if story is not None or as_json:
        _show(None if story is None else looking.compared(story), looking.faults, as_json=as_json)
    return exits.UNKNOWN if looking.faults else exits.OK


def mask(text: str) -> str:
    """``text`` without terminal escapes and secrets."""
    return logs.masked(clean(text))


def _settings(given: Mapping[str, str | None]) -> tuple[Settings | None, SettingsError | None]:
    """The settings, or the error in them: a log can be explained without settings."""
    try:
        settings = configuration.load(options.arguments(given))
    except SettingsError as wrong:
        return None, wrong
    logs.follow(settings)
    return settings, None


class _Looking:
    """Finds the logs that the user named, and collects faults and notes."""

    def __init__(self, settings: Settings | None, wrong: SettingsError | None) -> None:
        self.faults: list[UnreadableLogError] = []
        self.notes: list[str] = []
        self._settings = settings
        self._wrong = wrong
        self._run_id: str | None = None
        """The run that the user named; similar failures are looked up for it."""
        self._folder: Path | None = None
        """The folder that the user named."""
        self.dumps: list[DumpFile] = []
        """Flight recorders' dumps beside the logs."""

    def signals(self, given: str | None) -> str:
        """The value of ``--signals``, else of the setting."""
        if given is not None:
            return given
        if self._settings is not None:
            return self._settings[table.SIGNALS] or ""
        self.notes.append(
            "the settings are wrong, so LASTBEAT_SIGNALS was not looked at; lastbeat check setup says more"
        )
        return ""

    def sources(self, named: Sequence[str]) -> list[LogInput]:
        """Every log that the user named, without duplicates."""
        if not named:
            named = [log_sources.STDIN]
            if log_sources.is_awaited():
                what = "Waiting for a log on standard input, since none is named; 'lastbeat explain --help' says more."
                print(what, file=sys.stderr, flush=True)
        found: dict[str, LogInput] = {}
        for name in dict.fromkeys(named):
            found.update((source.name, source) for source in self._logs_of(name))
        return list(found.values())

    def _logs_of(self, name: str) -> list[LogInput]:
        try:
            return self._named(name)
        except UnreadableLogError as fault:
            self.faults.append(fault)
        except StoreError as fault:
            self.faults.append(UnreadableLogError(str(fault), fault.advice))
        except OSError as fault:
            # A folder without read permission, or a name that is too long for any file.
            self.faults.append(log_sources.unreadable(name[:200], fault))
        return []

    def _named(self, name: str) -> list[LogInput]:
        if name == log_sources.STDIN:
            return [log_sources.stdin()]
        if not name:
            # Path("") is the working directory: an unset variable must not explain another run.
            raise UnreadableLogError("the name of a log or a run is empty", "Name it, or use . for this directory.")
        path = Path(name)
        if path.is_dir():
            self._folder = path
            return log_sources.directory(path, self.notes.append, self._take_dumps)
        dump = local_dumps.named(path) if self._patterns else None
        if dump is not None:
            self.dumps.append(dump)
            return []
        try:
            return [log_sources.file(path)]
        except FileNotFoundError:
            return self._run(name)

    @property
    def _patterns(self) -> tuple[str, ...]:
        if self._settings is None:
            return table.FLIGHT_RECORDER.parse(table.FLIGHT_RECORDER.default or table.OFF)
        return self._settings[table.FLIGHT_RECORDER]

    def _take_dumps(self, folder: Path, names: Sequence[str]) -> bool:
        self.dumps += local_dumps.below(folder, names, self._patterns)
        return bool(self.dumps)

    def _run(self, name: str) -> list[LogInput]:
        if Path(name).is_symlink():
            raise UnreadableLogError(
                f"{name} is a link to {Path(name).readlink()}, which is not there", "Name the log itself."
            )
        near = near_names(Path(name).name, _names_beside(Path(name)), cutoff=0.75)
        beside = [Path(name).with_name(each) for each in near]
        advice = did_you_mean(beside) or "Check the path; --root says where runs are."
        if not runid.is_run_id(name):
            if registry.is_address(name):
                advice = f"A run is named by its id, and --root says where runs are: lastbeat explain RUN --root {name}"
            raise UnreadableLogError(f"there is no file {name}", advice)
        if self._settings is None:
            what = (
                f"there is no file {name}, and runs cannot be looked up because the settings are wrong: {self._wrong}"
            )
            raise UnreadableLogError(what, advice)
        where = opening.root_url(self._settings)
        try:
            found = explain.run.run_sources(self._settings, name, self.notes.append)
        except MissingStoreError:
            raise UnreadableLogError(f"there is no file {name}, nor a fleet root {where} with runs", advice) from None
        except StoreError as fault:
            what = f"there is no file {name}, and runs cannot be looked up: {fault}"
            raise UnreadableLogError(what, fault.advice) from None
        if not found:
            advice = did_you_mean(near_names(name, _runs_in(self._settings), cutoff=0.75)) or advice
            raise UnreadableLogError(f"there is no file {name}, and no run of that name in {where}", advice)
        self._run_id = name
        self.dumps += explain.run.run_dumps(self._settings, name, self.notes.append)
        return found

    def ranks(self) -> "RankFacts | None":
        """World size and hosts from the run's folder, or None if neither a run nor its folder was named."""
        if self._run_id is not None and self._settings is not None:
            return explain.run.RankFacts(opening.store(self._settings), self._run_id, mask)
        return None if self._folder is None else explain.run.RankFacts.of_folder(self._folder, mask)

    def compared(self, story: ExplainReport) -> ExplainReport:
        """``story`` with its fingerprint and, if the user named a run, with the fleet's last similar failure."""
        cause = story.explanation.cause
        if cause is None:
            return story
        story = replace(story, fingerprint=fingerprint_of(cause))
        if self._run_id is None or self._settings is None:
            return story
        similar = explain.run.similar_failure(self._settings, self._run_id, story.fingerprint)
        return story if similar is None else replace(story, similar=similar)


def _runs_in(settings: Settings) -> list[str]:
    """The runs if the fleet root is a directory; a bucket is not worth a listing here."""
    root = settings.root
    names = _names_beside(root.path / "-") if registry.of(root).TRAITS.local else []
    return [name for name in names if not name.startswith("_")]


def _names_beside(path: Path) -> list[str]:
    try:
        return [each.name for each, _ in zip(path.parent.iterdir(), range(10_000), strict=False)]
    except OSError:
        return []


def _show(story: ExplainReport | None, faults: Sequence[UnreadableLogError], *, as_json: bool) -> None:
    if as_json:
        errors = [(mask(str(fault)), mask(fault.advice)) for fault in faults]
        print(dump(enveloped({} if story is None else story_document(story, mask), errors)))
    elif story is not None:
        paint.show(story_lines(story, paint.width(sys.stdout), mask))
