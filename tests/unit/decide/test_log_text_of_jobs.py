"""Log text and the job that an attempt is: what was stored before the job was submitted is of an earlier one."""

from datetime import datetime, timedelta, timezone

import pytest

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.log_report import LogReport
from lastbeat.model.observation import Seen
from lastbeat.model.record import Attempt, Record
from lastbeat.watch.decide.attempt import match_attempt

SUBMITTED = datetime(2026, 3, 1, 12, 0, 30, 250_000, tzinfo=timezone.utc)
FAILED = Explanation(Cause("oom", Evidence("r0.out", 7, "CUDA out of memory"), 0.95), ended=True)
ROWS = [
    pytest.param(timedelta(hours=-1), False, id="stored long before, and read only now"),
    pytest.param(timedelta(milliseconds=-1), False, id="stored just before"),
    pytest.param(timedelta(0), True, id="stored at that moment"),
    pytest.param(timedelta(minutes=5), True, id="stored since"),
    pytest.param(timedelta(microseconds=-250_000), True, id="a store whose stamps have whole seconds"),
]


@pytest.mark.parametrize(("after", "counts"), ROWS)
def test_text_counts_from_the_submission_on(after: timedelta, counts: bool) -> None:
    at = SUBMITTED + after
    record = Record("run", attempt=Attempt(2, job="run-r1", begun_at=SUBMITTED))
    seen = match_attempt(record, Seen(logs=LogReport(written_at=at, shown_at=at, explanation=FAILED)), None).seen
    assert (seen.logs is not None) is counts
