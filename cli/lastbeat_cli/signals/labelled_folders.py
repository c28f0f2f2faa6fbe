"""Reads folders of labelled logs, and diagnoses each log with a catalogue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Final

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.scanning.splitting import Line, Splitter
from lastbeat.lab import by_repository, scoring
from lastbeat.lab.by_repository import SignalUse
from lastbeat.lab.scoring import Case, Diagnosis, LabelsError, Score, ScoredCase
from lastbeat.model.signal import Catalogue
from lastbeat.settings import SettingsError

INDEX: Final = "index.jsonl"
MOST_FAULTS: Final = 20
"""Most faults of one folder that are reported."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Most bytes read of one log, and of the index."""


@dataclass(frozen=True, slots=True)
class ScoredFolder:
    """A folder's labelled logs with their diagnoses."""

    path: Path
    """The folder's path, as given."""
    ours: Score
    naive: Score
    """The same logs by the first match of any signal."""
    contents: tuple[str, ...]
    """The digest of each row's log: logs with the same bytes are the same, whatever their names."""

    @property
    def name(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class AllFolders:
    """Several folders as one, each log once."""

    ours: Score
    naive: Score
    paths: tuple[Path, ...]
    """The path of each row's log."""
    twice: tuple[str, ...] = ()
    """A sentence for each folder whose logs were counted before, in whole or in part."""


class FolderScorer:
    """Diagnoses labelled logs with one catalogue. A log that occurs in several folders is diagnosed once."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._matcher = matcher_of(catalogue)
        self._known: dict[tuple[str, str], tuple[Diagnosis, Diagnosis]] = {}

    def score(self, folder: Path) -> ScoredFolder:
        """Score all logs listed in ``folder / index.jsonl``. Raises :class:`SettingsError` with every fault."""
        cases = _cases(folder, self._catalogue)
        said: list[tuple[str, Diagnosis, Diagnosis]] = []
        faults: list[str] = []
        for case in cases:
            text = _read(folder / case.file)
            if isinstance(text, bytes):
                said.append(self._say(case, text))
            else:
                faults.append(str(text))
        if faults:
            raise SettingsError(_few(faults))
        contents = tuple(content for content, _, _ in said)
        ours = Score([ScoredCase(case, each) for case, (_, each, _) in zip(cases, said, strict=True)])
        naive = Score([ScoredCase(case, each) for case, (_, _, each) in zip(cases, said, strict=True)])
        return ScoredFolder(folder, ours, naive, contents)

    def unseen(self, every: AllFolders) -> Score:
        """Score each log without the signals that only its repository needs, see :func:`by_repository.left_out`."""

        def ask(index: int, smaller: Catalogue) -> Diagnosis:
            text = _read(every.paths[index])
            if not isinstance(text, bytes):
                raise SettingsError([text])
            return scoring.diagnosis_of(explain_text(text, smaller, every.ours.rows[index].case.file))

        return by_repository.left_out(every.ours, self._catalogue, ask)

    def rules(self, every: AllFolders) -> list[SignalUse]:
        """The signals that revealed a cause, those of the fewest repositories first."""
        names: list[tuple[Case, set[str]]] = []
        for row, path in zip(every.ours.rows, every.paths, strict=True):
            text = _read(path)
            if not isinstance(text, bytes):
                raise SettingsError([text])
            found = {signal.name for line in _lines_of(text) for signal, _ in self._matcher.matches(line.text)}
            names.append((row.case, found))
        return by_repository.matched(by_repository.uses(every.ours), names)

    def _say(self, case: Case, text: bytes) -> tuple[str, Diagnosis, Diagnosis]:
        content = sha256(text).hexdigest()
        # A log's name may contain its rank, so it belongs to the key.
        key = (content, case.file)
        if key not in self._known:
            ours = scoring.diagnosis_of(explain_text(text, self._catalogue, case.file))
            self._known[key] = (ours, scoring.any_match(_lines_of(text), self._matcher))
        return (content, *self._known[key])


def without_repeats(given: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The folders without duplicates, links resolved, and a sentence for each duplicate."""
    first: dict[Path, Path] = {}
    said: list[str] = []
    for folder in given:
        try:
            real = folder.resolve()
        except (OSError, RuntimeError):
            # A cycle of links: reading the folder will report it.
            real = folder
        if real in first:
            said.append(
                f"{folder} is {first[real]}, and counts once" if folder != first[real] else f"{folder} counts once"
            )
        else:
            first[real] = folder
    return list(first.values()), list(dict.fromkeys(said))


def together(folders: Sequence[ScoredFolder]) -> AllFolders:
    """All folders as one. A log whose content occurs in several folders counts once, in the first."""
    before: dict[str, tuple[str, str]] = {}
    ours: list[ScoredCase] = []
    naive: list[ScoredCase] = []
    paths: list[Path] = []
    said: list[str] = []
    for folder in folders:
        again: dict[str, int] = {}
        relabelled: list[str] = []
        for ran, other, content in zip(folder.ours.rows, folder.naive.rows, folder.contents, strict=True):
            if content in before:
                name, label = before[content]
                again[name] = again.get(name, 0) + 1
                if label != ran.case.label:
                    relabelled.append(f"{ran.case.id} ({label} there, {ran.case.label} here)")
            else:
                ours.append(ran)
                naive.append(other)
                paths.append(folder.path / ran.case.file)
        said.extend(_counted_once(folder, again))
        if relabelled:
            said.append(
                f"{folder.name} labels some of them otherwise, which counts for nothing: {', '.join(relabelled)}"
            )
        for row, content in zip(folder.ours.rows, folder.contents, strict=True):
            before.setdefault(content, (folder.name, row.case.label))
    return AllFolders(Score(ours), Score(naive), tuple(paths), tuple(said))


def _counted_once(folder: ScoredFolder, again: dict[str, int]) -> Iterator[str]:
    for name, count in again.items():
        many = f"the {count} logs" if count == len(folder.contents) else f"{count} of the {len(folder.contents)} logs"
        yield f"{many} of {folder.name} are in {name} too, byte by byte, and count once"


def _cases(folder: Path, catalogue: Catalogue) -> list[Case]:
    index = folder / INDEX
    text = _read(index)
    if not isinstance(text, bytes):
        raise SettingsError([f"{text}; DIR needs {INDEX}, see lastbeat signals eval --help"])
    try:
        return scoring.read_index(text.decode("utf-8"), str(index), catalogue.error_types)
    except LabelsError as fault:
        raise SettingsError(_few(str(fault).splitlines())) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{index} is not UTF-8 text"]) from None


def _few(faults: Sequence[str]) -> list[str]:
    """The first of many faults, each once, and how many more there are."""
    told = list(dict.fromkeys(faults))
    more = len(told) - MOST_FAULTS
    return [*told[:MOST_FAULTS], f"and {more} more"] if more > 0 else told


def _read(path: Path) -> bytes | str:
    """The bytes of a file, or why there are none."""
    try:
        if not S_ISREG(path.stat().st_mode):
            # Reading a pipe without a writer would never end.
            return f"{path} is no file"
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as fault:
        return f"{path}: {fault.strerror}"
    except ValueError:
        return f"{str(path)!r} is no name that a file can have"


def _lines_of(text: bytes) -> Iterator[Line]:
    splitter = Splitter()
    for batch in (splitter.feed(text), splitter.finish()):
        yield from (batch.line(index) for index in range(len(batch)))
