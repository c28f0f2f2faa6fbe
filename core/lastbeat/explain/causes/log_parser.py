"""Parses the lines of one file for failures, and for the progress of training after them."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Final, NamedTuple

from lastbeat.explain.causes import contexts, error_file, survivors
from lastbeat.explain.causes.attempts import AttemptMarks, Evidence, is_whole
from lastbeat.explain.causes.efa import NetworkLines
from lastbeat.explain.causes.envelopes import OpenEnvelope, OpenEnvelopes
from lastbeat.explain.causes.log_summary import MOST_NAMED, SHORT, LogSummary
from lastbeat.explain.causes.mentions import DETAIL, ENOUGH_STEPS, Link, Mention, MentionWindow, fields_of, text_of
from lastbeat.explain.causes.progress_counters import ProgressCounters, has_finite_loss
from lastbeat.explain.causes.stack_dumps import StackDumpParser
from lastbeat.explain.causes.tracebacks import HEADER, OpenTraceback, TracebackParser, is_frame
from lastbeat.explain.scanning.matching import Matcher, matcher_of
from lastbeat.explain.scanning.splitting import Line
from lastbeat.explain.signals.error_types import UNKNOWN, traits_of
from lastbeat.model.oom_kills import NONE_COUNTED
from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form
from lastbeat.model.progress_lines import Progress
from lastbeat.model.signal import CONFIRMATION, ROOT, Catalogue, Signal

StepLine = tuple[str, datetime | None]
"""A line that may show a step, and the time in it."""
GRADIENT: Final = "gradient"
"""Subsystem of signals for non-finite gradients, of which a single one is harmless."""
WARNING: Final = "warning"
"""Kind of a line that ends nothing but that users should see."""
_MOST_STATED: Final = 3
"""Most lines in other words that a summary keeps before the latest."""
_MOST_RESTARTED: Final = 8
"""Most mentions of workers that are restarted which a summary keeps."""
_MOST_WARNED: Final = 8
"""Most kinds of warnings that a summary keeps."""
NETWORK: Final = "network"
"""Kind of a line that names the network of NCCL's traffic, or an available one."""
PEER: Final = "peer"
"""Kind of a line in which a launcher names a process that failed."""
_JUST_ABOVE: Final = 2
"""Most lines between a line and the one above that explains it."""
_ATTENTIVE_LINES: Final = 300
"""Number of lines after a report that are all parsed."""
_MANY_GRADIENTS: Final = 3
"""Least number of non-finite gradients in a row, which a single finite loss does not end: the loss may be an average.
As many finite losses do."""
_ENOUGH_FINITE: Final = 20
"""Lines with other finite losses after which a non-finite value was unimportant."""
_RANKS_LIMIT: Final = 64
"""Most ranks whose last exception is kept."""
_LONG_AGO: Final = -(10**6)
"""Line number in place of a line that never came."""
_TEARDOWN_LINES: Final = 50
"""Most lines that a launcher prints about the old attempt after it has announced the next."""
_WARNING_LINES: Final = 6
"""Most lines of a Python warning, unless its line of code ends it before."""
_ABOVE: Final = frozenset({"quiet", "announced", "restart", "warned"})
"""Kinds of lines that affect the meaning of the lines below them."""
# Lines after an end that do not show a live program: the rest of messages, native frames, and the clean-up of
# launchers, schedulers and tools.
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
    # Traces of other languages, and advice below a message.
    r"[Ss]tack ?(?:trace|backtrace)\b|\[ Stack-Trace|\[CALL STACK\]|\[0x[0-9a-f]{4,16}\] |"
    r"(?:\d{1,3} {1,4})?\w{1,40}::[\w:~<>=]{1,120}\(|"
    r"\[bt\] |Caused by: |note: run with|goroutine \d|"
    r"(?:Please|If you|See|Hint|HINT|Try|To (?:fix|resolve|avoid)|For more|The current PyTorch install)\b|"
    # What a person writes below a paste.
    r"[A-Za-z][^|{}]{3,200}\?\s{0,4}$|(?:I(?:'m| am| have| had| was| tri| get| got| us| ran| run| think| want| found)|"
    r"My |We |Thank|Any |This (?:happens|occurs|error|issue|problem))|"
    r"\[\d{1,5}\]:|<N|File \"|Extension modules:|Stalled (?:ranks|ops)|(?:\d{1,6}: )?\[\w[\w./]{0,80}(?:, |\]$)"
)


@dataclass(slots=True)
class Meaning:
    """The combined meaning of all signals that match a line.

    The order of precedence is: a signal that names the fault, an envelope, a signal that only reports an end, and one
    that only recognises an exception. Among equals the catalogue's order counts.
    """

    report: Signal | None = None
    """The failure that the line reports, if any."""
    match: "re.Match[str] | None" = None
    exception: bool = False
    """Whether it looks like the last line of a traceback."""
    kinds: dict[str, Signal] = field(default_factory=dict)
    """Further kind of the line → signal."""
    found: dict[str, re.Match[str]] = field(default_factory=dict)
    """Kind → match in the line."""
    names: list[str] = field(default_factory=list)
    """Names of all matching signals."""


def meaning_of(matcher: Matcher, text: str) -> Meaning:
    """The meaning of the line ``text``, which has no prefixes."""
    meaning = Meaning()
    best = 4
    for signal, match in matcher.matches(text):
        meaning.names.append(signal.name)
        if signal.kind == "exception":
            meaning.exception = True
            precedence = 3
        elif signal.kind is not None:
            if signal.kind not in meaning.kinds:
                meaning.kinds[signal.kind], meaning.found[signal.kind] = signal, match
            continue
        elif signal.role == CONFIRMATION:
            # A wrapper names the class of the exception that is printed below it, but is not that exception.
            precedence = -1 if signal.envelope or signal.subsystem == "wrapper" else 2
        elif signal.error_type is not None:
            precedence = 1 if signal.envelope else 0
        else:
            continue
        if precedence < best:
            best, meaning.report, meaning.match = precedence, signal, match
    return meaning


class Vocabulary(NamedTuple):
    """The parts of a catalogue that a parser needs."""

    matcher: Matcher
    some_exception: Signal | None
    """Signal for exceptions whose class has no signal of its own."""
    awaited: frozenset[str]
    """Signals that absence rules wait for, or that a restart policy reacts to."""

    @classmethod
    def of(cls, catalogue: Catalogue) -> "Vocabulary":
        general = (each for each in catalogue.signals if each.kind == "exception" and each.severity == "warning")
        awaited = catalogue.noticed.union(absence.signal for absence in catalogue.absences)
        return cls(matcher_of(catalogue), next(general, None), awaited)


@dataclass(eq=False, repr=False)
class ParserState:
    """The state of a parser, from which a later process continues. Bounded."""

    FORM: ClassVar = Form.SPARSE

    summary: LogSummary
    """The summary without steps, mentions and stacks, which are kept below."""
    order: int = 0
    """Order of the last parsed line."""
    reported: int = -_ATTENTIVE_LINES
    """Order of the last mention that was kept."""
    ended: int = -_ATTENTIVE_LINES
    """Order of the last line that reported the end of the attempt."""
    raised: dict[str, int] = field(default_factory=dict)
    """Rank → order of its last exception, to which the next may be chained."""
    links: dict[str, Link] = field(default_factory=dict)
    """Rank → how its next exception is chained to the last one."""
    enclosing: int = _LONG_AGO
    """Number of the last line of an exception whose message may continue with another traceback."""
    headless: int = -1
    """Order of an exception whose message begins on the next line."""
    above: dict[str, int] = field(default_factory=dict)
    """Kind of :data:`_ABOVE` → number of its last line."""
    attempts: AttemptMarks = field(default_factory=AttemptMarks)
    finite: int = 0
    """Number of lines with a finite loss since the last non-finite value."""
    counters: ProgressCounters = field(default_factory=ProgressCounters)
    tracebacks: TracebackParser = field(default_factory=TracebackParser)
    envelopes: OpenEnvelopes = field(default_factory=OpenEnvelopes)
    stacks: StackDumpParser = field(default_factory=StackDumpParser)
    network: NetworkLines = field(default_factory=NetworkLines)
    window: MentionWindow = field(default_factory=MentionWindow)

    def lines_since(self, kind: str, number: int) -> int:
        return number - self.above.get(kind, _LONG_AGO)

    def fork(self) -> "ParserState":
        """A copy for parsing only lines of steps. State that such lines change is copied, the rest is shared."""
        return replace(
            self,
            summary=replace(self.summary, progress=replace(self.summary.progress)),
            counters=replace(self.counters),
            stacks=replace(self.stacks),
            attempts=replace(self.attempts),
            window=replace(self.window, mentions=list(self.window.mentions)),
        )


class LogParser:
    """Parses the relevant lines of a file, in order."""

    def __init__(self, vocabulary: Vocabulary, state: ParserState) -> None:
        self.state = state
        self._vocabulary = vocabulary
        self._summary = state.summary
        self._tracebacks = state.tracebacks
        self._stacks = state.stacks
        self._window = state.window
        self._is_error_file = error_file.is_error(state.summary.file)

    def is_attentive(self, order: int) -> bool:
        """Whether the line ``order`` has to be parsed in any case, because it may belong to an open report, or prove
        one harmless."""
        if self._tracebacks.open or self._stacks.open or (self._is_error_file and order < error_file.MOST_LINES):
            return True
        if order < SHORT or self.state.attempts.wants(order) or order - self.state.ended < _ATTENTIVE_LINES:
            return True
        if self._summary.nan is not None:
            # Any line may show a finite value again.
            return True
        return bool(self._window.mentions) and order - self.state.reported < _ATTENTIVE_LINES

    def skipped(self, bytes_count: int) -> None:
        """Note that ``bytes_count`` bytes of text are missing here."""
        self._tracebacks.open.clear()
        self._stacks.open = False
        self.state.envelopes.open.clear()
        self.state.headless = -1
        self.state.raised.clear()
        self.state.links.clear()
        self._summary.skipped_bytes += bytes_count

    def read_to(self, number: int) -> None:
        """Note that line ``number`` is the last so far."""
        self._summary.lines = number

    def summary(self, ahead: Sequence[StepLine] = ()) -> LogSummary:
        """The summary of the file so far, including the lines of steps ``ahead``, which are parsed only for this
        call."""
        if ahead:
            parser = LogParser(self._vocabulary, self.state.fork())
            for text, time in ahead:
                parser.progressed(text, time)
            return parser.summary()
        window = self._window
        return replace(
            self._summary,
            steps=window.steps,
            attempts=self.state.attempts.count,
            attempt_line=self.state.attempts.line,
            mentions=[replace(mention) for mention in [*window.passed, *window.mentions]],
            stacks=list(self._stacks.found),
            progress=replace(self._summary.progress),
            last_seen=dict(self._summary.last_seen),
            named=list(self._summary.named),
            warned=dict(self._summary.warned),
            restarted=list(self._summary.restarted),
            stated=list(self._summary.stated),
            cut=self._cut(),
        )

    def _cut(self) -> Mention | None:
        """The traceback in which the text ends so far. A notebook prints the class of the exception above it, too."""
        traceback = self._tracebacks.unfinished()
        if traceback is None:
            return None
        named = traceback.header.partition(HEADER)[0].strip()
        report = meaning_of(self._vocabulary.matcher, f"{named}:").report or error_file.OTHER
        cut = Line(traceback.line, traceback.header, traceback.header)
        return self._mention(cut, None, report, {})

    def progress(self, ahead: Sequence[StepLine] = ()) -> Progress:
        """The progress in :meth:`summary`."""
        progress = replace(self._summary.progress)
        for text, _ in ahead:
            progress.read(text)
        return progress

    def note_awaited(self, text: str, at: datetime | None) -> None:
        """Note awaited signals in a line of a step that is not parsed otherwise, for absence rules."""
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
        2. A line of a stack dump belongs to the dump.
        3. Any other line is matched against the signals, see :meth:`_plain`.
        """
        self.state.order = order
        self._note_time(line.time)
        if self._is_error_file and line.number == 1 and NONE_COUNTED in line.text:
            self._summary.no_oom_kill = True
        rank = line.rank if line.rank is not None else self._summary.rank
        if self._tracebacks.open:
            found = self._tracebacks.read(rank, line.text)
            if found is True:
                return
            if isinstance(found, tuple):
                self._exception(line, rank, *found, at)
                return
        if not self._stacks.read(rank, line):
            self._plain(line, rank, at)

    def _plain(self, line: Line, rank: int | None, at: datetime | None) -> None:
        """Parse a line by itself.

        1. A frame right below an envelope begins the traceback of its detail. One at the beginning of a file is of a
           traceback that was cut there.
        2. Note its effect on the lines below it: a traceback to ignore, a logged traceback, a restart.
        3. The header of a traceback opens one. The sentence between two chained exceptions is kept for the second.
        4. If training is done, or restarts, earlier reports did not end it.
        5. A non-finite value is counted. A report is kept as a mention, and so are words in ``_error``. A retry weakens
           the reports just above it.
        6. After a report, note whether only a live program would print this line.
        7. Note progress of training, if the line shows any.
        """
        state, text = self.state, line.text
        envelope = state.envelopes.around(rank, text)
        if envelope is not None and envelope.read == 1 and is_frame(text):
            self._tracebacks.begin(rank, HEADER, line.number, quiet=False, detail_of=envelope.order)
            self._tracebacks.read(rank, text)
            return
        if state.order <= SHORT and not self._window.mentions and is_frame(text):
            self._tracebacks.begin_at_frame(rank, text, line.number)
            return
        meaning = meaning_of(self._vocabulary.matcher, text)
        if self._vocabulary.awaited:
            self._note_awaited(meaning, at)
        kinds, report = meaning.kinds, meaning.report
        self._note_above(line, kinds.keys())
        if "traceback" in kinds and "\\n" not in text:
            if report is not None and meaning.match is not None and meaning.match.end() < text.find(HEADER):
                # Without line breaks between them, as behind a bar.
                self._reports(line, rank, report, meaning, envelope)
            self._begin_traceback(line, rank)
            return
        if "chain" in kinds:
            self._note_link(rank, "cause" if kinds["chain"].name.endswith("cause") else "handling")
            return
        self._note_named(meaning)
        self._note_warned(line, rank, meaning, at)
        self._note_network(line, rank, meaning)
        if "done" in kinds and report is None:
            self._has_begun_again(line.number, "own")
            self._advance(ENOUGH_STEPS)
            self._summary.success = self._mention(line, rank, kinds["done"], {})
            self._note_end(line.number, whole=True)
        elif "restart" in kinds:
            restarted = [*self._summary.restarted, *self._window.mentions][:_MOST_RESTARTED]
            self._advance(ENOUGH_STEPS)
            self._summary.restarted = [replace(each, steps=self._window.steps) for each in restarted]
            # Nor do they explain the end if the next attempt dies without a report.
            self._window.passed.clear()
        if "nan" in kinds and (report is None or contexts.states_a_value(report, text)):
            self._not_finite(line, rank, meaning)
        elif report is not None and "advice" not in kinds and self._reports(line, rank, report, meaning, envelope):
            return
        elif (
            self._is_error_file
            and line.number <= error_file.MOST_LINES
            and (stated := error_file.signal_in(text)) is not None
        ):
            self._keep(self._mention(line, rank, stated, {}), stated)
            return
        elif self._window.mentions and contexts.retries(text):
            self._window.weaken_above(line)
        self._note_words(line, rank, kinds.keys())
        self.progressed(text, line.time, rank)

    def _begin_traceback(self, line: Line, rank: int | None) -> None:
        state = self.state
        state.envelopes.close(rank)
        quiet, logged = (state.lines_since(kind, line.number) for kind in ("quiet", "announced"))
        self._tracebacks.begin(rank, line.text, line.number, quiet=quiet <= _JUST_ABOVE, logged=logged == 1)
        if line.number - state.enclosing <= _JUST_ABOVE:
            self._note_link(rank, "cause")
        state.headless = -1

    def _note_words(self, line: Line, rank: int | None, kinds: Set[str]) -> None:
        """Note a line without a report: whether it states a failure, at the beginning of a file, and whether only a
        live program prints it."""
        summary, alive = self._summary, _AFTERMATH.match(line.text) is None
        if self.state.order <= SHORT and "advice" not in kinds and contexts.states_failure(line.text):
            stated = error_file.signal_in(line.text) or error_file.OTHER
            summary.stated = [*summary.stated[:_MOST_STATED], self._mention(line, rank, stated, {})]
        elif alive:
            summary.stated = []
        if alive:
            self._is_printed(line, rank)

    def _is_printed(self, line: Line, rank: int | None) -> None:
        """Note a line without a report that only a live program prints: this attempt, or the next one."""
        if self._summary.restarted and self.state.lines_since("restart", line.number) > _TEARDOWN_LINES:
            self._summary.restarted = []
        continues_exception = line.time is None and self.state.order - 1 in self.state.raised.values()
        if self._window.mentions and not continues_exception:
            self._summary.alive_line = line.number
        self.state.attempts.read(line.number, line.text, rank, said=bool(self._window.mentions))
        self._has_begun_again(line.number, "talk")

    def _note_above(self, line: Line, kinds: Set[str]) -> None:
        above = self.state.above
        if "warned" in above and ("traceback" in kinds or line.text.startswith("  ")):
            # The indented line of code that warned ends the text of a warning.
            del above["warned"]
        for kind in _ABOVE & kinds:
            above[kind] = line.number

    def _note_warned(self, line: Line, rank: int | None, meaning: Meaning, at: datetime | None) -> None:
        signal, warned = meaning.kinds.get(WARNING), self._summary.warned
        if signal is None or contexts.level_of(line.text) == "info":
            return
        if signal.name in warned or len(warned) < _MOST_WARNED:
            found = fields_of(meaning.found[WARNING].groupdict(), signal.extract)
            warned[signal.name] = self._mention(line, rank, signal, found)
            if at is not None:
                self._summary.last_seen[signal.name] = at

    def _note_network(self, line: Line, rank: int | None, meaning: Meaning) -> None:
        signal = meaning.kinds.get(NETWORK)
        if signal is None:
            return
        if self.state.network.read(line.text):
            self._summary.efa_line = self._mention(line, rank, signal, {}).evidence(self._summary.file)
        self._summary.efa = self.state.network.use

    def _note_named(self, meaning: Meaning) -> None:
        """After a report, note the process that a launcher names. Rank and host come in successive lines."""
        if PEER not in meaning.kinds or not self._window.mentions:
            return
        one = survivors.named_in(fields_of(meaning.found[PEER].groupdict(), meaning.kinds[PEER].extract))
        named = self._summary.named
        if one is None:
            return
        if named and named[-1].rank is None and one.host is None:
            one = replace(one, host=named.pop().host)
        self._summary.named = [*named, one][-MOST_NAMED:]

    def _reports(
        self, line: Line, rank: int | None, report: Signal, meaning: Meaning, envelope: OpenEnvelope | None
    ) -> bool:
        """Whether the line reports the signal's meaning, not only mentions it. If so, it is kept, as a detail of its
        ``envelope`` if it has one."""
        match = meaning.match
        if match is None:
            return False
        sure = meaning.exception or self._is_error_file or envelope is not None
        weight = contexts.weight_of(line.text, match.start(), match.end(), report, exception=sure)
        if weight == "none" or self._is_teardown(line, report) or self._is_in_warning(line, meaning):
            return False
        mention = self._mention(line, rank, report, fields_of(match.groupdict(), report.extract))
        mention.weak = weight == "weak" or ("retry" in meaning.kinds and report.role != CONFIRMATION)
        mention.raised = self._is_error_file or error_file.member_in(line.raw) is not None
        mention.low = not sure and contexts.level_of(line.text) in {"info", "warning"}
        if envelope is not None and _may_be_detail(report):
            self._is_detail(mention, envelope.order)
            if report.envelope:
                # The envelope continues, and so may its details.
                envelope.renew()
        self._keep(mention, report)
        if _continues_below(report, line.text):
            self.state.headless = mention.order
        return True

    def _is_detail(self, mention: Mention, order: int) -> None:
        """Make ``mention`` a detail of the envelope that is the mention ``order``, and as serious as that."""
        envelope = self._window.at(order)
        if envelope is None:
            return
        mention.link, mention.after = DETAIL, order
        mention.weak, mention.low = envelope.weak, envelope.low
        mention.raised, mention.fatal = mention.raised or envelope.raised, envelope.fatal
        mention.frames = mention.frames or envelope.frames

    def _is_teardown(self, line: Line, report: Signal) -> bool:
        """Whether a launcher that has announced another attempt ends the rest of this one."""
        says_end_only = report.role == CONFIRMATION and not report.extract and not self._window.mentions
        return says_end_only and self.state.lines_since("restart", line.number) <= _TEARDOWN_LINES

    def _note_link(self, rank: int | None, link: Link) -> None:
        if len(self.state.links) >= _RANKS_LIMIT:
            self.state.links.clear()
        self.state.links[str(rank)] = link

    def _is_in_warning(self, line: Line, meaning: Meaning) -> bool:
        """Whether the line is text of a Python warning that began above."""
        most = 1 if meaning.exception else _WARNING_LINES
        return line.time is None and 0 < self.state.lines_since("warned", line.number) <= most

    def _exception(
        self, line: Line, rank: int | None, traceback: OpenTraceback, body: str, at: datetime | None
    ) -> None:
        """Parse the last line of a traceback."""
        state = self.state
        meaning = meaning_of(self._vocabulary.matcher, body)
        if self._vocabulary.awaited:
            self._note_awaited(meaning, at)
        # Without a header, only an exception of a known form ends a traceback.
        report = meaning.report or (None if traceback.headless else self._vocabulary.some_exception)
        if report is None:
            return
        groups = meaning.match.groupdict() if meaning.match is not None else {}
        mention = self._mention(line, rank, report, {**fields_of(groups, report.extract), "spoken": traceback.words})
        mention.raised, mention.weak, mention.quiet = True, traceback.quiet, traceback.quiet
        # torch's hook for uncaught exceptions prints the rank before each line.
        mention.fatal = traceback.fatal or (not traceback.quiet and f"[rank{rank}]: " in line.raw)
        mention.low = traceback.logged and not mention.fatal
        mention.where, mention.site, mention.frames = traceback.place, traceback.site, traceback.innermost
        mention.deliberate = traceback.deliberate
        key = str(rank)
        link = state.links.pop(key, "")
        if link and key in state.raised:
            mention.link = link
            mention.after = state.raised[key]
        state.raised.pop(key, None)
        state.raised[key] = mention.order
        if len(state.raised) > _RANKS_LIMIT:
            del state.raised[next(iter(state.raised))]
        if self._is_error_file:
            self._window.explain_above(mention)
        if traceback.detail_of >= 0:
            self._is_detail(mention, traceback.detail_of)
        self._keep(mention, report)
        if body.rstrip().endswith(":"):
            state.enclosing = line.number
        if _continues_below(report, body):
            state.headless = mention.order

    def _note_end(self, number: int, *, whole: bool) -> None:
        """Note that line ``number`` reports the end of the attempt, or of all its ranks if ``whole``. Another attempt
        may be appended to it."""
        self.state.attempts.end(number, whole=whole)
        self.state.ended = self.state.order

    def _has_begun_again(self, number: int, evidence: Evidence) -> None:
        """Switch to the next attempt if ``evidence`` shows that it is under way at line ``number``. Reports of earlier
        attempts then no longer count."""
        attempts = self.state.attempts
        if not attempts.is_settled(number, evidence):
            return
        first = attempts.next_line
        attempts.settle()
        summary, window = self._summary, self._window
        own = [mention for mention in window.mentions if mention.line >= first]
        self._advance(ENOUGH_STEPS)
        window.mentions = [replace(mention, steps=window.steps) for mention in own]
        if summary.nan is not None and summary.nan.line < first:
            summary.nan = None
        if summary.success is not None and summary.success.line < first:
            summary.success = None
        self.state.counters = ProgressCounters()

    def _keep(self, mention: Mention, signal: Signal) -> None:
        headless, self.state.headless = self.state.headless, -1
        if headless >= 0 and mention.order == headless + 1 and signal.role != CONFIRMATION:
            # It is the message of an exception whose own line ends after the class.
            above = self._window.at(headless)
            if above is not None:
                above.signal, above.fields = mention.signal, {**above.fields, **mention.fields}
                if signal.envelope:
                    self.state.envelopes.begin(above.rank, headless)
                return
        if self._window.add(mention):
            self.state.reported = mention.order
            if signal.envelope and mention.link != DETAIL:
                self.state.envelopes.begin(mention.rank, mention.order)
        if signal.role == ROOT and not mention.weak:
            self._has_begun_again(mention.line, "vague" if _is_vague(signal) else "own")
        whole = is_whole(mention.text)
        if mention.fatal or (not mention.weak and (whole or signal.role == CONFIRMATION)):
            self._note_end(mention.line, whole=whole)

    def _mention(self, line: Line, rank: int | None, signal: Signal, extracted: Mapping[str, str]) -> Mention:
        return Mention(
            signal.name,
            line.number,
            self.state.order,
            text_of(line.raw),
            rank,
            line.host,
            line.time,
            before=self._summary.last_time,
            steps=self._window.steps,
            fields=extracted,
        )

    # Progress of training.

    def progressed(self, text: str, time: datetime | None, rank: int | None = None) -> None:
        """Read a line that may show progress of training."""
        self._note_time(time)
        summary = self._summary
        summary.progress.read(text)
        if summary.nan is not None and has_finite_loss(text):
            self._is_finite(summary.nan, text, rank)
        if self.state.counters.read(text, again=bool(self._window.mentions)):
            summary.success = None
            summary.progress_time = time or summary.progress_time
            self._advance(1)
            survived = not self._window.mentions
            self.state.attempts.got_further(survived=survived)
            if survived:
                self._has_begun_again(summary.lines, "own")

    def _note_time(self, time: datetime | None) -> None:
        last = self._summary.last_time
        if time is not None and (last is None or time > last):
            self._summary.last_time = time

    def _advance(self, steps: int) -> None:
        self._summary.restarted = []
        if self._window.advance(steps):
            self._stacks.found = []
            self._summary.named = []

    def _not_finite(self, line: Line, rank: int | None, meaning: Meaning) -> None:
        """Count a non-finite value, or start a new series of them."""
        start = meaning.found["nan"].start()
        if _is_of_evaluation(line.text, start) or contexts.is_hypothetical(line.text, start):
            return
        summary, signal = self._summary, meaning.kinds["nan"]
        self.state.finite = 0
        weak = signal.subsystem == GRADIENT
        if summary.nan is None:
            found = {"value": "nan", "name": _name_of_value(line.text, start)}
            summary.nan = self._mention(line, rank, meaning.report or signal, found)
            summary.nan.weak = weak
        else:
            nan = summary.nan
            summary.nan = replace(nan, count=nan.count + 1, weak=nan.weak and weak)

    def _is_finite(self, nan: Mention, text: str, rank: int | None) -> None:
        """Read a line with a finite loss. It ends the series if it has the same name and rank, or if many other losses
        are finite, so that the value was unimportant."""
        self.state.finite += 1
        same_rank = rank is None or nan.rank is None or rank == nan.rank
        same = same_rank and nan.fields.get("name", "") in text.lower()
        is_average = nan.weak and nan.count >= _MANY_GRADIENTS and not re.search("grad|gnorm", text.lower())
        if is_average and self.state.finite < _MANY_GRADIENTS:
            return
        if same or self.state.finite >= _ENOUGH_FINITE:
            self._summary.nan = None


def _name_of_value(text: str, start: int) -> str:
    """The name of the loss at ``start`` in lower case, such as ``mlm loss``; "loss" for any other value."""
    named = re.search(r"[a-z_]{0,20} ?[a-z_]{0,20}loss$", text[max(0, start - 24) : start + 5].lower().rstrip("e:= "))
    return named[0].strip() if named is not None else "loss"


def _is_vague(signal: Signal) -> bool:
    """Whether its report may be a mere consequence of another rank's death."""
    return traits_of(signal.error_type or UNKNOWN).is_vague


def _continues_below(report: Signal, text: str) -> bool:
    """Whether the message of the exception ``report`` in ``text`` continues on the next line."""
    end = text.rstrip()
    return end.endswith(" raised:") or (report.kind == "exception" and end.endswith(":"))


def _may_be_detail(report: Signal) -> bool:
    """Whether it may be the failure that an envelope reports. A stop from outside may not, nor a mere consequence,
    unless it is about a peer."""
    traits = traits_of(report.error_type or UNKNOWN)
    if report.role == CONFIRMATION or traits.is_imposed:
        return False
    return report.role == ROOT or report.envelope or traits.between_peers


def _is_of_evaluation(text: str, start: int) -> bool:
    """Whether the value at ``start`` belongs to an evaluation, where any value is harmless, or is a record that is not
    set yet."""
    before = text[max(0, start - 12) : start + 1].lower()
    return any(word in before for word in ("val", "eval", "test", "best", "lowest", "min_", "min "))
