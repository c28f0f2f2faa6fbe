"""An earlier failure with the same fingerprint, and what became of it then."""

from datetime import datetime
from typing import ClassVar, Final

from lastbeat.model.data import dataclass
from lastbeat.model.persisted import Form, Persisted

KNOWN_FAILURES: Final = "_watchdog/causes.json"
"""Beside the runs: which runs failed with which fingerprint."""

# What became of a run after it had failed.
WENT_ON: Final = "went_on"
GOT_FURTHER: Final = "got_further"
FAILED_AGAIN: Final = "failed_again"
NOT_STARTED: Final = "not_started"

_TOLD: Final = {
    WENT_ON: ", which went on after a restart",
    GOT_FURTHER: ", which got further after a restart and then failed",
    FAILED_AGAIN: ", which failed again the same way after a restart",
    NOT_STARTED: ", which nobody has started again",
}


@dataclass(frozen=True)
class SimilarFailure(Persisted):
    """The latest earlier failure with the same fingerprint: of another run where there is one."""

    FORM: ClassVar = Form.SPARSE

    run_id: str
    at: datetime
    attempt: int = 1
    own: bool = False
    """It is an earlier attempt of the very run."""
    runs: int = 1
    """Number of runs that have failed like this, including the present one."""
    aftermath: str = ""
    """:data:`WENT_ON`, :data:`GOT_FURTHER`, :data:`FAILED_AGAIN` or :data:`NOT_STARTED`. Empty: not known."""

    def told(self, now: datetime) -> str:
        """``same as run X on 14 May (3 runs so far), which went on after a restart``."""
        day = f"{self.at.day} {_MONTHS[self.at.month - 1]}"
        when = day if self.at.year == now.year else f"{day} {self.at.year}"
        many = f" ({self.runs:,} runs so far)" if self.runs > 1 else ""
        if self.own:
            return f"same as attempt {self.attempt} of this run on {when}{many}"
        return f"same as run {self.run_id} on {when}{many}{_TOLD.get(self.aftermath, '')}"


_MONTHS: Final = ("Jan", "Feb", "March", "April", "May", "June", "July", "Aug", "Sept", "Oct", "Nov", "Dec")
