"""The row of one run that was looked at in depth: the same as the table of its fleet has. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from lastbeat.model import runid
from lastbeat.model.policy import Policy
from lastbeat.model.status import Status
from lastbeat.model.view import Row, WatchState
from lastbeat.stores.port import Entry
from lastbeat.views.excerpts import Safe
from lastbeat.views.heartbeats import HeartbeatFields
from lastbeat.views.held import Got
from lastbeat.views.judging import Judged
from lastbeat.views.known import DocumentRequest, Known, UnreadableDocument
from lastbeat.views.rows import doubt_of, row
from lastbeat.views.standings import of_record

_NOBODY = WatchState()
_ACTION_LIMIT = 1000
_REASON_LIMIT = 500


@dataclass(frozen=True)
class Looked:
    """What one look at a run found."""

    run_id: str
    at: datetime
    files: Mapping[str, Entry]
    got: Mapping[str, Got]
    """What was read of it, by name, and why it could not be."""
    told: Mapping[str, HeartbeatFields]
    """What its heartbeats say, by name."""
    judged: Judged

    def may_be_doubted(self, policy: Policy) -> bool:
        """Whether it matters if anybody watches: only then is it worth a read to find out."""
        record = self.judged.record
        return record is not None and doubt_of(of_record(record), self.files, self.at, policy, _NOBODY) is not None


def run_row(looked: Looked, policy: Policy, watching: WatchState, safe: Safe) -> Row:
    """The run as the table of its fleet shows it."""
    files, judged = looked.files, looked.judged
    known = Known(looked.run_id, files)
    read = looked.got.get(runid.RECORD)
    if judged.record is not None and read is not None:
        known.record, known.record_version = of_record(judged.record, safe.mask), read.entry.version
    for name, each in looked.told.items():
        if name != runid.PROGRESS or judged.seen is None or judged.seen.progress is not None:
            known.take_told(DocumentRequest(looked.run_id, files[name], name, first=False), each)
    error = looked.got.get(runid.ERROR)
    if error is not None and error.blob is not None:
        known.error_text = safe.text(error.blob.body.decode("utf-8", "replace"))
        known.read(DocumentRequest(looked.run_id, files[runid.ERROR], runid.ERROR, first=False))
    for name, each_read in looked.got.items():
        if each_read.fault is not None and name in files:
            known.refused[name] = UnreadableDocument(
                files[name].version, safe.name(str(each_read.fault)), 0, again=True
            )
    shown = row(known, looked.at, policy, watching)
    if judged.record is not None:
        # There is room for all that was recorded, where a table has little.
        whole = shown.reason if judged.status is Status.RUNNING else safe.name(judged.reason, _REASON_LIMIT)
        return replace(shown, reason=whole, action=safe.maybe(judged.action, _ACTION_LIMIT))
    # Whoever looks at one run reads its logs, and so may know better than the fleet's table does.
    lives = judged.status is Status.RUNNING
    if judged.status is not shown.status:
        # Since when it is so, a log does not tell, and how fast it was says nothing of what is left.
        shown = replace(shown, since=None, strip=(), eta_s=None, steps_per_s=None, tokens_per_s=None)
    return replace(
        shown,
        status=judged.status,
        recorded=False,
        reason=safe.name("; ".join(judged.conditions.values()) if lives else judged.reason, _REASON_LIMIT),
        cause=safe.maybe(judged.cause),
        action=safe.maybe(judged.action, _ACTION_LIMIT),
        conditions=tuple(safe.name(name) for name in judged.conditions),
        attempt=judged.attempt.number,
        fault=safe.maybe(judged.fault) or shown.fault,
    )
