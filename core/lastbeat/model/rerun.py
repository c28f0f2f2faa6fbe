"""What re-runs of a step have shown: in metadata.json, in checkpoints, and for restart decisions.

The exit statuses are Megatron-LM's, so that schedulers' scripts which know them go on working.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, replace
from enum import Enum
from typing import Any, Final

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    UNSTAMPED,
    WHOLE,
    document_field,
    line_of,
    objects,
    one_of,
    read_object,
    written,
)
from lastbeat.model.pattern import Pattern
from lastbeat.model.text import fit

EXIT_CODE_RESUME_TO_DISAMBIGUATE: Final = 16
"""A bad result was reproduced: resuming the job on other hardware shows whether this hardware is at fault."""
EXIT_CODE_FAILED_ON_RESULT_VALIDATION: Final = 17
"""A bad result stands, or is known to be the hardware's: nothing is to be resumed."""
FIELD: Final = "rerun"
"""In metadata.json."""
MOST_FINDINGS: Final = 8
"""Most findings in metadata.json, the latest ones."""
TEXT_LIMIT: Final = 120
_LINE: Final = line_of(TEXT_LIMIT)
_HOST: Final = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RerunVerdict(str, Enum):
    """What the re-run of a step says about a bad result."""

    TRANSIENT_ERROR = "transient_error"
    """The same device gave a good result, when it was asked again."""
    REPRODUCED = "reproduced"
    """The same device gave a bad result again: only another device can tell why."""
    SAME_DEVICE = "same_device"
    """Resumed on the device that is in doubt, which shows nothing."""
    PERSISTENT_ERROR = "persistent_error"
    """Another device gave another result: the first one computes wrongly."""
    CORRECT_RESULT = "correct_result"
    """Another device gave the same result: it is the computation's."""
    UNDECIDED = "undecided"
    """The re-run did not come to this result again."""

    @property
    def told(self) -> str:
        """In the words that people search logs for."""
        return _TOLD[self]


_TOLD: Final = {
    RerunVerdict.TRANSIENT_ERROR: "Possible transient error!",
    RerunVerdict.REPRODUCED: "Need to rerun on a different GPU to verify correctness",
    RerunVerdict.SAME_DEVICE: "Got rescheduled on the same GPU",
    RerunVerdict.PERSISTENT_ERROR: "Possible persistent error!",
    RerunVerdict.CORRECT_RESULT: "Correct result (but possible Application error)",
    RerunVerdict.UNDECIDED: "The rerun did not come to this result again",
}


@dataclass(frozen=True, slots=True)
class RerunFinding:
    """One verdict. ``host``, ``device`` and ``what`` are hostile text where they were read."""

    verdict: RerunVerdict = document_field("verdict", one_of(RerunVerdict), required=True)
    rank: int = document_field("rank", WHOLE, required=True)
    host: str = document_field("host", _LINE, default=MISSING)
    """The node of the device in doubt."""
    device: str = document_field("device", _LINE, default=MISSING)
    """The device in doubt: its UUID, where it has one."""
    iteration: int = document_field("iteration", WHOLE, required=True)
    what: str = document_field("what", _LINE, default=MISSING)
    """What was wrong, and what the re-run gave: ``loss is NaN (nan, then 2.5)``."""

    def __str__(self) -> str:
        """``Rank 3, node n1, device GPU-1f2e, iteration #7: Possible persistent error! loss is NaN (nan, then 2)``."""
        return f"{self.who}: {self.verdict.told} {self.what}"

    @property
    def who(self) -> str:
        """``Rank 3, node n1, device GPU-1f2e, iteration #7``."""
        return f"Rank {self.rank}, node {self.host}, device {self.device}, iteration #{self.iteration}"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        texts = {name: fit(getattr(self, name), TEXT_LIMIT) for name in ("host", "device", "what")}
        return {**written(self), "verdict": self.verdict.value, **texts}


@dataclass(frozen=True, slots=True)
class RerunReport:
    """All that a run's re-runs have shown."""

    findings: tuple[RerunFinding, ...] = ()
    """The latest, oldest first."""
    exit_code: int | None = None
    """With which training ends because of the last of them. Launchers between may turn it into another one."""

    def fields(self) -> dict[str, Any]:
        """For metadata.json."""
        told = [each.document() for each in self.findings[-MOST_FINDINGS:]]
        return {FIELD: {"exit_code": self.exit_code, "findings": told}}

    @property
    def suspect_hosts(self) -> tuple[str, ...]:
        """The nodes to exclude when the run resumes: their devices gave a bad result twice in its last step and were
        not compared with others. Empty if not all of them are known."""
        if self.exit_code != EXIT_CODE_RESUME_TO_DISAMBIGUATE:
            return ()
        doubts = {RerunVerdict.REPRODUCED, RerunVerdict.SAME_DEVICE}
        last = [each for each in self.findings if each.iteration == self.findings[-1].iteration]
        if len(last) >= MOST_FINDINGS:
            # There may be more than the report holds.
            return ()
        hosts = dict.fromkeys(each.host for each in last if each.verdict in doubts)
        # What is no name of a host reaches no scheduler.
        return tuple(each for each in hosts if _HOST.fullmatch(each))

    def error(self) -> str:
        """The text of the ``_error`` if training ends because of them."""
        return "\n".join([*map(str, reversed(self.findings)), f"exit status {self.exit_code}"])


def read_rerun(value: object, mask: Callable[[str], str] = str) -> RerunReport | None:
    """The report in a document; None if it is invalid. ``mask`` hides secrets in its text. Never raises."""
    if not isinstance(value, Mapping):
        return None
    code = value.get("exit_code")
    codes = (EXIT_CODE_RESUME_TO_DISAMBIGUATE, EXIT_CODE_FAILED_ON_RESULT_VALIDATION)
    findings = read_findings(value.get("findings"), mask)
    return RerunReport(findings, code if type(code) is int and code in codes else None)


def read_findings(value: object, mask: Callable[[str], str] = str) -> tuple[RerunFinding, ...]:
    """Those that are understood. Never raises."""
    reading = replace(UNSTAMPED, mask=mask)
    entries = objects(value[-MOST_FINDINGS:], MOST_FINDINGS) if isinstance(value, list) else []
    found = (read_object(RerunFinding, each, reading, host="", device="", what="") for each in entries)
    return tuple(each for each in found if each is not None)
