"""Parses the lines of one file: what went wrong, and what training did after that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from lastbeat.causes import contexts, error_file
from lastbeat.causes.log_summary import LogSummary
from lastbeat.causes.mentions import ENOUGH_STEPS, Link, Mention, MentionWindow, fields_of, text_of
from lastbeat.causes.progress_counters import ProgressCounters, has_finite_loss
from lastbeat.causes.stack_dumps import StackDumpParser
from lastbeat.causes.tracebacks import OpenTraceback, TracebackParser
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form
from lastbeat.model.progress_lines import Progress
from lastbeat.model.signal import CONFIRMATION, Catalogue, Signal
from lastbeat.scanning.matching import Matcher, matcher_of
from lastbeat.scanning.splitting import Line

if TYPE_CHECKING:
    import re

StepLine = tuple[str, datetime | None]
"""A line that may show a step, and the time that it names."""
GRADIENT: Final = "gradient"
"""Subsystem of signals for gradients that are not finite: a single one is harmless."""
_JUST_ABOVE: Final = 2
_ATTENTIVE_LINES: Final = 300
"""So many lines after a report, every line is parsed."""
_RANKS_LIMIT: Final = 64
_LONG_AGO: Final = -(10**6)
_TEARDOWN_LINES: Final = 50
_ABOVE: Final = frozenset({"quiet", "announced", "restart"})
"""Kinds of lines that say something of what is printed below them."""
# What is printed after an end without showing that the program lives: the rest of messages, native frames, and the
# clean-up of launchers, schedulers and tools.
_AFTERMATH: Final = Pattern(
    r"\s|$|[-=*~^_#]{3,}|frame #\d|@ {1,20}0x|\*\*\* |Exception raised from|C\+\+ CapturedTraceback|Last error|"
    r"CUDA kernel errors might|For debugging consider|Compile with |Device-side assert|Set TORCH_LOGS|"
    r"You can suppress|Search for `|nccl\w{1,30}:|tensor\(|"
    r"\[?[IWEF]\d{3,4} \d\d:\d\d:\d\d\S{0,12} .{0,80}(?:torch/distributed|ProcessGroup|socket\.cpp|TCPStore|Utils\.cpp|"
    r"init\.cpp|Module\.cpp|CudaIPC|coordination|distributed_runtime)|"
    r"(?:srun|sbatch|salloc|slurmstepd|mpirun|mpiexec|prterun|torchrun|systemd\[\d{1,8}\]|wandb|make|time|real|user|"
    r"sys)\b[: \t]|"
    r"\S{1,80}:\d{1,8}:\d{1,8} \[\d{1,3}\] NCCL |(?:INFO|WARNING|ERROR):torch\.distributed|"
    r"/\S{1,200}\.py:\d{1,6}: \w{1,40}Warning|Sending process|Killing subprocess|\+ |##\[|Failures:|Root Cause|"
    r"\[\d{1,5}\]:|<N|File \"|Extension modules:"
)


@dataclass(slots=True)
class Meaning:
    """What all signals that match a line make of it together.

    A signal that tells what is wrong goes before one that tells that something ended, and that before one that knows
    no more than that this is an exception. Among equals the catalogue's order counts.
    """

    report: Signal | None = None
    """What the line reports, if it reports a failure."""
    match: "re.Match[str] | None" = None
    exception: bool = False
    """It looks like the last line of a traceback."""
    kinds: dict[str, Signal] = field(default_factory=dict)
    """What else it is: kind → signal."""
    found: dict[str, "re.Match[str]"] = field(default_factory=dict)
    """Kind → where in the line."""
    names: list[str] = field(default_factory=list)
    """All signals that match."""


def meaning_of(matcher: Matcher, text: str) -> Meaning:
    """What the line ``text``, without prefixes, means."""
    meaning = Meaning()
    best = 3
    for signal, match in matcher.matches(text):
        meaning.names.append(signal.name)
        if signal.kind == "exception":
            meaning.exception = True
            precedence = 2
        elif signal.kind is not None:
            if signal.kind not in meaning.kinds:
                meaning.kinds[signal.kind], meaning.found[signal.kind] = signal, match
            continue
        elif signal.role == CONFIRMATION:
            # A wrapper names the class of the exception that is printed below it, and is not that exception.
            precedence = -1 if signal.subsystem == "wrapper" else 1
        elif signal.error_type is not None:
            precedence = 0
        else:
            continue
        if precedence < best:
            best, meaning.report, meaning.match = precedence, signal, match
    return meaning


class Vocabulary(NamedTuple):
    """What a parser needs of a catalogue."""

    matcher: Matcher
    some_exception: Signal | None
    """For an exception whose class no signal knows."""
    awaited: frozenset[str]
    """Signals that absence rules wait for."""

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Vocabulary":
        general = (each for each in catalogue.signals if each.kind == "exception" and each.severity == "warning")
        awaited = frozenset(absence.signal for absence in catalogue.absences)
        return cls(matcher_of(catalogue), next(general, None), awaited)


@dataclass(eq=False, repr=False)
class ParserState:
    """All that a parser knows, for a later process to go on with. Bounded."""

    FORM: ClassVar = Form.SPARSE

    summary: LogSummary
    """Without steps, mentions and stacks, which are kept below."""
    order: int = 0
    """Of the line parsed last."""
    reported: int = -_ATTENTIVE_LINES
    """Order of the last mention that was kept."""
    raised: dict[str, int] = field(default_factory=dict)
    """Rank → order of its last exception, for what is chained to it."""
    links: dict[str, Link] = field(default_factory=dict)
    """Rank → how its next exception is chained to the last one."""
    headless: int = -1
    """Order of an exception whose message begins on the next line."""
    above: dict[str, int] = field(default_factory=dict)
    """Kind of :data:`_ABOVE` → number of its last line."""
    counters: ProgressCounters = field(default_factory=ProgressCounters)
    tracebacks: TracebackParser = field(default_factory=TracebackParser)
    stacks: StackDumpParser = field(default_factory=StackDumpParser)
    window: MentionWindow = field(default_factory=MentionWindow)

    def lines_since(self, kind: str, number: int) -> int:
        return number - self.above.get(kind, _LONG_AGO)

    def fork(self) -> "ParserState":
        """A copy for parsing lines of steps alone: what those change is copied, the rest shared."""
        return replace(
            self,
            summary=replace(self.summary, progress=replace(self.summary.progress)),
            counters=replace(self.counters),
            stacks=replace(self.stacks),
            window=replace(self.window, mentions=list(self.window.mentions)),
        )


class LogParser:
    """Takes the lines that are worth parsing, in their order."""

    def __init__(self, vocabulary: Vocabulary, state: ParserState) -> None:
        self.state = state
        self._vocabulary = vocabulary
        self._summary = state.summary
        self._tracebacks = state.tracebacks
        self._stacks = state.stacks
        self._window = state.window
        self._is_error_file = error_file.is_error(state.summary.file)

    def is_attentive(self, order: int) -> bool:
        """Whether the line ``order`` has to be parsed whatever it is: it may belong to something, or prove a report
        harmless."""
        if self._tracebacks.open or self._stacks.open or (self._is_error_file and order < error_file.MOST_LINES):
            return True
        if self._summary.nan is not None:
            # The line that shows a finite value again may be any.
            return True
        return bool(self._window.mentions) and order - self.state.reported < _ATTENTIVE_LINES

    def skipped(self, bytes_count: int) -> None:
        """Text was left out here."""
        self._tracebacks.open.clear()
        self._stacks.open = False
        self.state.headless = -1
        self.state.raised.clear()
        self.state.links.clear()
        self._summary.skipped_bytes += bytes_count

    def read_to(self, number: int) -> None:
        """Line ``number`` is the last so far."""
        self._summary.lines = number

    def summary(self, ahead: Sequence[StepLine] = ()) -> LogSummary:
        """What the file says so far, with the lines of steps ``ahead``, which are not parsed for good yet."""
        if ahead:
            parser = LogParser(self._vocabulary, self.state.fork())
            for text, time in ahead:
                parser.progressed(text, time)
            return parser.summary()
        window = self._window
        return replace(
            self._summary,
            steps=window.steps,
            mentions=[replace(mention) for mention in [*window.passed, *window.mentions]],
            stacks=list(self._stacks.found),
            progress=replace(self._summary.progress),
            last_seen=dict(self._summary.last_seen),
        )

    def progress(self, ahead: Sequence[StepLine] = ()) -> Progress:
        """Of :meth:`summary`."""
        progress = replace(self._summary.progress)
        for text, _ in ahead:
            progress.read(text)
        return progress

    def note_awaited(self, text: str, at: datetime | None) -> None:
        """A line of a step that is not parsed otherwise: an absence rule may wait for it."""
        if self._vocabulary.awaited:
            self._note_awaited(meaning_of(self._vocabulary.matcher, text), at)

    def _note_awaited(self, meaning: Meaning, at: datetime | None) -> None:
        if at is not None:
            for name in self._vocabulary.awaited.intersection(meaning.names):
                self._summary.last_seen[name] = at

    # What lines say.

    def line(self, order: int, line: Line, at: datetime | None) -> None:
        """Parse a line. ``order`` counts all lines of the file, each state of an overwritten one.

        1. A line of an open traceback belongs to it. Its last line is the exception, and a mention.
        2. A line of a stack dump belongs to that.
        3. Any other is matched against the signals, see :meth:`_plain`.
        """
        self.state.order = order
        self._note_time(line.time)
        rank = line.rank if line.rank is not None else self._summary.rank
        if self._tracebacks.open:
            found = self._tracebacks.read(rank, line.text)
            if found is True:
                return
            if isinstance(found, tuple):
                self._exception(line, rank, *found)
                return
        if not self._stacks.read(rank, line):
            self._plain(line, rank, at)

    def _plain(self, line: Line, rank: int | None, at: datetime | None) -> None:
        """A line by itself.

        1. Note what it says of lines below it: a traceback to ignore, one that is logged, a restart.
        2. The header of a traceback opens one. The sentence between two chained exceptions is kept for the second.
        3. Training is done, or restarts: whatever was reported before did not end it.
        4. A value that is not finite is counted; a report is kept as a mention; so are words in ``_error``. A retry
           weakens the reports just above it.
        5. After a report: note whether only a live program would print this.
        6. It may show that training got further.
        """
        state, text = self.state, line.text
        meaning = meaning_of(self._vocabulary.matcher, text)
        if self._vocabulary.awaited:
            self._note_awaited(meaning, at)
        kinds, report = meaning.kinds, meaning.report
        for kind in _ABOVE & kinds.keys():
            state.above[kind] = line.number
        if "traceback" in kinds and "\\n" not in text:
            quiet, logged = (state.lines_since(kind, line.number) for kind in ("quiet", "announced"))
            self._tracebacks.begin(rank, text, line.number, quiet=quiet <= _JUST_ABOVE, logged=logged == 1)
            state.headless = -1
            return
        if "chain" in kinds:
            if len(state.links) >= _RANKS_LIMIT:
                state.links.clear()
            state.links[str(rank)] = "cause" if kinds["chain"].name.endswith("cause") else "handling"
            return
        if "done" in kinds and report is None:
            self._advance(ENOUGH_STEPS)
            self._summary.success = self._mention(line, rank, kinds["done"], {})
        elif "restart" in kinds:
            self._advance(ENOUGH_STEPS)
            # Nor is it what ends the run if the next attempt dies without a word.
            self._window.passed.clear()
        if "nan" in kinds and (report is None or contexts.states_a_value(report, text)):
            self._not_finite(line, rank, meaning)
        elif report is not None and "advice" not in kinds and self._reports(line, rank, report, meaning):
            return
        elif (
            self._is_error_file
            and line.number <= error_file.MOST_LINES
            and (stated := error_file.signal_in(text)) is not None
        ):
            self._keep(self._mention(line, rank, stated, {}), stated)
            return
        elif self._window.mentions and contexts.retries(text):
            self._window.weaken_above(line.number)
        continues_exception = line.time is None and state.order - 1 in state.raised.values()
        if self._window.mentions and not continues_exception and not _AFTERMATH.match(text):
            self._summary.alive_line = line.number
        self.progressed(text, line.time)

    def _reports(self, line: Line, rank: int | None, report: Signal, meaning: Meaning) -> bool:
        """Whether the line reports what the signal means, as opposed to speaking of it. If so, it is kept."""
        match = meaning.match
        if match is None:
            return False
        sure = meaning.exception or self._is_error_file
        weight = contexts.weight_of(line.text, match.start(), match.end(), report, exception=sure)
        if weight == "none" or self._is_teardown(line, report):
            return False
        mention = self._mention(line, rank, report, fields_of(match.groupdict(), report.extract))
        mention.weak = weight == "weak" or ("retry" in meaning.kinds and report.role != CONFIRMATION)
        mention.raised = self._is_error_file
        mention.low = not sure and contexts.level_of(line.text) in {"info", "warning"}
        self._keep(mention, report)
        return True

    def _is_teardown(self, line: Line, report: Signal) -> bool:
        """Whether a launcher that has announced another attempt ends what is left of this one."""
        says_end_only = report.role == CONFIRMATION and not report.extract and not self._window.mentions
        return says_end_only and self.state.lines_since("restart", line.number) <= _TEARDOWN_LINES

    def _exception(self, line: Line, rank: int | None, traceback: OpenTraceback, body: str) -> None:
        """The last line of a traceback."""
        state = self.state
        meaning = meaning_of(self._vocabulary.matcher, body)
        report = meaning.report or self._vocabulary.some_exception
        if report is None:
            return
        groups = meaning.match.groupdict() if meaning.match is not None else {}
        mention = self._mention(line, rank, report, {**fields_of(groups, report.extract), "spoken": traceback.words})
        mention.raised, mention.weak = True, traceback.quiet
        # torch's hook for uncaught exceptions prints the rank before each line.
        mention.fatal = traceback.fatal or (not traceback.quiet and f"[rank{rank}]: " in line.raw)
        mention.low = traceback.logged and not mention.fatal
        mention.where, mention.site = traceback.place, traceback.site
        key = str(rank)
        link = state.links.pop(key, "")
        if link and key in state.raised:
            mention.link = link
            mention.after = state.raised[key]
        state.raised.pop(key, None)
        state.raised[key] = mention.order
        if len(state.raised) > _RANKS_LIMIT:
            del state.raised[next(iter(state.raised))]
        self._keep(mention, report)
        _, colon, message = body.partition(":")
        if (report.kind == "exception" and colon and not message.strip()) or body.rstrip().endswith(" raised:"):
            state.headless = mention.order

    def _keep(self, mention: Mention, signal: Signal) -> None:
        headless, self.state.headless = self.state.headless, -1
        if headless >= 0 and mention.order == headless + 1 and signal.role != CONFIRMATION:
            # The message of an exception whose own line ends after its class.
            above = self._window.at(headless)
            if above is not None:
                above.signal, above.fields = mention.signal, {**above.fields, **mention.fields}
                return
        if self._window.add(mention):
            self.state.reported = mention.order

    def _mention(self, line: Line, rank: int | None, signal: Signal, extracted: Mapping[str, str]) -> Mention:
        return Mention(
            signal.name,
            line.number,
            self.state.order,
            text_of(line.raw),
            rank,
            line.host,
            line.time,
            self._window.steps,
            extracted,
        )

    # What training does.

    def progressed(self, text: str, time: datetime | None) -> None:
        """A line that may show that training got further."""
        self._note_time(time)
        summary = self._summary
        summary.progress.read(text)
        if summary.nan is not None and has_finite_loss(text):
            summary.nan = None
        if self.state.counters.read(text, again=bool(self._window.mentions)):
            summary.success = None
            summary.progress_time = time or summary.progress_time
            self._advance(1)

    def _note_time(self, time: datetime | None) -> None:
        last = self._summary.last_time
        if time is not None and (last is None or time > last):
            self._summary.last_time = time

    def _advance(self, steps: int) -> None:
        if self._window.advance(steps):
            self._stacks.found = []

    def _not_finite(self, line: Line, rank: int | None, meaning: Meaning) -> None:
        """One more value that is not finite, or the first since the last that was."""
        if _is_of_evaluation(line.text, meaning.found["nan"].start()):
            return
        summary, signal = self._summary, meaning.kinds["nan"]
        if summary.nan is None:
            summary.nan = self._mention(line, rank, meaning.report or signal, {"value": "nan"})
            summary.nan.weak = signal.subsystem == GRADIENT
        else:
            summary.nan = replace(summary.nan, count=summary.nan.count + 1)


def _is_of_evaluation(text: str, start: int) -> bool:
    """Whether the value at ``start`` is one of an evaluation, where anything goes."""
    before = text[max(0, start - 12) : start + 1].lower()
    return any(word in before for word in ("val", "eval", "test"))
