"""Verdicts reach people through the run that is open in this process, where there is one."""

from collections.abc import Sequence
from typing import Final

from lastbeat.model.rerun import RerunFinding, RerunReport, RerunVerdict
from lastbeat.model.text import counted
from lastbeat.sdk.open_run import open_run

_ALERTED: Final = (RerunVerdict.TRANSIENT_ERROR, RerunVerdict.CORRECT_RESULT)
"""Training goes on after these, so no end of it tells them."""


def tell(report: RerunReport, new: Sequence[RerunFinding], *, leads: bool) -> None:
    """Put ``report`` into the run's metadata.json, and raise an alert for those of ``new`` that no end of training will
    tell: where ``leads``, on the one rank that tells for all. Never raises, and waits for nothing."""
    run = open_run()
    if run is None:
        return
    run.report_rerun(report)
    if leads and report.exit_code is None:
        for verdict in _ALERTED:
            those = [each for each in new if each.verdict is verdict]
            if those:
                more = f"; the same on {counted(len(those) - 1, 'other rank')}" if len(those) > 1 else ""
                run.alert(verdict.told, f"{those[0]}{more}", level="warning")
