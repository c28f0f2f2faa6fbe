"""Tells several attempts in one file apart: what was appended to the output of a run that had ended."""

import re
import zlib
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final, Literal

from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

Evidence = Literal["talk", "vague", "own"]
"""What the next attempt shows: that something prints; a failure that may be the consequence of another, as of a peer
that went away; or one of its own, a success, or steps."""

_OPENING_LIMIT: Final = 24
_ENOUGH: Final = 3
"""So many different lines of the opening have to come again: one alone may be any line, and scripts say twice who they
are."""
_MUCH_TALK: Final = 60
"""So many lines an attempt prints before it counts, if it shows nothing else."""
_LETTERS_LEAST: Final = 12
_HEAD: Final = 200
_WINDOW: Final = 200
"""An attempt is appended right behind the end of the one before it: within so many lines."""
_TABLE: Final = ("|", "+")
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
"""How launchers, schedulers and shells say that the whole of it has ended, not one of several ranks."""
_MARK: Final = "mark "


def is_whole(text: str) -> bool:
    """Whether the line says that all ranks have ended."""
    return _WHOLE.search(text[:_HEAD]) is not None


@dataclass(eq=False, repr=False)
class AttemptMarks:
    """The marks by which attempts are told apart: an end, and behind it the lines with which the file began, some of
    them with the number of another job; or a shell's prompt.

    Ranks print the same lines, too, and one may die before the others have begun. So a line counts for its rank, if
    that is known, and only if it came once before the end. Where no rank is known, and nobody said that all of it had
    ended, it must come once behind the end as well, and what follows must be no consequence of the first one's death:
    to lose a cause is worse than to name that of an earlier attempt.
    """

    FORM: ClassVar = Form.SPARSE

    count: int = 1
    line: int = 0
    """Number of the line with which the present attempt begins. 0: with the file."""
    ended: int = 0
    """Number of the line that said last that this attempt had ended. 0: none did."""
    whole: bool = False
    """All its ranks had, as was said."""
    opening: dict[str, int] = field(default_factory=dict)
    """Digest of each of the first lines, behind ``RANK:`` if that is known → how often it came.
    0: once, behind the last end."""
    again: dict[str, int] = field(default_factory=dict)
    """Digest of such a line behind the end → its number there."""
    trained: bool = False
    """Training has made a step: what is printed from now on may come again and again."""
    job: str = ""
    """The number of the job that printed this, as it says."""

    def __post_init__(self) -> None:
        self.opening = dict(islice(self.opening.items(), _OPENING_LIMIT))
        self.again = dict(islice(self.again.items(), _OPENING_LIMIT))

    def wants(self, order: int) -> bool:
        """Whether it needs to see the line of that index, for the file is only beginning."""
        return order < _WINDOW and self._is_opening

    @property
    def _is_opening(self) -> bool:
        return not self.trained and len(self.opening) < _OPENING_LIMIT

    @property
    def next_line(self) -> int:
        """Number of the line with which the next attempt seems to begin; 0: there is none."""
        return min(self.again.values()) if len(self.again) >= _ENOUGH else 0

    @property
    def is_sure(self) -> bool:
        """Whether what seems to be the next attempt is not just a rank that begins late."""
        return self.whole or any(key.startswith(_MARK) for key in self.again) or all(":" in key for key in self.again)

    def end(self, number: int, *, whole: bool) -> None:
        """Line ``number`` says that the attempt has ended; ``whole``: all its ranks."""
        if not self.next_line or (whole and not self.is_sure):
            self.ended = number
            self.whole |= whole
            self.again.clear()
            self.opening = {key: count or 1 for key, count in self.opening.items()}

    def got_further(self, *, survived: bool) -> None:
        """Training made a step. ``survived``: it has not ended, whatever was said."""
        self.trained = True
        if survived and not self.next_line:
            self.ended, self.whole = 0, False
            self.again.clear()

    def read(self, number: int, text: str, rank: int | None, *, said: bool) -> None:
        """A line that reports nothing, and belongs to no traceback. ``said``: something was reported before it."""
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
                # It needs a line of the opening beside it, which may be itself, in the words of the first one.
                self._mark(number, _ENOUGH - 1)
            self.job = job["job"]
        masked = re.sub(r"\d\d+", "0", text[:_HEAD]).strip()
        if job is None and sum(map(str.isalpha, masked)) < _LETTERS_LEAST:
            return
        digest = f"{zlib.crc32(masked.encode()):08x}"
        self._came(number, digest if rank is None else f"{rank}:{digest}")

    def _came(self, number: int, key: str) -> None:
        if not self.ended:
            if key in self.opening or self._is_opening:
                self.opening[key] = self.opening.get(key, 0) + 1
        elif key in self.again and not self.is_sure:
            del self.again[key]
            self.opening[key] = 2
        elif self.opening.get(key) == 1:
            self.again.setdefault(key, number)
        elif key in self.opening:
            self.opening[key] = 2
        elif self._is_opening:
            self.opening[key] = 0

    def _mark(self, number: int, weight: int) -> None:
        """The line is worth ``weight`` lines of the opening."""
        self.again |= {f"{_MARK}{each}": number for each in range(weight)}

    def is_settled(self, number: int, evidence: Evidence) -> bool:
        """Whether the next attempt is under way at line ``number``. A mark alone, and talk, do not prove it: so do
        epilogues, and tools that somebody starts when a run has died."""
        first = self.next_line
        if not first or (evidence != "own" and not self.is_sure):
            return False
        if evidence == "talk":
            lines = sum(not key.startswith(_MARK) for key in self.again)
            return lines >= _ENOUGH and number - first > _MUCH_TALK
        return True

    def settle(self) -> int:
        """The next attempt has shown something of its own: it is the present one. Returns where it begins."""
        self.count += 1
        self.line = self.next_line
        self.ended, self.whole = 0, False
        self.again.clear()
        return self.line
