"""What several files say together → the root cause: :func:`explain`."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from lastbeat.causes import contexts, exit_codes, stacks, stated
from lastbeat.causes.findings import Finding, Tier, findings_of, in_order
from lastbeat.causes.mentions import Account, Mention
from lastbeat.causes.reading import LogReader
from lastbeat.causes.telling import cause_of, signal_of_exit
from lastbeat.causes.weighing import confidence_of, earliest, overtakes
from lastbeat.causes.window import over
from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.signal import Catalogue, Signal
from lastbeat.scanning.prefixes import UNKNOWN_YEAR
from lastbeat.signals.error_types import UNKNOWN

MOST_ALTERNATIVES: Final = 3
MOST_DOWNSTREAM: Final = 12
_STEP_UNDER_WAY: Final = timedelta(minutes=2)
"""Other ranks do not report steps so long after one of them has ended."""
_MUCH_TALK: Final = 60
"""So many lines after the last report do not come from a program that it ended."""
_GRADIENTS: Final = 3
"""So many times in a row a gradient that is no number is more than a step that the loss scaler skips."""
_TEXT_LIMIT: Final = 4 * 1024 * 1024


def explain(
    accounts: Sequence[Account], catalogue: Catalogue, *, exit_code: int | None = None, scheduler: str | None = None
) -> Explanation:
    """The cause that the files' accounts, an exit code and a scheduler's word (``OUT_OF_MEMORY``) show together."""
    return _Case(accounts, catalogue, exit_code, scheduler).explanation()


def explain_text(text: str | bytes, catalogue: Catalogue, file: str = "-") -> Explanation:
    """The cause that one text shows, of which the beginning and the end count if it is very long."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    reader = LogReader(catalogue, file)
    if len(data) > 2 * _TEXT_LIMIT:
        reader.feed(data[:_TEXT_LIMIT])
        reader.skipped(len(data) - 2 * _TEXT_LIMIT)
        data = data[-_TEXT_LIMIT:]
    reader.feed(data)
    reader.finish()
    return explain([reader.account()], catalogue)


class _Case:
    def __init__(
        self, accounts: Sequence[Account], catalogue: Catalogue, exit_code: int | None, scheduler: str | None
    ) -> None:
        self._accounts = accounts = in_order(accounts)
        self._catalogue = catalogue
        self._exit_code = exit_code
        self._scheduler = scheduler
        self._signals: Mapping[str, Signal] = {
            **stated.SIGNALS,
            **{signal.name: signal for signal in catalogue.signals},
        }
        every = findings_of(accounts, self._signals)
        self._passed = [each for each in every if self._went_on(each)]
        self._findings = [each for each in every if not self._went_on(each)]
        self._confirmed = bool(exit_code) or any(map(_confirms, self._findings))
        if not self._confirmed:
            last = {each.file: each.mention.evidence.line for each in self._findings}
            self._findings = [each for each in self._findings if not self._talked_on(each, last[each.file])]

    def _went_on(self, finding: Finding) -> bool:
        """Whether training went on after it: in the same file, or, as the lines' own times tell, in another."""
        if over(finding.mention, self._accounts[finding.file].steps):
            return True
        own = finding.mention.evidence.time
        if own is None or own.year == UNKNOWN_YEAR:
            return False
        others = [account.progress_time for index, account in enumerate(self._accounts) if index != finding.file]
        return any(time is not None and time - own > _STEP_UNDER_WAY for time in others)

    def _talked_on(self, finding: Finding, last: int) -> bool:
        """Whether a report was only logged, and what was printed after it and all others does not look like an end."""
        much = self._accounts[finding.file].lines - last > _MUCH_TALK
        sure = finding.mention.fatal or finding.tier in {Tier.FACT, Tier.SYMPTOM, Tier.EXIT}
        return much and not sure

    def explanation(self) -> Explanation:
        best = self._best()
        success = next((each.success for each in self._accounts if each.success is not None), None)
        nan = self._nan()
        if success is not None and nan is None and not self._confirmed and (best is None or best.tier <= Tier.CASCADE):
            # It is done, and what is torn down makes noise.
            return Explanation(success=success.evidence)
        if nan is not None and (best is None or not _before_nan(best, nan)):
            return self._told(nan, best)
        told = self._by_exit(best)
        if told is not None:
            return told
        return self._told(earliest(best, self._findings), best) if best is not None else Explanation()

    # Which finding is the cause.

    def _best(self) -> Finding | None:
        best: Finding | None = None
        for finding in self._findings:
            passing = finding.precursor and not self._stands(finding)
            if finding.tier == Tier.CONFIRMATION or passing:
                continue
            if best is None or overtakes(finding, best):
                best = finding
        if best is None and self._confirmed and self._passed:
            return self._insisted(killed=True) or self._passed[-1]
        if best is None:
            return self._insisted(killed=self._confirmed) or self._stood()
        if best.tier == Tier.EXIT and best.error_type == "oom":
            # Somebody who had said that nothing moves may well have sent the signal.
            return self._insisted(killed=True) or best
        if self._confirmed or best.mention.raised or best.tier > Tier.CASCADE:
            return best
        # Somebody missed somebody: unless something says that it mattered, that is nothing.
        mattered = any(each.mention.fatal or self._closes(each) for each in self._findings)
        return best if mattered or best.error_type not in {"communication", "nccl"} else None

    def _insisted(self, *, killed: bool) -> Finding | None:
        """Somebody who only warned that nothing moves, but again and again, or right before the end."""
        warned = [
            each
            for each in self._findings
            if each.tier == Tier.SYMPTOM and each.mention.low and not contexts.retries(each.mention.evidence.text)
        ]
        again = sum(each.mention.count for each in warned) > 1
        return warned[0] if warned and (again or killed) else None

    def _stood(self) -> Finding | None:
        """Stacks that somebody printed without a word, of threads that wait for each other or right before the end."""
        signal = self._signals.get("hang_stated")
        if signal is None or not (self._confirmed or self._circular()):
            return None
        for index, account in enumerate(self._accounts):
            for stack in account.stacks[:1]:
                evidence = Evidence(account.file, stack.line, stack.text, stack.rank, None, account.last_time)
                mention = Mention(signal.name, evidence, 0, account.steps)
                return Finding(mention, signal, Tier.SYMPTOM, "hang", "stack_dump", index, account.last_time)
        return None

    def _stands(self, finding: Finding) -> bool:
        """Whether a finding that only warns is all that there is before the end."""
        if finding.mention.raised:
            return not finding.mention.weak
        return finding.signal.kind == "exception" and not finding.mention.weak

    def _nan(self) -> Finding | None:
        """Values that were no numbers until the end."""
        for index, account in enumerate(self._accounts):
            nan = account.nan
            if nan is None or nan.signal not in self._signals or (nan.weak and nan.count < _GRADIENTS):
                continue
            signal = self._signals[nan.signal]
            return Finding(
                nan, signal, Tier.SPECIFIC, "numerical_instability", signal.subsystem, index, nan.evidence.time
            )
        return None

    def _by_exit(self, best: Finding | None) -> Explanation | None:
        """The exit code's or the scheduler's word, where the log says nothing better."""
        if best is not None and best.tier > Tier.EXIT:
            return None
        confirming = [each for each in self._findings if each.tier == Tier.CONFIRMATION]
        meaning, said = self._exit_meaning(best, confirming)
        if meaning is None:
            if best is not None or not self._confirmed:
                return None
            meaning = (UNKNOWN, "", 0.2)
        said = said or next(iter(confirming), None) or best
        evidence = said.mention.evidence if said is not None else self._end()
        error_type, subsystem, confidence = meaning
        signal = said.signal if said is not None else None
        found = said.mention.fields if said is not None else {}
        hinting = signal_of_exit(self._catalogue, error_type, subsystem)
        kind = (error_type, subsystem or None, confidence)
        cause = cause_of(self._catalogue, kind, evidence, (signal, found), hinting)
        return Explanation(cause, self._alternatives(None, error_type), (), ended=True)

    def _exit_meaning(
        self, best: Finding | None, confirming: Sequence[Finding]
    ) -> tuple[exit_codes.Meaning | None, Finding | None]:
        """What the way it ended means, and the line that tells it."""
        told = exit_codes.of_scheduler(self._scheduler) if self._scheduler else None
        if told is not None or (best is not None and best.tier == Tier.EXIT):
            return told, None
        for finding in confirming:
            meaning = exit_codes.of_fields(finding.mention.fields)
            # Who was stopped says nothing beside somebody who missed somebody; who died of itself does.
            if meaning is not None and (best is None or meaning[0] in {"oom", "exception", "time_limit"}):
                return meaning, finding
        if best is None and self._exit_code:
            return exit_codes.of_exit_code(self._exit_code), None
        return None, None

    def _end(self) -> Evidence:
        account = self._accounts[0] if self._accounts else Account("-")
        code = f"exit code {self._exit_code}" if self._exit_code else str(self._scheduler or "")
        return Evidence(account.file, account.lines, code, account.rank, None, account.last_time)

    # How it is told.

    def _told(self, finding: Finding, best: Finding | None) -> Explanation:
        best = best or finding
        error_type, subsystem = finding.error_type, finding.subsystem
        if error_type == "hang" and self._circular():
            error_type, subsystem = "deadlock", "circular_wait"
        strongest = best if best.error_type == finding.error_type else finding
        confidence = confidence_of(strongest, self._findings, confirmed=self._confirmed)
        signal = finding.signal if finding.signal.hint or not best.signal.hint else best.signal
        fields_found = {**best.mention.fields, **finding.mention.fields}
        evidence = finding.mention.evidence
        cause = cause_of(self._catalogue, (error_type, subsystem, confidence), evidence, (signal, fields_found))
        downstream = self._downstream(finding)
        ended = self._ended(strongest) or self._ended(best)
        return Explanation(cause, self._alternatives(finding, error_type), downstream, ended=ended)

    def _alternatives(self, chosen: Finding | None, error_type: str) -> tuple[Cause, ...]:
        told: dict[str, Cause] = {}
        ranked = sorted(self._findings, key=lambda each: (-each.tier, each.mention.order))
        for finding in ranked:
            if finding is chosen or finding.tier <= Tier.CASCADE or finding.error_type in {error_type, UNKNOWN, *told}:
                continue
            confidence = 0.5 * confidence_of(finding, self._findings, confirmed=self._confirmed)
            mention = finding.mention
            kind = (finding.error_type, finding.subsystem, confidence)
            said = (finding.signal, mention.fields)
            told[finding.error_type] = cause_of(self._catalogue, kind, mention.evidence, said)
            if len(told) == MOST_ALTERNATIVES:
                break
        return tuple(sorted(told.values(), key=lambda cause: -cause.confidence))

    def _downstream(self, cause: Finding) -> tuple[Evidence, ...]:
        behind: list[Evidence] = []
        seen: set[tuple[str, int | None]] = set()
        past = False
        for finding in self._findings:
            if finding.mention is cause.mention:
                past = True
                continue
            key = (finding.signal.name, finding.rank)
            if not past or key in seen or _repeats(finding.mention.evidence, cause.mention.evidence):
                continue
            seen.add(key)
            behind.append(finding.mention.evidence)
        return tuple(behind[:MOST_DOWNSTREAM])

    def _circular(self) -> bool:
        found = [stack for account in self._accounts for stack in account.stacks]
        waited = [
            finding.mention.site
            for finding in self._findings
            if finding.tier in {Tier.CASCADE, Tier.SYMPTOM} and finding.mention.where == "collective"
        ]
        return stacks.circular(found, waited)

    def _ended(self, best: Finding) -> bool:
        if self._confirmed or best.tier == Tier.FACT or any(map(self._closes, self._findings)):
            return True
        if best.signal.kind == "nan" or best.signal.verdict == "stalled" or best.mention.low:
            return False
        return best.mention.fatal or best.signal.verdict == "timeout"

    def _closes(self, finding: Finding) -> bool:
        """Whether nothing but the rest of an end stands behind what was reported, as an error and as one that ends a
        run."""
        mention, signal = finding.mention, finding.signal
        if mention.weak or mention.low or not (mention.raised or signal.verdict == "crash"):
            return False
        # That somebody missed somebody may be got over; that a process was ended may not.
        ended = finding.tier != Tier.CASCADE or finding.error_type in {"cancelled", "exception"}
        stated_so = mention.raised or (signal.severity != "warning" and ended and signal.subsystem != "ray")
        return stated_so and mention.evidence.line > self._accounts[finding.file].talked


def _confirms(finding: Finding) -> bool:
    told = finding.tier == Tier.CONFIRMATION and finding.signal.severity != "warning"
    return told and not finding.mention.weak


def _repeats(line: Evidence, cause: Evidence) -> bool:
    """Whether ``line`` is the cause once more, as ``_error`` and a traceback's last line say the same."""
    one, other = line.text.strip(), cause.text.strip()
    return line.rank in {None, cause.rank} and (one.endswith(other) or other.endswith(one))


def _before_nan(best: Finding, nan: Finding) -> bool:
    """Whether something says more about the end than values that were no numbers."""
    return (
        best.tier == Tier.FACT
        and best.error_type in {"hardware", "slurm_failure"}
        and best.mention.order < nan.mention.order
    )
