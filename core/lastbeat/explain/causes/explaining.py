"""The root cause that the logs of all ranks show together: :func:`explain`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from lastbeat.explain.causes import contexts, error_file, exit_codes, stack_dumps, survivors
from lastbeat.explain.causes.candidates import (
    CONTROL_FLOW,
    Candidate,
    Tier,
    candidates_of,
    earliest,
    has_year,
    in_order,
    overtakes,
)
from lastbeat.explain.causes.confidence import Grounds, confidence_of, grounds_of
from lastbeat.explain.causes.exit_codes import ExitMeaning
from lastbeat.explain.causes.idling import end_from_outside
from lastbeat.explain.causes.log_reader import LogReader
from lastbeat.explain.causes.log_summary import SHORT, LogSummary
from lastbeat.explain.causes.mentions import Mention, is_over, repeats
from lastbeat.explain.causes.missing_ranks import missing_ranks
from lastbeat.explain.signals.error_types import HANG, NOT_FINITE, TYPES, UNKNOWN, traits_of
from lastbeat.explain.signals.hints import GUESS, KILLED_WITHOUT_OOM, MISSING_RANK, filled
from lastbeat.model.cause import (
    EXIT_STATUS,
    LIKELY,
    SCHEDULER,
    UNDECIDED,
    AttemptInFile,
    Cause,
    Evidence,
    Explanation,
    MissingRanks,
    Warned,
)
from lastbeat.model.signal import CONFIRMATION, Catalogue, Signal

MOST_ALTERNATIVES: Final = 3
"""Most alternative causes of an explanation."""
_MOST_DOWNSTREAM: Final = 12
"""Most consequences that an explanation lists."""
_STEP_UNDER_WAY: Final = timedelta(minutes=2)
"""Longest time after a rank's death in which the others may still report a step."""
_MUCH_TALK: Final = 30
"""A program that prints more than this many further lines did not end at its last error."""
_GRADIENTS: Final = 3
"""Least number of non-finite gradients in a row that counts. A loss scaler skips fewer steps than that."""
_KILLS: Final = frozenset({"killed_by_shell", "data_loader_worker_killed"})
"""Signals of a SIGKILL that counts as the OOM killer's."""
_INTERRUPT: Final = (
    r"\bKeyboardInterrupt\b|\b(?:closing signal |[Rr]eceived (?:Signals\.)?)SIGINT\b|\bReceived 2 death signal|"
    r"\bgot signal: (?:2|SIGINT)\b|\bexit ?code\s{0,8}:? -2\b|\bSignal 2 \(SIGINT\)"
)
_POLLED_IN_VAIN: Final = r"queue\.Empty\s*$"
"""Exception that a loop waiting for data handles repeatedly, also when a Ctrl-C comes."""
_MEETING: Final = frozenset({"port", "tcpstore"})
"""Subsystems of the meeting point of a launcher's ranks."""
_SOCKET: Final = "socket"
"""Subsystem of an error of a connection without a named service."""
_SERVICES: Final = frozenset({"tracker", "hub"})
"""Subsystems of errors that name the service at the other end of a connection."""
_UNSURE: Final = 0.2
"""Confidence of an unknown cause."""
_OF_NOTHING: Final = ExitMeaning(UNKNOWN, "", _UNSURE)
_HALF: Final = 0.5
"""Factor on the confidence of a cause that is not the first."""
_RAISED_IN: Final = {
    "data": ExitMeaning("data", "dataset", 0.0),
    "checkpoint": ExitMeaning("storage", "checkpoint", 0.0),
    "connection": ExitMeaning("communication", "socket", 0.0),
    "collective": ExitMeaning("communication", "collective", 0.0),
    "cuda": ExitMeaning("environment", "cuda", 0.0),
}
"""Kind of code that raised an exception → likely meaning of the exception."""
_TEXT_LIMIT_BYTES: Final = 4 << 20
"""Most bytes that :func:`explain_text` reads at each end of a text."""


def explain(
    logs: Sequence[LogSummary],
    catalogue: Catalogue,
    *,
    exit_code: int | None = None,
    scheduler: str | None = None,
    world_size: int | None = None,
    whole: bool = False,
) -> Explanation:
    """The cause that the logs, an exit code and the scheduler's state (``OUT_OF_MEMORY``) show together.

    ``whole`` says that all logs were read to their end, so that a rank's silence is evidence. ``world_size`` is the
    number of ranks, if known.

    1. Take all mentions as candidates, in order of events. Drop those that the run survived: training progressed after
       them, in the same file or, by the lines' own times, in another.
    2. Is the end confirmed, by an exit code or a line? If not, drop errors that were merely logged long before the last
       line: the program went on printing.
    3. Choose the best candidate in order: a later one replaces it if it is closer to the cause, see
       :func:`lastbeat.explain.causes.candidates.overtakes`. Without any, use warnings of a hang, then stack dumps.
    4. A success line counts if only teardown noise follows it.
    5. Values that stayed non-finite outrank the best candidate, unless that explains them (hardware that failed first).
    6. If the best candidate only shows how a process ended, exit code and scheduler give the meaning.
    7. Otherwise the evidence is the first line that reported the same or warned of it. Add alternatives and downstream
       errors.
    8. If it is a timeout that nearly all ranks report, name the ranks that do not, see
       :func:`lastbeat.explain.causes.missing_ranks.missing_ranks`.
    """
    diagnosis = _Diagnosis(logs, catalogue, exit_code, scheduler)
    found = replace(diagnosis.explanation(), warned=warnings_in(logs, catalogue))
    if whole:
        found = _with_missing_ranks(found, diagnosis.missing_ranks(world_size))
    shown = found.cause.evidence if found.cause is not None else found.success
    file = shown.file if shown is not None else ""
    several = [log for log in logs if log.attempts > 1]
    last = next((log for log in several if log.file == file), several[0] if several and not file else None)
    if last is None:
        return found
    return replace(found, attempt=AttemptInFile(last.attempts, last.file, last.attempt_line))


def with_last_words(found: Explanation, logs: Sequence[LogSummary], catalogue: Catalogue) -> Explanation:
    """``found``, or the explanation by the last words of ``logs`` if they show nothing better. For texts that a person
    asks about, not for those of a run that is watched: the next line may make last words harmless."""
    shown = found.cause is not None and found.cause.signal != CONTROL_FLOW
    if shown or found.success is not None:
        return found
    words = _Diagnosis(logs, catalogue, None, None).last_words()
    return found if words is None else replace(words, warned=found.warned, attempt=found.attempt)


def warnings_in(logs: Sequence[LogSummary], catalogue: Catalogue) -> tuple[Warned, ...]:
    """The latest warning of each kind in ``logs``, the newest first."""
    signals = {each.name: each for each in catalogue.signals if any(each.name in log.warned for log in logs)}
    latest: dict[str, Warned] = {}
    for log in logs:
        for name, mention in log.warned.items():
            if name not in signals:
                continue
            at, known = log.last_seen.get(name), latest.get(name)
            if known is None or (at is not None and (known.at is None or at > known.at)):
                fields = {"rank": mention.rank, "host": mention.host, "file": log.file, "line": mention.line}
                hint = filled(signals[name].hint, {**fields, **mention.fields})
                latest[name] = Warned(mention.evidence(log.file), hint, at)
    return tuple(sorted(latest.values(), key=lambda each: each.at.timestamp() if each.at else 0.0, reverse=True))


def explain_text(text: str | bytes, catalogue: Catalogue, file: str = "-") -> Explanation:
    """The cause in one text. Of a very long one, only the beginning and the end are read."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    reader = LogReader(catalogue, file)
    if len(data) > 2 * _TEXT_LIMIT_BYTES:
        reader.feed(data[:_TEXT_LIMIT_BYTES])
        reader.skipped(len(data) - 2 * _TEXT_LIMIT_BYTES)
        data = data[-_TEXT_LIMIT_BYTES:]
    reader.feed(data)
    reader.finish()
    logs = [reader.summary()]
    return with_last_words(explain(logs, catalogue), logs, catalogue)


class _Diagnosis:
    def __init__(
        self, logs: Sequence[LogSummary], catalogue: Catalogue, exit_code: int | None, scheduler: str | None
    ) -> None:
        self._logs = logs = in_order(logs)
        self._catalogue = catalogue
        self._exit_code = exit_code
        self._scheduler = scheduler
        self._diverged: Candidate | None = None
        """Values that stayed non-finite, if another failure ended the run."""
        self._strongest: Candidate | None = None
        """The candidate that supports the cause."""
        self._no_oom_kill = any(log.no_oom_kill for log in logs)
        self._signals: Mapping[str, Signal] = {
            error_file.OTHER.name: error_file.OTHER,
            **error_file.SIGNALS,
            **{signal.name: signal for signal in catalogue.signals},
        }
        every = candidates_of(logs, self._signals)
        self._survived = [each for each in every if self._was_survived(each)]
        self._candidates = [each for each in every if not self._was_survived(each)]
        twice = self._launched_twice()
        self._candidates = [
            each for each in self._candidates if each.log_index not in twice or not _is_of_the_meeting(each)
        ]
        self._confirmed = bool(exit_code) or any(map(self._is_end, self._candidates))
        if not self._confirmed:
            last = {each.log_index: max(each.mention.line, each.mention.last_line) for each in self._candidates}
            self._candidates = [each for each in self._candidates if not self._talked_on(each, last[each.log_index])]

    def _was_survived(self, candidate: Candidate) -> bool:
        """Whether training progressed after it, in the same file or, by the lines' own times, in another."""
        if is_over(candidate.mention, candidate.log.steps):
            return True
        own = candidate.mention.time
        if own is None or not has_year(own):
            return False
        others = [log.progress_time for log in self._logs if log is not candidate.log]
        return any(time is not None and time - own > _STEP_UNDER_WAY for time in others)

    def _launched_twice(self) -> set[int]:
        """Indices of the logs in which a launcher gave up before it had a worker, because its port was taken or its
        store out of reach, while workers of another one printed later."""
        gave_up: dict[int, int] = {}
        for each in self._candidates:
            if _is_of_the_meeting(each) and each.mention.where == "launcher" and each.mention.fatal:
                gave_up.setdefault(each.log_index, each.mention.order)
        return {
            each.log_index
            for each in self._candidates
            if each.rank is not None and each.tier > Tier.CONFIRMATION
            if each.log_index in gave_up and each.mention.order > gave_up[each.log_index]
        }

    def _is_end(self, candidate: Candidate) -> bool:
        """Whether it confirms an end. A calm line does not if the program went on printing."""
        last = max(candidate.mention.line, candidate.mention.last_line)
        return _confirms(candidate) and not (candidate.mention.low and candidate.log.lines - last > _MUCH_TALK)

    def _talked_on(self, candidate: Candidate, last_line: int) -> bool:
        """Whether it was merely logged, and too many lines follow the last error for the run to have ended there."""
        much = candidate.log.lines - last_line > _MUCH_TALK
        sure = candidate.mention.fatal or candidate.tier in {Tier.SYMPTOM, Tier.EXIT} or candidate.is_from_outside
        return much and not sure

    def explanation(self) -> Explanation:
        best = self._best()
        success = next(((log, log.success) for log in self._logs if log.success is not None), None)
        nan = self._nan(best)
        if success is not None and nan is None and not self._confirmed and (best is None or best.tier <= Tier.CASCADE):
            log, mention = success
            return Explanation(success=mention.evidence(log.file))
        if nan is not None and (best is None or not _goes_before_nan(best, nan)):
            return self._explanation(nan, best)
        self._diverged = nan
        by_exit = self._by_exit(best)
        if by_exit is not None:
            return by_exit
        if best is not None and self._no_oom_kill and best.signal.name in _KILLS:
            return self._killed(best.evidence)
        return self._explanation(earliest(best, self._candidates), best) if best is not None else Explanation()

    def last_words(self) -> Explanation | None:
        """The explanation by last words, for texts without any better evidence. None if there are none.

        1. The first of the warnings of a wait, if no step and no other line of a live program follows the last of them.
        2. The reports above a launcher's word that it restarts the workers, if nothing follows.
        3. In a short text, the first line about a failure that nothing of a live program follows: a warning, an error
           in a logger's words, or words that an ``_error`` might have. In any text, a traceback without its end.
        4. Gradients that are not finite at the end of a short text, however few.
        """
        waits = [each for each in self._candidates if _is_suspicion(each.signal)]
        last = waits[-1] if waits else None
        if last is not None and max(last.mention.line, last.mention.last_line) > last.log.alive_line:
            first = next(each for each in waits if each.signal is last.signal)
            return self._explanation(replace(first, tier=Tier.WORDS), None)
        logs = [replace(log, mentions=log.restarted) for log in self._logs if log.restarted]
        if logs:
            return _Diagnosis(logs, self._catalogue, None, None).explanation_or_warning()
        said = candidates_of([replace(log, mentions=_stated_in(log)) for log in self._logs], self._signals)
        words = sorted(
            [*said, *filter(_are_last_words, self._candidates)], key=lambda each: (each.log_index, each.mention.order)
        )
        if words:
            return self._explanation(replace(words[0], tier=Tier.WORDS), None)
        nan = self._nan(None, least=1) if all(log.lines <= SHORT for log in self._logs) else None
        return self._explanation(replace(nan, tier=Tier.WORDS), None) if nan is not None else None

    def explanation_or_warning(self) -> Explanation:
        """The explanation, or that by the first warning of a failure: what ends a worker may be a warning to its
        launcher."""
        found = self.explanation()
        warned = (each for each in self._candidates if each.tier > Tier.CASCADE and not each.mention.quiet)
        first = next(warned, None) if found.cause is None else None
        return found if first is None else self._explanation(replace(first, tier=Tier.WORDS), None)

    def missing_ranks(self, world_size: int | None) -> MissingRanks | None:
        """The ranks that the others waited for, once :meth:`explanation` has found a timeout as the cause."""
        best = self._strongest
        return None if best is None else missing_ranks(best, self._candidates, self._logs, world_size)

    # The choice.

    def _best(self) -> Candidate | None:
        """The candidate closest to the cause, as step 3 of :func:`explain` says.

        1. Skip confirmations and precursors; let each later candidate replace the best if it overtakes it.
        2. Without a candidate, take a repeated warning of a hang, the last of several attempts, or a stack dump. If the
           end is confirmed, a single warning or the last survived error is enough.
        3. If a process was killed after a warning of a hang, the warning is the cause.
        4. A mere cascade between peers without a confirmed end counts only if a process died or a log ends with it.
        """
        best: Candidate | None = None
        for candidate in self._candidates:
            in_passing = candidate.is_precursor and not _stands_alone(candidate)
            if candidate.tier == Tier.CONFIRMATION or in_passing:
                continue
            if best is None or overtakes(candidate, best):
                best = candidate
        if best is None and self._confirmed and self._survived:
            return self._warned_of_hang(killed=True) or self._survived[-1]
        if best is None:
            return self._warned_of_hang(killed=self._confirmed) or self._last_attempt() or self._dumped_stacks()
        if best.tier == Tier.EXIT and best.traits.may_be_a_kill:
            # The kill may have come from the watchdog that had warned of a hang.
            return self._warned_of_hang(killed=True) or best
        if self._confirmed or best.mention.raised or best.tier > Tier.CASCADE:
            return best
        # A missing peer counts only with evidence that it mattered.
        mattered = any(each.mention.fatal or self._ends_file(each) for each in self._candidates)
        return best if mattered or not best.traits.between_peers else None

    def _warned_of_hang(self, *, killed: bool) -> Candidate | None:
        """A warning of a hang, which counts if it was repeated or the run was ``killed``."""
        warned = [
            each
            for each in self._candidates
            if each.tier == Tier.SYMPTOM and each.mention.low and not contexts.retries(each.mention.text)
            if contexts.level_of(each.mention.text) != "info"
        ]
        was_repeated = sum(each.mention.count for each in warned) > 1
        return warned[0] if warned and (was_repeated or killed) else None

    def _last_attempt(self) -> Candidate | None:
        """The last of a number of retries, if no further line of a live program follows."""
        tried = [each for each in self._candidates if each.mention.low and each.tier == Tier.SPECIFIC]
        last = next((each for each in reversed(tried) if contexts.is_last_attempt(each.mention.text)), None)
        return last if last is not None and last.mention.line > last.log.alive_line else None

    def _warned_of_peers(self) -> Candidate | None:
        """The first line with the last kind of warning about trouble between ranks, for a process that just ended. None
        without a confirmed end."""
        if not self._confirmed:
            return None
        warned = [
            each
            for each in self._candidates
            if each.is_precursor and each.tier == Tier.SPECIFIC and each.traits.between_peers
            if not contexts.retries(each.mention.text)
        ]
        return next((each for each in warned if each.signal is warned[-1].signal), None)

    def _dumped_stacks(self) -> Candidate | None:
        """A stack dump without any message, of threads that wait for each other, or before a confirmed end."""
        signal = self._signals.get("hang_stated")
        if signal is None or not (self._confirmed or self._is_circular()):
            return None
        for index, log in enumerate(self._logs):
            for stack in log.stacks[:1]:
                mention = Mention(
                    signal.name, stack.line, 0, stack.text, stack.rank, time=log.last_time, steps=log.steps
                )
                return Candidate(mention, signal, Tier.SYMPTOM, HANG, "stack_dump", log, index, log.last_time)
        return None

    def _nan(self, best: Candidate | None, least: int = _GRADIENTS) -> Candidate | None:
        """Values that stayed non-finite to the end, of gradients at least ``least``. If they ended the run, a single
        one is enough."""
        ended_it = best is not None and best.traits.about_values
        for index, log in enumerate(self._logs):
            nan = log.nan
            if nan is None or nan.signal not in self._signals or (nan.weak and nan.count < least and not ended_it):
                continue
            signal = self._signals[nan.signal]
            return Candidate(nan, signal, Tier.SPECIFIC, NOT_FINITE, signal.subsystem, log, index, nan.time)
        return None

    def _killed(self, evidence: Evidence) -> Explanation:
        """The explanation of a SIGKILL that was no OOM kill, by an unknown sender."""
        known = TYPES[UNKNOWN]
        cause = Cause(UNKNOWN, evidence, _UNSURE, "signal", known.restartable, KILLED_WITHOUT_OOM)
        others = self._alternatives(None, exit_codes.OF_SIGKILL.error_type)
        return Explanation(cause, others, (), ended=True, grounds=Grounds.END.value)

    # The meaning of exit codes and scheduler states.

    def _by_exit(self, best: Candidate | None) -> Explanation | None:
        """The explanation by exit code or scheduler, if the logs show no better one."""
        if best is not None and best.tier > Tier.EXIT:
            return None
        confirming = [each for each in self._candidates if each.tier == Tier.CONFIRMATION]
        meaning, shown_by = self._exit_meaning(best, confirming)
        if best is None and meaning in {None, _OF_NOTHING} and (warned := self._warned_of_peers()) is not None:
            return self._explanation(warned, None)
        if meaning is None:
            if best is not None or not self._confirmed:
                return None
            # A wrapper without its exception at least names the class.
            named = next((each for each in confirming if each.signal.error_type), None)
            meaning = _OF_NOTHING
            if named is not None:
                meaning, shown_by = exit_codes.ExitMeaning(named.error_type, "", _UNSURE), named
        shown_by = shown_by or next(iter(confirming), None) or best
        evidence = shown_by.evidence if shown_by is not None else self._end()
        error_type, subsystem, confidence, said_by = meaning
        # OOM kills on another node, which the line names, were not counted here.
        elsewhere = shown_by is not None and "node" in shown_by.mention.fields
        if self._no_oom_kill and not elsewhere and meaning == exit_codes.OF_SIGKILL:
            return self._killed(evidence)
        signal = shown_by.signal if shown_by is not None else None
        fields = shown_by.mention.fields if shown_by is not None else {}
        kind = (error_type, subsystem or None, confidence)
        cause = _cause(self._catalogue, kind, evidence, (signal, fields), self._signals.get(said_by))
        if traits_of(error_type).says_nothing and (code := self._exit_code or exit_codes.stated_in(fields)):
            cause = replace(cause, hint=exit_codes.hint_of(code))
        others = self._alternatives(None, error_type)
        if not others and confidence < UNDECIDED:
            others = self._other(exit_codes.otherwise(meaning), cause)
        return Explanation(cause, others, (), ended=True, grounds=Grounds.END.value)

    def _exit_meaning(
        self, best: Candidate | None, confirming: Sequence[Candidate]
    ) -> tuple[exit_codes.ExitMeaning | None, Candidate | None]:
        """The meaning of the exit, and the candidate that shows it."""
        by_scheduler = exit_codes.of_scheduler(self._scheduler) if self._scheduler else None
        if by_scheduler is not None or (best is not None and best.tier == Tier.EXIT):
            return by_scheduler, None
        ends = self._ends_stated(best, confirming)
        for candidate, code in ends:
            meaning = exit_codes.of_exit_code(code)
            # A stopped process proves nothing if another one ended by itself.
            if meaning is not None and not traits_of(meaning.error_type).is_imposed:
                return meaning, candidate
        if best is not None and not _is_schedulers_word(best):
            return None, None
        own = exit_codes.of_exit_code(self._exit_code) if self._exit_code else None
        if best is None and own is not None:
            return own, None
        # The order of lines in two files is unknown.
        surely = [(each, code) for each, code in ends if best is None or each.log is best.log]
        by_itself = next((each for each, code in surely if exit_codes.of_exit_code(code) is None), None)
        if by_itself is not None:
            return _OF_NOTHING, by_itself
        return (exit_codes.of_exit_code(ends[0][1]), ends[0][0]) if best is None and ends else (None, None)

    @staticmethod
    def _ends_stated(best: Candidate | None, confirming: Sequence[Candidate]) -> list[tuple[Candidate, int]]:
        """Lines that state how a process ended, each with the exit code. Excludes processes that died because the
        scheduler had cancelled the job."""
        stated = ((each, exit_codes.stated_in(each.mention.fields)) for each in confirming)
        return [
            (each, code)
            for each, code in stated
            if code is not None and not (best is not None and _is_schedulers_word(best) and _follows(each, best))
        ]

    def _end(self) -> Evidence:
        """The evidence in place of a line, if no line shows the end."""
        if self._exit_code:
            return Evidence(EXIT_STATUS, 0, exit_codes.as_evidence(self._exit_code))
        return Evidence(SCHEDULER, 0, str(self._scheduler or ""))

    # The explanation.

    def _explanation(self, first: Candidate, best: Candidate | None) -> Explanation:
        """The explanation with ``first`` as its evidence; ``best`` is the strongest candidate for the same cause."""
        best = best or first
        error_type, subsystem = first.error_type, first.subsystem
        circular = traits_of(error_type).when_circular
        if circular is not None and self._is_circular():
            error_type, subsystem = circular, "circular_wait"
        strongest = best if best.error_type == first.error_type else first
        self._strongest = strongest
        survived = any(each is strongest for each in self._survived)
        confidence = confidence_of(strongest, self._candidates, survived=survived)
        signal = first.signal if first.signal.hint or not best.signal.hint else best.signal
        fields = {**best.mention.fields, **first.mention.fields}
        detail = next((each for each in self._candidates if each.is_detail_of(first) and each.signal.hint), None)
        if detail is not None:
            # It has the same error type, or it would have won outright.
            signal, fields = detail.signal, {**fields, **detail.mention.fields}
        elif (service := self._service_behind(first)) is not None:
            subsystem, signal = service.subsystem, service.signal
        peer = survivors.lost_peer(strongest, self._candidates, self._logs)
        if peer is not None:
            fields["peer"] = peer.name
        frames = self._frames(first, best)
        kind = (error_type, subsystem, confidence)
        cause = _cause(self._catalogue, kind, first.evidence, (signal, fields), frames=frames)
        ended = self._ended(strongest) or self._ended(best)
        others = self._alternatives(first, error_type)
        if not others and confidence < UNDECIDED:
            others = self._also_possible(strongest, cause)
        found = Explanation(cause, others, self._downstream(first), ended=ended, grounds=grounds_of(strongest).value)
        by, idle = end_from_outside(strongest, self._candidates)
        return replace(found, interrupted=ended and self._interrupted(best), idle=idle, ended_by=by, peer=peer)

    def _service_behind(self, first: Candidate) -> Candidate | None:
        """The exception, raised from ``first``, that names the service at the other end of a connection, or None."""
        if first.subsystem != _SOCKET or not first.mention.raised:
            return None
        chained = (each for each in self._candidates if each.mention.link and _follows(each, first))
        return next((each for each in chained if each.subsystem in _SERVICES and each.rank == first.rank), None)

    def _interrupted(self, best: Candidate) -> bool:
        """Whether it ends in an uncaught KeyboardInterrupt, and nothing else can have ended it.

        A launcher may send SIGINT to the other ranks when one has failed. So only interruptions may precede it, and
        only reports of lost peers may follow, no launcher's report of a failure. SIGTERM, or a scheduler's report, is
        no Ctrl-C.
        """
        mention = best.mention
        if not (_is_interrupt(best) and mention.raised and "KeyboardInterrupt" in mention.text):
            return False
        if mention.weak or mention.low:
            return False
        past = False
        for candidate in self._candidates:
            past = past or candidate is best
            if _is_interrupt(candidate) or re.search(_POLLED_IN_VAIN, candidate.mention.text):
                continue
            if not past or candidate.tier != Tier.CASCADE or candidate.traits.is_imposed:
                return False
        return True

    def _frames(self, first: Candidate, best: Candidate) -> tuple[str, ...]:
        """The frames where the cause was raised. A one-line report in ``_error`` or a log gets those of the traceback
        that repeats it."""
        same = best if best.error_type == first.error_type else first
        repeated = (each for each in self._candidates if repeats(each.mention, first.mention))
        found = (each.mention.frames for each in (first, same, *repeated))
        return next((frames for frames in found if frames), ()) or _crashed_in(first)

    def _alternatives(self, chosen: Candidate | None, error_type: str) -> tuple[Cause, ...]:
        others: dict[str, Cause] = {}
        diverged = [self._diverged] if self._diverged is not None else []
        ranked = sorted([*self._candidates, *diverged], key=lambda each: (-each.tier, each.mention.order))
        for candidate in ranked:
            adds_nothing = candidate.traits.says_nothing or candidate.error_type in {error_type, *others}
            if candidate is chosen or candidate.tier <= Tier.CASCADE or adds_nothing:
                continue
            if self._no_oom_kill and candidate.signal.name in _KILLS:
                continue
            confidence = _HALF * confidence_of(candidate, self._candidates)
            kind = (candidate.error_type, candidate.subsystem, confidence)
            said = (candidate.signal, candidate.mention.fields)
            others[candidate.error_type] = _cause(self._catalogue, kind, candidate.evidence, said)
            if len(others) == MOST_ALTERNATIVES:
                break
        return tuple(sorted(others.values(), key=lambda cause: -cause.confidence))

    def _also_possible(self, best: Candidate, cause: Cause) -> tuple[Cause, ...]:
        """The second reading of a cause that is known only by the end of a process or the class of an exception. It
        comes from the exception's own words, or else from the code that raised it."""
        if best.signal.name in _KILLS:
            return self._other(exit_codes.otherwise(exit_codes.OF_SIGKILL), cause)
        if grounds_of(best) is not Grounds.CLASS:
            return ()
        stated = error_file.signal_in(best.mention.text)
        said = ExitMeaning(stated.error_type, "", 0.0) if stated is not None and stated.error_type else None
        return self._other(said, cause) or self._other(_RAISED_IN.get(best.mention.where), cause)

    def _other(self, meaning: ExitMeaning | None, cause: Cause) -> tuple[Cause, ...]:
        """A second reading of the line that shows ``cause``; empty if it agrees."""
        if meaning is None or meaning.error_type == cause.error_type:
            return ()
        if self._no_oom_kill and meaning.error_type == exit_codes.OF_SIGKILL.error_type:
            return ()
        kind = (meaning.error_type, meaning.subsystem or None, _HALF * cause.confidence)
        return (_cause(self._catalogue, kind, cause.evidence, (None, {}), self._signals.get(meaning.said_by)),)

    def _downstream(self, cause: Candidate) -> tuple[Evidence, ...]:
        after: list[Evidence] = []
        seen: set[tuple[str, int | None]] = set()
        past = False
        for candidate in self._candidates:
            if candidate.mention is cause.mention:
                past = True
                continue
            key = (candidate.signal.name, candidate.rank)
            if not past or key in seen or repeats(candidate.mention, cause.mention):
                continue
            seen.add(key)
            after.append(candidate.evidence)
        return tuple(after[:_MOST_DOWNSTREAM])

    def _is_circular(self) -> bool:
        stacks = [stack for log in self._logs for stack in log.stacks]
        sites = [
            each.mention.site
            for each in self._candidates
            if each.tier in {Tier.CASCADE, Tier.SYMPTOM} and each.mention.where == "collective"
        ]
        return stack_dumps.is_circular(stacks, sites)

    def _ended(self, best: Candidate) -> bool:
        """Whether the logs also end in the failure."""
        if best.tier == Tier.WORDS:
            return False
        if self._confirmed or best.tier == Tier.FACT or any(map(self._ends_file, self._candidates)):
            return True
        if best.signal.kind == "nan" or best.signal.verdict == "stalled" or best.mention.low:
            return False
        return best.mention.fatal or best.signal.verdict == "timeout"

    def _ends_file(self, candidate: Candidate) -> bool:
        """Whether it is an error that ends a run, without a later line that only a live program prints."""
        mention, signal = candidate.mention, candidate.signal
        if mention.weak or mention.low or not (mention.raised or signal.verdict == "crash"):
            return False
        # A run may survive a missing peer, but not the end of a process.
        ends = candidate.tier != Tier.CASCADE or candidate.traits.ends_process
        says_so = mention.raised or (signal.severity != "warning" and ends and signal.subsystem != "ray")
        return says_so and mention.line > candidate.log.alive_line


def _stated_in(log: LogSummary) -> list[Mention]:
    """The lines that state a failure in a short text, and the traceback in which a text of any length ends."""
    return [*(log.stated if _is_short(log) else ()), *([log.cut] if log.cut is not None else ())]


def _is_suspicion(signal: Signal) -> bool:
    """Whether it says that something is awaited, which may come at any time."""
    return signal.verdict == "stalled" and signal.severity == "warning"


def _is_short(log: LogSummary) -> bool:
    """Whether it is a few lines without training, so that a line about a failure is there for its own sake."""
    return log.lines <= SHORT and not log.steps


def _are_last_words(candidate: Candidate) -> bool:
    """Whether it is about a failure, in a short text, without a later line that only a live program prints. A report of
    a lost peer may have further lines of its own."""
    mention, log = candidate.mention, candidate.log
    is_last = mention.line > log.alive_line or candidate.tier == Tier.CASCADE
    if not _is_short(log) or not is_last or mention.quiet or contexts.retries(mention.text):
        return False
    if "Warning: " in mention.text or (mention.weak and contexts.level_of(mention.text) != "warning"):
        # Python's warnings are about what may become a trouble one day.
        return False
    return candidate.tier > Tier.CONFIRMATION


def _with_missing_ranks(found: Explanation, missing: MissingRanks | None) -> Explanation:
    """``found`` with a hint that points to the missing ranks."""
    if missing is None or found.cause is None:
        return found
    guess = GUESS if found.cause.hint.startswith(GUESS) else ""
    cause = replace(found.cause, hint=f"{guess}{missing.sentence} {MISSING_RANK}")
    return replace(found, cause=cause, missing=missing)


def _is_of_the_meeting(candidate: Candidate) -> bool:
    """Whether it names why ranks could not meet, without coming from a rank."""
    return candidate.rank is None and candidate.subsystem in _MEETING and candidate.tier == Tier.SPECIFIC


def _is_interrupt(candidate: Candidate) -> bool:
    """Whether its line reports a Ctrl-C, or a launcher or process that ended by one."""
    if not candidate.traits.is_imposed and candidate.tier != Tier.CONFIRMATION:
        return False
    if re.search(_INTERRUPT, candidate.mention.text) is not None:
        return True
    return exit_codes.of_fields(candidate.mention.fields) == exit_codes.of_exit_code(-2)


def _is_schedulers_word(candidate: Candidate) -> bool:
    return candidate.traits.is_imposed and candidate.subsystem == exit_codes.SCHEDULERS


def _follows(later: Candidate, first: Candidate) -> bool:
    return later.log is first.log and later.mention.order > first.mention.order


def _stands_alone(candidate: Candidate) -> bool:
    """Whether a precursor may be the only candidate before the end."""
    if candidate.mention.raised:
        return not candidate.mention.weak
    return candidate.signal.kind == "exception" and not candidate.mention.weak


def _confirms(candidate: Candidate) -> bool:
    confirms = candidate.tier == Tier.CONFIRMATION and candidate.signal.severity != "warning"
    # An envelope is a confirmation only if it reports an end.
    confirms = confirms and (candidate.signal.role == CONFIRMATION or not candidate.signal.envelope)
    return confirms and not candidate.mention.weak


def _crashed_in(crash: Candidate) -> tuple[str, ...]:
    """The frame in which the thread crashed, from the dump of Python's faulthandler."""
    if crash.subsystem != "native_crash":
        return ()
    frames = (each.frame for each in crash.log.stacks if each.text.startswith("Current thread"))
    return next(((frame,) for frame in frames if frame), ())


def _goes_before_nan(best: Candidate, nan: Candidate) -> bool:
    """Whether ``best`` explains the end better than non-finite values: hardware that failed before them, or a failure
    that they cannot have caused. A person's stop does not count, because they may be its reason."""
    if best.tier == Tier.FACT and best.traits.spoils_values and best.mention.order < nan.mention.order:
        return True
    ended = best.mention.fatal or best.tier == Tier.FACT
    return ended and best.tier >= Tier.SPECIFIC and best.traits.printed_late


def _cause(
    catalogue: Catalogue,
    kind: tuple[str, str | None, float],
    evidence: Evidence,
    said: tuple[Signal | None, Mapping[str, str]],
    hinting: Signal | None = None,
    frames: tuple[str, ...] = (),
) -> Cause:
    """A cause with its hint filled in. ``kind`` is error type, subsystem and confidence. ``said`` is the signal and its
    extracted fields. ``hinting`` is a signal whose hint fits better than its own."""
    error_type, subsystem, confidence = kind
    signal, found = said
    known = catalogue.error_types.get(error_type) or TYPES.get(error_type)
    hint, restartable = (known.hint, known.restartable) if known is not None else ("", None)
    spoken = hinting if hinting is not None else signal
    if spoken is not None and spoken.error_type == error_type:
        hint = spoken.hint or hint
        restartable = spoken.restartable if spoken.restartable is not None else restartable
    fields = {
        "rank": evidence.rank,
        "host": evidence.host,
        "file": evidence.file,
        "line": evidence.line,
        "raised_at": frames[0].partition(": ")[0] if frames else None,
        **found,
    }
    name = signal.name if signal is not None else ""
    advice = filled(hint, fields)
    if advice and confidence < LIKELY and not traits_of(error_type).says_nothing:
        advice = GUESS + advice
    return Cause(error_type, evidence, round(confidence, 2), subsystem, restartable, advice, name, frames)
