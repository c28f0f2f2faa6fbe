"""The evidence that conditions need, and when a check lacks it."""

from typing import Final

from lastbeat.watch.decide import logs
from lastbeat.watch.decide.conditions.condition import Check, Source
from lastbeat.watch.decide.recovery import alive_at, got_on


def _metadata_unread(check: Check) -> bool:
    metadata = check.evidence.seen.metadata
    return check.evidence.metadata is not None and (metadata is None or metadata.fault is not None)


def _ranks_unread(check: Check) -> bool:
    ranks = check.evidence.seen.ranks
    return ranks is None or ranks.unread or ranks.denied


def _nodes_unread(check: Check) -> bool:
    metadata, ranks = check.evidence.seen.metadata, check.evidence.seen.ranks
    if check.evidence.metadata is not None and check.evidence.metadata.suspect:
        # An old document that was stored again shows nothing about the node's current state.
        return True
    if ranks is None:
        return metadata is not None and (metadata.world_size or 1) > 1
    return ranks.unread or ranks.denied or ranks.ill_left


def _network_unread(check: Check) -> bool:
    report = check.evidence.seen.logs
    return report is None or report.efa.active is None


def _logged_steps_hidden(check: Check) -> bool:
    evidence = check.evidence
    return bool(evidence.hidden) and evidence.progress is None


def _logged_progress_hidden(check: Check) -> bool:
    return bool(check.evidence.hidden) and (check.evidence.progress is None or logs.waits_for_lines(check.policy))


def _no_new_beat(check: Check) -> bool:
    return alive_at(check.evidence.before.metadata) == alive_at(check.evidence.metadata)


def _no_new_step(check: Check) -> bool:
    return not got_on(check.evidence.before, check.evidence)


def _no_new_progress(check: Check) -> bool:
    before, evidence = check.evidence.before, check.evidence
    return _no_new_step(check) and alive_at(before.progress) == alive_at(evidence.progress)


METADATA: Final = Source("metadata.json", _metadata_unread)
RANKS: Final = Source("the ranks' heartbeats", _ranks_unread)
NODES: Final = Source("what nodes report of their health", _nodes_unread)
LOGS: Final = Source("the logs", lambda check: check.evidence.logs_unread)
NETWORK: Final = Source("NCCL's lines on its network", _network_unread)
LOGGED_STEPS: Final = Source("steps that only logs show", _logged_steps_hidden)
LOGGED_PROGRESS: Final = Source("steps or lines that only logs show", _logged_progress_hidden)
# Watchers with different limits share one record: a laxer limit is no sign of life.
NEW_BEAT: Final = Source("a later beat than the record's", _no_new_beat)
NEW_STEP: Final = Source("a later step than the record's", _no_new_step)
NEW_PROGRESS: Final = Source("a later step or progress.json than the record's", _no_new_progress)
