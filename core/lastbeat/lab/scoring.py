"""Scores a catalogue on labelled logs, and a baseline that takes the first match of any of its patterns."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.explain.scanning.matching import Matcher
from lastbeat.explain.scanning.splitting import Line
from lastbeat.model.cause import Explanation

NONE: Final = "none"
"""The label of a healthy log."""
NEAR_LINES: Final = 2
"""Most lines between evidence and the labelled line that still show users the same place."""
_MOST_CASES: Final = 100_000
"""Most rows of an index."""
_MOST_SOURCE: Final = 500
"""Most characters of a source or framework."""


class LabelsError(ValueError):
    """Labels that cannot be used. The text names each fault with its line of the index."""


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled log."""

    id: str
    file: str
    label: str
    acceptable: tuple[str, ...] = ()
    """Other acceptable labels."""
    line: int | None = None
    """Line of the first evidence of the cause."""
    provenance: str = ""
    cascade: bool = False
    """Whether the log is full of consequences of the cause."""
    source: str = ""
    """Origin of the log: ``owner/name#12`` of a repository, or in words."""
    framework: str = ""

    @property
    def healthy(self) -> bool:
        return self.label == NONE


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of one log. ``error_type`` is None if no failure was found."""

    error_type: str | None
    line: int | None = None
    signal: str = ""
    """The signal that showed the cause; empty if none did."""
    confidence: float | None = None
    grounds: str = ""
    """The evidence behind the cause, see ``Explanation.grounds``."""


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A log and its diagnosis."""

    case: Case
    diagnosis: Diagnosis

    @property
    def answer(self) -> str:
        """The label of the diagnosis."""
        return self.diagnosis.error_type or NONE

    @property
    def right(self) -> bool:
        return self.answer == self.case.label

    @property
    def accepted(self) -> bool:
        return self.right or self.answer in self.case.acceptable

    @property
    def near(self) -> bool:
        """Whether the evidence is near the labelled line, with any error type."""
        line, expected = self.diagnosis.line, self.case.line
        return line is not None and expected is not None and abs(line - expected) <= NEAR_LINES


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Counts of some logs."""

    count: int
    right: int
    accepted: int
    near: int

    @classmethod
    def of(cls, scored: Iterable[ScoredCase]) -> "ScoreCounts":
        rows = list(scored)
        return cls(
            len(rows),
            sum(row.right for row in rows),
            sum(row.accepted for row in rows),
            sum(row.near for row in rows),
        )


@dataclass(frozen=True, slots=True)
class Score:
    """A catalogue's diagnoses of a whole corpus."""

    rows: Sequence[ScoredCase]

    @property
    def failures(self) -> list[ScoredCase]:
        return [row for row in self.rows if not row.case.healthy]

    @property
    def healthy(self) -> list[ScoredCase]:
        return [row for row in self.rows if row.case.healthy]

    @property
    def misread(self) -> list[ScoredCase]:
        """Healthy logs that were diagnosed as failed."""
        return [row for row in self.healthy if row.diagnosis.error_type is not None]

    def misread_by_provenance(self) -> dict[str, tuple[int, int]]:
        """Provenance → number of its healthy logs that were misread, and number of its healthy logs."""
        found: dict[str, tuple[int, int]] = {}
        for row in sorted(self.healthy, key=lambda row: row.case.provenance):
            misread, count = found.get(row.case.provenance, (0, 0))
            found[row.case.provenance] = (misread + (row.diagnosis.error_type is not None), count + 1)
        return {name or "unknown provenance": tally for name, tally in found.items()}

    @property
    def confusions(self) -> dict[tuple[str, str], list[str]]:
        """(expected, got) → the failures' ids, the most frequent first."""
        found: dict[tuple[str, str], list[str]] = {}
        for row in self.failures:
            if not row.accepted:
                found.setdefault((row.case.label, row.answer), []).append(row.case.id)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def groups(self) -> dict[str, ScoreCounts]:
        """Counts of the failures: by type, all together, by provenance, and with or without a cascade."""
        failures = self.failures
        groups = {label: [row for row in failures if row.case.label == label] for label in _labels(failures)}
        groups["all failures"] = failures
        for provenance in sorted({row.case.provenance for row in failures} - {""}):
            groups[provenance] = [row for row in failures if row.case.provenance == provenance]
        groups["cascades"] = [row for row in failures if row.case.cascade]
        groups["others"] = [row for row in failures if not row.case.cascade]
        return {name: ScoreCounts.of(rows) for name, rows in groups.items()}


def _labels(rows: Sequence[ScoredCase]) -> list[str]:
    return sorted({row.case.label for row in rows})


def diagnosis_of(explanation: Explanation) -> Diagnosis:
    """``explanation`` in the terms of a label."""
    cause = explanation.cause
    if cause is None:
        return Diagnosis(None)
    return Diagnosis(cause.error_type, cause.evidence.line, cause.signal, cause.confidence, explanation.grounds)


def any_match(lines: Iterable[Line], matcher: Matcher) -> Diagnosis:
    """The diagnosis of a simple monitor: the first line that any failure signal matches is the cause."""
    for line in lines:
        for signal, _ in matcher.matches(line.text):
            if signal.error_type is not None:
                return Diagnosis(signal.error_type, line.number)
    return Diagnosis(None)


def score(cases: Iterable[Case], ask: Callable[[Case], Diagnosis]) -> Score:
    """The score of ``ask``'s diagnoses of ``cases``."""
    return Score([ScoredCase(case, ask(case)) for case in cases])


def read_index(text: str, name: str, labels: Iterable[str]) -> list[Case]:
    """The cases of an ``index.jsonl``: one JSON object a line, with ``id``, ``file``, ``label`` and, for a failure,
    ``first_cause_lineno``; optional ``acceptable_labels``, ``provenance``, ``cascade``, ``source`` and ``framework``.
    Other keys are ignored.

    Raises :class:`LabelsError` with every fault; ``labels`` are the known error types.
    """
    known = {*labels, NONE}
    cases: list[Case] = []
    faults: list[str] = []
    for number, row in enumerate(text.splitlines()[:_MOST_CASES], start=1):
        if not row.strip():
            continue
        try:
            cases.append(_case(row, known))
        except LabelsError as fault:
            faults.append(f"{name}:{number}: {fault}")
    ids = Counter(case.id for case in cases)
    faults.extend(f"{name}: the id {each!r} is there {count} times" for each, count in ids.items() if count > 1)
    if not cases and not faults:
        faults.append(f"{name}: it has no rows; one JSON object a line")
    if faults:
        raise LabelsError("\n".join(faults))
    return cases


def _case(row: str, known: set[str]) -> Case:
    try:
        fields = json.loads(row)
    except (ValueError, RecursionError):
        raise LabelsError("it is not JSON; one object a line") from None
    if not isinstance(fields, dict):
        raise LabelsError("it is no JSON object")
    texts = {key: _text(fields, key) for key in ("id", "file", "label")}
    acceptable = fields.get("acceptable_labels") or []
    if not isinstance(acceptable, list):
        raise LabelsError("acceptable_labels is no list")
    for label in (texts["label"], *acceptable):
        if not isinstance(label, str) or label not in known:
            raise LabelsError(f"{label!r} is no error type; there are {', '.join(sorted(known))}")
    line = fields.get("first_cause_lineno")
    if line is not None and (isinstance(line, bool) or not isinstance(line, int) or line < 1):
        raise LabelsError("first_cause_lineno is no line number; lines count from 1")
    if line is None and texts["label"] != NONE:
        raise LabelsError("first_cause_lineno is missing: which line shows the cause?")
    return Case(
        **texts,
        acceptable=tuple(acceptable),
        line=line,
        provenance=str(fields.get("provenance") or ""),
        cascade=fields.get("cascade") is True,
        source=str(fields.get("source") or "")[:_MOST_SOURCE],
        framework=str(fields.get("framework") or "")[:_MOST_SOURCE],
    )


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise LabelsError(f"{key} is missing")
    return value
