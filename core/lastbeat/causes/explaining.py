"""The root cause that the logs of all ranks show together: :func:`explain`."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from lastbeat.causes import contexts, error_file, exit_codes, stack_dumps
from lastbeat.causes.candidates import (
    Candidate,
    Tier,
    candidates_of,
    confidence_of,
    earliest,
    has_year,
    in_order,
    overtakes,
)
from lastbeat.causes.log_reader import LogReader
from lastbeat.causes.log_summary import LogSummary
from lastbeat.causes.mentions import Mention, is_over
from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.signal import Catalogue, Signal
from lastbeat.signals.error_types import HANG, NOT_FINITE, TYPES, UNKNOWN, traits_of
from lastbeat.signals.hints import filled

MOST_ALTERNATIVES: Final = 3
MOST_DOWNSTREAM: Final = 12
_STEP_UNDER_WAY: Final = timedelta(minutes=2)
"""This long after a rank has died the others report no step any more."""
_MUCH_TALK: Final = 60
"""A program that prints this many more lines did not end at its last error."""
_GRADIENTS: Final = 3
"""From this many non-finite gradients in a row on, it is more than steps that the loss scaler skips."""
_TEXT_LIMIT: Final = 4 * 1024 * 1024


def explain(
    logs: Sequence[LogSummary], catalogue: Catalogue, *, exit_code: int | None = None, scheduler: str | None = None
) -> Explanation:
    """The cause that the logs, an exit code and the scheduler's state (``OUT_OF_MEMORY``) show together.

    1. Take all mentions as candidates, in order of events. Drop those that the run survived: training got further after
       them, in the same file or, by the lines' own times, in another.
    2. Is the end confirmed, by an exit code or a line? If not, drop errors that were merely logged long before the last
       line: the program went on printing.
    3. Choose the best candidate in order: a later one replaces it if it is closer to the cause, see
       :func:`lastbeat.causes.candidates.overtakes`. Without any, use warnings of a hang, then stack dumps.
    4. A success line counts if only teardown noise follows it.
    5. Values that stayed non-finite outrank the best candidate, unless that explains them (hardware that failed first).
    6. If the best candidate only shows how a process ended, exit code and scheduler say what that means.
    7. Otherwise the evidence is the first line that said the same or warned of it. Add alternatives and downstream
       errors.
    """
    return _Diagnosis(logs, catalogue, exit_code, scheduler).explanation()


def explain_text(text: str | bytes, catalogue: Catalogue, file: str = "-") -> Explanation:
    """The cause in one text. Of a very long one, only the beginning and the end are read."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    reader = LogReader(catalogue, file)
    if len(data) > 2 * _TEXT_LIMIT:
        reader.feed(data[:_TEXT_LIMIT])
        reader.skipped(len(data) - 2 * _TEXT_LIMIT)
        data = data[-_TEXT_LIMIT:]
    reader.feed(data)
    reader.finish()
    return explain([reader.summary()], catalogue)


class _Diagnosis:
    def __init__(
        self, logs: Sequence[LogSummary], catalogue: Catalogue, exit_code: int | None, scheduler: str | None
    ) -> None:
        self._logs = logs = in_order(logs)
        self._catalogue = catalogue
        self._exit_code = exit_code
        self._scheduler = scheduler
        self._signals: Mapping[str, Signal] = {
            **error_file.SIGNALS,
            **{signal.name: signal for signal in catalogue.signals},
        }
        every = candidates_of(logs, self._signals)
        self._survived = [each for each in every if self._was_survived(each)]
        self._candidates = [each for each in every if not self._was_survived(each)]
        self._confirmed = bool(exit_code) or any(map(_confirms, self._candidates))
        if not self._confirmed:
            last = {each.log_index: each.mention.line for each in self._candidates}
            self._candidates = [each for each in self._candidates if not self._talked_on(each, last[each.log_index])]

    def _was_survived(self, candidate: Candidate) -> bool:
        """Whether training got further after it, in the same file or, by the lines' own times, in another."""
        if is_over(candidate.mention, candidate.log.steps):
            return True
        own = candidate.mention.time
        if own is None or not has_year(own):
            return False
        others = [log.progress_time for log in self._logs if log is not candidate.log]
        return any(time is not None and time - own > _STEP_UNDER_WAY for time in others)

    def _talked_on(self, candidate: Candidate, last_line: int) -> bool:
        """Whether it was merely logged, and so much was printed after the last error that the run did not end there."""
        much = candidate.log.lines - last_line > _MUCH_TALK
        sure = candidate.mention.fatal or candidate.tier in {Tier.FACT, Tier.SYMPTOM, Tier.EXIT}
        return much and not sure

    def explanation(self) -> Explanation:
        best = self._best()
        success = next(((log, log.success) for log in self._logs if log.success is not None), None)
        nan = self._nan()
        if success is not None and nan is None and not self._confirmed and (best is None or best.tier <= Tier.CASCADE):
            log, mention = success
            return Explanation(success=mention.evidence(log.file))
        if nan is not None and (best is None or not _goes_before_nan(best, nan)):
            return self._explanation(nan, best)
        by_exit = self._by_exit(best)
        if by_exit is not None:
            return by_exit
        return self._explanation(earliest(best, self._candidates), best) if best is not None else Explanation()

    # The choice.

    def _best(self) -> Candidate | None:
        """The candidate closest to the cause, as step 3 of :func:`explain` says.

        1. Skip confirmations and precursors; let each later candidate replace the best if it overtakes it.
        2. Nothing left: a repeated warning of a hang. If the end is confirmed, a single one or the last survived error
           will do; then a stack dump.
        3. A process that was killed: if there was a warning of a hang before, that is the cause.
        4. A mere cascade between peers, with no confirmed end: only if a process died or a log ends with it.
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
            return self._warned_of_hang(killed=self._confirmed) or self._dumped_stacks()
        if best.tier == Tier.EXIT and best.traits.may_be_a_kill:
            # The kill may have come from the watchdog that had warned of a hang.
            return self._warned_of_hang(killed=True) or best
        if self._confirmed or best.mention.raised or best.tier > Tier.CASCADE:
            return best
        # A peer was missing: that counts only if something shows that it mattered.
        mattered = any(each.mention.fatal or self._ends_file(each) for each in self._candidates)
        return best if mattered or not best.traits.between_peers else None

    def _warned_of_hang(self, *, killed: bool) -> Candidate | None:
        """A warning of a hang, which counts if it was repeated or the run was ``killed``."""
        warned = [
            each
            for each in self._candidates
            if each.tier == Tier.SYMPTOM and each.mention.low and not contexts.retries(each.mention.text)
        ]
        was_repeated = sum(each.mention.count for each in warned) > 1
        return warned[0] if warned and (was_repeated or killed) else None

    def _dumped_stacks(self) -> Candidate | None:
        """Stack dumps without any message, of threads that wait for each other or right before a confirmed end."""
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

    def _nan(self) -> Candidate | None:
        """Values that stayed non-finite to the end."""
        for index, log in enumerate(self._logs):
            nan = log.nan
            if nan is None or nan.signal not in self._signals or (nan.weak and nan.count < _GRADIENTS):
                continue
            signal = self._signals[nan.signal]
            return Candidate(nan, signal, Tier.SPECIFIC, NOT_FINITE, signal.subsystem, log, index, nan.time)
        return None

    # The meaning of exit codes and scheduler states.

    def _by_exit(self, best: Candidate | None) -> Explanation | None:
        """The cause by exit code or scheduler, if the logs have nothing better."""
        if best is not None and best.tier > Tier.EXIT:
            return None
        confirming = [each for each in self._candidates if each.tier == Tier.CONFIRMATION]
        meaning, shown_by = self._exit_meaning(best, confirming)
        if meaning is None:
            if best is not None or not self._confirmed:
                return None
            meaning = (UNKNOWN, "", 0.2)
        shown_by = shown_by or next(iter(confirming), None) or best
        evidence = shown_by.evidence if shown_by is not None else self._end()
        error_type, subsystem, confidence = meaning
        signal = shown_by.signal if shown_by is not None else None
        fields = shown_by.mention.fields if shown_by is not None else {}
        hinting = _signal_of_exit(self._catalogue, error_type, subsystem)
        kind = (error_type, subsystem or None, confidence)
        cause = _cause(self._catalogue, kind, evidence, (signal, fields), hinting)
        return Explanation(cause, self._alternatives(None, error_type), (), ended=True)

    def _exit_meaning(
        self, best: Candidate | None, confirming: Sequence[Candidate]
    ) -> tuple[exit_codes.ExitMeaning | None, Candidate | None]:
        """The meaning of the exit, and the candidate that shows it."""
        told = exit_codes.of_scheduler(self._scheduler) if self._scheduler else None
        if told is not None or (best is not None and best.tier == Tier.EXIT):
            return told, None
        for candidate in confirming:
            meaning = exit_codes.of_fields(candidate.mention.fields)
            # Beside a cascade, a process that was stopped proves nothing; one that died by itself does.
            if meaning is not None and (best is None or not traits_of(meaning[0]).is_imposed):
                return meaning, candidate
        if best is None and self._exit_code:
            return exit_codes.of_exit_code(self._exit_code), None
        return None, None

    def _end(self) -> Evidence:
        log = self._logs[0] if self._logs else LogSummary("-")
        code = f"exit code {self._exit_code}" if self._exit_code else str(self._scheduler or "")
        return Evidence(log.file, log.lines, code, log.rank, None, log.last_time)

    # The explanation.

    def _explanation(self, first: Candidate, best: Candidate | None) -> Explanation:
        """The explanation with ``first`` as its evidence. ``best``: the strongest candidate for the same cause."""
        best = best or first
        error_type, subsystem = first.error_type, first.subsystem
        circular = traits_of(error_type).when_circular
        if circular is not None and self._is_circular():
            error_type, subsystem = circular, "circular_wait"
        strongest = best if best.error_type == first.error_type else first
        confidence = confidence_of(strongest, self._candidates, confirmed=self._confirmed)
        signal = first.signal if first.signal.hint or not best.signal.hint else best.signal
        fields = {**best.mention.fields, **first.mention.fields}
        cause = _cause(self._catalogue, (error_type, subsystem, confidence), first.evidence, (signal, fields))
        ended = self._ended(strongest) or self._ended(best)
        return Explanation(cause, self._alternatives(first, error_type), self._downstream(first), ended=ended)

    def _alternatives(self, chosen: Candidate | None, error_type: str) -> tuple[Cause, ...]:
        told: dict[str, Cause] = {}
        ranked = sorted(self._candidates, key=lambda each: (-each.tier, each.mention.order))
        for candidate in ranked:
            adds_nothing = candidate.traits.says_nothing or candidate.error_type in {error_type, *told}
            if candidate is chosen or candidate.tier <= Tier.CASCADE or adds_nothing:
                continue
            confidence = 0.5 * confidence_of(candidate, self._candidates, confirmed=self._confirmed)
            kind = (candidate.error_type, candidate.subsystem, confidence)
            said = (candidate.signal, candidate.mention.fields)
            told[candidate.error_type] = _cause(self._catalogue, kind, candidate.evidence, said)
            if len(told) == MOST_ALTERNATIVES:
                break
        return tuple(sorted(told.values(), key=lambda cause: -cause.confidence))

    def _downstream(self, cause: Candidate) -> tuple[Evidence, ...]:
        after: list[Evidence] = []
        seen: set[tuple[str, int | None]] = set()
        past = False
        for candidate in self._candidates:
            if candidate.mention is cause.mention:
                past = True
                continue
            key = (candidate.signal.name, candidate.rank)
            if not past or key in seen or _repeats(candidate.mention, cause.mention):
                continue
            seen.add(key)
            after.append(candidate.evidence)
        return tuple(after[:MOST_DOWNSTREAM])

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
        if self._confirmed or best.tier == Tier.FACT or any(map(self._ends_file, self._candidates)):
            return True
        if best.signal.kind == "nan" or best.signal.verdict == "stalled" or best.mention.low:
            return False
        return best.mention.fatal or best.signal.verdict == "timeout"

    def _ends_file(self, candidate: Candidate) -> bool:
        """Whether it is an error that ends a run, and no line that only a live program prints follows."""
        mention, signal = candidate.mention, candidate.signal
        if mention.weak or mention.low or not (mention.raised or signal.verdict == "crash"):
            return False
        # A missing peer may be got over; a process that was ended may not.
        ends = candidate.tier != Tier.CASCADE or candidate.traits.ends_process
        says_so = mention.raised or (signal.severity != "warning" and ends and signal.subsystem != "ray")
        return says_so and mention.line > candidate.log.alive_line


def _stands_alone(candidate: Candidate) -> bool:
    """Whether a precursor may be the only candidate before the end."""
    if candidate.mention.raised:
        return not candidate.mention.weak
    return candidate.signal.kind == "exception" and not candidate.mention.weak


def _confirms(candidate: Candidate) -> bool:
    confirms = candidate.tier == Tier.CONFIRMATION and candidate.signal.severity != "warning"
    return confirms and not candidate.mention.weak


def _repeats(mention: Mention, cause: Mention) -> bool:
    """Whether ``mention`` repeats the cause, as ``_error`` does with the last line of a traceback."""
    one, other = mention.text.strip(), cause.text.strip()
    return mention.rank in {None, cause.rank} and (one.endswith(other) or other.endswith(one))


def _goes_before_nan(best: Candidate, nan: Candidate) -> bool:
    """Whether ``best`` explains the end better than non-finite values."""
    return best.tier == Tier.FACT and best.traits.spoils_values and best.mention.order < nan.mention.order


# What an exit code alone hints at → the signal that says the same in words, and so has the fitting hint.
_SAYS_THE_SAME: Final = {
    ("oom", "host_memory"): "killed_by_shell",
    ("oom", "shared_memory"): "bus_error",
    ("exception", "native_crash"): "segmentation_fault",
    ("cancelled", "signal"): "terminated",
    ("cancelled", "preemption"): "preempted",
    ("cancelled", "slurm"): "slurm_cancelled",
    ("time_limit", "slurm"): "time_limit",
    ("slurm_failure", "node_fail"): "node_failure",
    ("slurm_failure", "slurm_step"): "slurm_launch_failed",
}


def _signal_of_exit(catalogue: Catalogue, error_type: str, subsystem: str) -> Signal | None:
    """The signal whose hint fits the meaning of an exit code or a scheduler's state."""
    name = _SAYS_THE_SAME.get((error_type, subsystem))
    return next((each for each in catalogue.signals if each.name == name), None)


def _cause(
    catalogue: Catalogue,
    kind: tuple[str, str | None, float],
    evidence: Evidence,
    said: tuple[Signal | None, Mapping[str, str]],
    hinting: Signal | None = None,
) -> Cause:
    """``kind``: error type, subsystem and confidence. ``said``: the signal and what it extracted. ``hinting``: a signal
    whose hint fits better than its own."""
    error_type, subsystem, confidence = kind
    signal, found = said
    known = catalogue.error_types.get(error_type) or TYPES.get(error_type)
    hint, restartable = (known.hint, known.restartable) if known is not None else ("", None)
    spoken = hinting if hinting is not None else signal
    if spoken is not None and spoken.error_type == error_type:
        hint = spoken.hint or hint
        restartable = spoken.restartable if spoken.restartable is not None else restartable
    fields = {"rank": evidence.rank, "host": evidence.host, "file": evidence.file, "line": evidence.line, **found}
    name = signal.name if signal is not None else ""
    return Cause(error_type, evidence, round(confidence, 2), subsystem, restartable, filled(hint, fields), name)
