"""What happened to a run after a failure: whether starting it again helped. Pure."""

from lastbeat.model.record import Record
from lastbeat.model.similar import FAILED_AGAIN, GOT_FURTHER, NOT_STARTED, WENT_ON
from lastbeat.model.status import UNWELL, Status
from lastbeat.watch.decide.past_run import past_run
from lastbeat.watch.decide.timesheet import restart_waits


def aftermath(record: Record, attempt: int, fingerprint: str) -> str:
    """What happened to the run after ``attempt`` failed with ``fingerprint``, as a word of ``model.similar``; empty if
    the record does not show it.

    1. The run was not started again, and has not come back by itself. A restart that waits in a queue counts as one.
    2. The next attempt failed with the same fingerprint: it failed again, however far it got.
    3. A later attempt ended well: it went on.
    4. The next attempt got further and has not failed since: it went on. A step more and another failure is no success.
    """
    ends = past_run(record).ends
    failed = next((each for each in reversed(ends) if each.attempt == attempt), None)
    if failed is None or failed.came_back:
        return ""
    later = [each for each in record.history if each.attempt > attempt]
    if not later:
        return NOT_STARTED if record.attempt.number == attempt and not restart_waits(record) else ""
    following = later[0].attempt
    if fingerprint in {each.fingerprint for each in later if each.attempt == following}:
        return FAILED_AGAIN
    if any(each.after is Status.SUCCEEDED for each in later):
        return WENT_ON
    if failed.reached is None or failed.reached <= (failed.end.step if failed.end.step is not None else -1):
        return ""
    died = any(each.attempt == following and not each.came_back and each.status in UNWELL for each in ends)
    return GOT_FURTHER if died else WENT_ON
