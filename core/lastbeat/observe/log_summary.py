"""What several log files say together."""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from lastbeat.model.log_report import LogReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lastbeat.causes.mentions import Account
    from lastbeat.model.cause import Explanation
    from lastbeat.observe.file_log import FileLog


def summary(told: "Sequence[tuple[FileLog, Account]]", explanation: "Explanation") -> LogReport:
    """The newest of what files with text say; how far training got is told by whichever moved last."""
    written = [file.written_at for file, _ in told if file.written_at is not None]
    seen: dict[str, datetime] = {}
    for _, account in told:
        for name, at in account.last_seen.items():
            seen[name] = max(at, seen.get(name, at))
    mark = hashlib.sha256("\0".join(file.mark for file, _ in told).encode("utf-8", "replace")).hexdigest()[:16]
    cause = explanation.cause
    shown = [file.written_at for file, _ in told if cause is not None and file.name == cause.evidence.file]
    report = LogReport(
        written_at=max(written, default=None),
        explanation=explanation,
        last_seen=seen,
        mark=mark,
        shown_at=next(iter(shown), None),
    )
    moving = [(file, account) for file, account in told if file.progress_at is not None]
    if not moving:
        return report
    file, account = max(moving, key=lambda each: (each[0].progress_at, each[0].step or 0, each[0].name))
    progress = account.progress
    return replace(
        report,
        progress_at=file.progress_at,
        step=progress.step,
        total_steps=progress.total_steps,
        loss=progress.loss,
        learning_rate=progress.learning_rate,
        throughput=progress.throughput,
        throughput_unit=progress.throughput_unit,
    )
