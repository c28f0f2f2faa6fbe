"""Separates several attempts in one file, where a new attempt was appended to the output of an ended one."""

import re
import zlib
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final, Literal

from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

Evidence = Literal["talk", "vague", "own"]
"""Evidence of a next attempt: ``talk`` is any output; ``vague`` a failure that may follow from another, such as a lost
peer; ``own`` a failure of its own, a success, or steps."""

_OPENING_LIMIT: Final = 24
"""Most opening lines whose digests are kept."""
_ENOUGH: Final = 3
"""Least number of different opening lines whose repetition shows another attempt. One alone may be any line, and
scripts may print their name twice."""
_MUCH_TALK: Final = 60
"""Least number of lines that an attempt prints before it counts, if it shows nothing else."""
_LETTERS_LEAST: Final = 12
"""Least letters of an opening line, so that rules and numbers do not count."""
_HEAD: Final = 200
"""Characters at a line's beginning that are compared."""
_WINDOW: Final = 200
"""Most lines between the end of an attempt and the beginning of the next."""
_TABLE: Final = ("|", "+")
"""Beginnings of rows of a table, which repeat without a restart."""
_PROMPT: Final = Pattern(
    r"(?:\([\w.-]{1,60}\) {0,2}){0,2}\[?[\w.-]{1,60}@[\w.-]{1,80}[^$#]{0,120}[$#] {1,4}"
    r"(?:[A-Z_0-9]{1,60}=\S{1,80} |nohup |time ){0,6}"
    r"(?:python[\d.]{0,5}|torchrun|accelerate|deepspeed|srun|mpirun|mpiexec|bash|sh|\./\S{1,80}) ?"
)
"""A shell's prompt with a program behind it: the program before it has ended."""
# All jobs of an array name the array, and so may an epilogue.
_JOB: Final = Pattern(r"\b(?<![Aa]rray )(?:SLURM_JOB_?ID|[Jj]ob ?(?:ID|Id|id))\b ?[=:] ?(?P<job>\d{3,12})\b")
_WHOLE: Final = Pattern(
    r"\bChildFailedError\b|srun: (?:forcing job termination|Force Terminated|Job step aborted|Terminating )|"
    r"\*\*\* (?:JOB|STEP) \S{1,40} ON |mpirun: killing job|Primary job {1,2}terminated|BAD TERMINATION OF ONE|"
    r"(?:mpirun|mpiexec|prterun) (?:noticed|detected|has exited)|"
    r"\S{1,120}: line \d{1,6}: {1,4}\d{1,8} (?:Killed|Aborted|Terminated|Segmentation|Bus error|Floating point)"
)
"""Lines of launchers, schedulers and shells which mean that all ranks have ended, not one of several."""
_MARK: Final = "mark "
"""Prefix of keys in ``again`` that stand for a sure sign instead of an opening line."""


def is_whole(text: str) -> bool:
    """Whether the line means that all ranks have ended."""
    return _WHOLE.search(text[:_HEAD]) is not None


@dataclass(eq=False, repr=False)
class AttemptMarks:
    """The marks that separate attempts: an end followed by the lines with which the file began, some of them with the
    number of another job; or a shell's prompt.

    Ranks print the same lines too, and one may die before the others have begun. So a line counts for its rank, if that
    is known, and only if it came once before the end. Without a known rank, or a line that ends all ranks, it must come
    once behind the end as well. The output that follows must then be no consequence of the first death: to lose a cause
    is worse than to name that of an earlier attempt.
    """

    FORM: ClassVar = Form.SPARSE

    count: int = 1
    line: int = 0
    """First line of the present attempt; 0 if it begins with the file."""
    ended: int = 0
    """Last line that reported the end of this attempt; 0 if none did."""
    whole: bool = False
    """Whether all its ranks were reported to have ended."""
    opening: dict[str, int] = field(default_factory=dict)
    """Digest of each of the first lines, behind ``RANK:`` if that is known → its count; 0 if it came once, behind the
    last end."""
    again: dict[str, int] = field(default_factory=dict)
    """Digest of such a line behind the end → its line number there."""
    trained: bool = False
    """Whether training has made a step, so that later lines may be repetitive."""
    job: str = ""
    """Number of the job in the output."""
    first: int = 0
    """First line that was read."""

    def __post_init__(self) -> None:
        self.opening = dict(islice(self.opening.items(), _OPENING_LIMIT))
        self.again = dict(islice(self.again.items(), _OPENING_LIMIT))

    def wants(self, order: int) -> bool:
        """Whether it needs the line with index ``order``, because the file is just beginning."""
        return order < _WINDOW and self._is_opening

    @property
    def _is_opening(self) -> bool:
        return not self.trained and len(self.opening) < _OPENING_LIMIT

    @property
    def next_line(self) -> int:
        """First line of the apparent next attempt; 0 if there is none."""
        return min(self.again.values()) if len(self.again) >= _ENOUGH else 0

    @property
    def is_sure(self) -> bool:
        """Whether the apparent next attempt cannot be a rank that begins late."""
        return self.whole or any(key.startswith(_MARK) for key in self.again) or all(":" in key for key in self.again)

    def end(self, number: int, *, whole: bool) -> None:
        """Note that line ``number`` reports the end of the attempt, or of all its ranks if ``whole``."""
        if not self.next_line or (whole and not self.is_sure):
            self.ended = number
            self.whole |= whole
            self.again.clear()
            self.opening = {key: count or 1 for key, count in self.opening.items()}

    def got_further(self, *, survived: bool) -> None:
        """Note a step of training. ``survived`` says that the attempt went on in spite of a reported end."""
        self.trained = True
        if survived and not self.next_line:
            self.ended, self.whole = 0, False
            self.again.clear()

    def read(self, number: int, text: str, rank: int | None, *, said: bool) -> None:
        """Read a line that reports nothing and belongs to no traceback. ``said`` says that a report came before it."""
        if (said or self.trained or self.ended) and not self.next_line and _PROMPT.match(text):
            self._mark(number, _ENOUGH)
            return
        if self.ended and number - self.ended > _WINDOW and not self.next_line:
            return
        if text.startswith(_TABLE):
            return
        job = _JOB.search(text[:_HEAD])
        if job is not None:
            if self.ended and self.job and job["job"] != self.job and not self.next_line:
                # It needs an opening line beside it. That may be itself, if it repeats the words of the first one.
                self._mark(number, _ENOUGH - 1)
            self.job = job["job"]
        masked = re.sub(r"\d\d+", "0", text[:_HEAD]).strip()
        if job is None and sum(map(str.isalpha, masked)) < _LETTERS_LEAST:
            return
        digest = f"{zlib.crc32(masked.encode()):08x}"
        self._came(number, digest if rank is None else f"{rank}:{digest}")

    def _came(self, number: int, key: str) -> None:
        self.first = self.first or number
        is_opening = self._is_opening and number - self.first < _WINDOW
        if not self.ended:
            if key in self.opening or is_opening:
                self.opening[key] = self.opening.get(key, 0) + 1
        elif key in self.again and not self.is_sure:
            del self.again[key]
            self.opening[key] = 2
        elif self.opening.get(key) == 1:
            self.again.setdefault(key, number)
        elif key in self.opening:
            self.opening[key] = 2
        elif is_opening:
            self.opening[key] = 0

    def _mark(self, number: int, weight: int) -> None:
        """Count the line as ``weight`` lines of the opening."""
        self.again |= {f"{_MARK}{each}": number for each in range(weight)}

    def is_settled(self, number: int, evidence: Evidence) -> bool:
        """Whether the next attempt is under way at line ``number``. A mark and talk alone do not prove it: epilogues
        print them too, and tools that a user starts after a death."""
        first = self.next_line
        if not first or (evidence != "own" and not self.is_sure):
            return False
        if evidence == "talk":
            lines = sum(not key.startswith(_MARK) for key in self.again)
            return lines >= _ENOUGH and number - first > _MUCH_TALK
        return True

    def settle(self) -> int:
        """Make the next attempt the present one, after evidence of its own. Returns its first line."""
        self.count += 1
        self.line = self.next_line
        self.ended, self.whole = 0, False
        self.again.clear()
        return self.line
