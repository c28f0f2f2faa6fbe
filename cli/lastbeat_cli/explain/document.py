"""The JSON document of ``explain --json``."""

from collections.abc import Callable

from lastbeat.model.cause import AttemptInFile, Cause, Evidence, Idle, LostPeer, MissingRanks
from lastbeat.model.stuck_collective import StuckCollective
from lastbeat.model.times import format_time
from lastbeat_cli.explain.story import ExplainReport, hint, restartable

Mask = Callable[[str], str]


def story_document(story: ExplainReport, mask: Mask) -> dict[str, object]:
    """The documented keys, always all of them; unknown values are null. ``mask`` cleans text from training."""
    found = story.explanation
    cause = found.cause
    return {
        "cause": _cause(cause, story, mask) if cause is not None else None,
        "second": _second(found.second, story, mask) if found.second is not None else None,
        "alternatives": [_cause(other, story, mask) for other in found.alternatives],
        "downstream": [_evidence(each, mask) for each in found.downstream],
        "hint": (mask(hint(cause, story.error_types)) or None) if cause is not None else None,
        "fingerprint": story.fingerprint or None,
        "similar": mask(story.similar) if story.similar is not None else None,
        "ended": found.ended,
        "peer": _peer(found.peer, mask),
        "missing": None if found.missing is None else _missing(found.missing, mask),
        "stuck": None if found.stuck is None else _stuck(found.stuck, mask),
        "idle": _idle(found.idle),
        "attempt": _attempt(found.attempt),
        "warned": [
            {"evidence": _evidence(each.evidence, mask), "hint": mask(each.hint) or None} for each in found.warned
        ],
        "success": _evidence(found.success, mask) if found.success is not None else None,
        "notes": [mask(note) for note in story.notes],
    }


def _second(cause: Cause, story: ExplainReport, mask: Mask) -> dict[str, object]:
    """The second cause of an undecided explanation, with its own hint."""
    return {**_cause(cause, story, mask), "hint": mask(hint(cause, story.error_types)) or None}


def _cause(cause: Cause, story: ExplainReport, mask: Mask) -> dict[str, object]:
    return {
        "error_type": cause.error_type,
        "subsystem": cause.subsystem,
        "confidence": round(cause.confidence, 3),
        "restartable": restartable(cause, story.error_types),
        "signal": cause.signal or None,
        "evidence": _evidence(cause.evidence, mask),
        "frames": list(map(mask, cause.frames)),
    }


def _peer(peer: LostPeer | None, mask: Mask) -> dict[str, object] | None:
    if peer is None:
        return None
    host = mask(peer.host) if peer.host is not None else None
    return {"rank": peer.rank, "host": host, "log": peer.log or None, "told": mask(peer.told)}


def _missing(missing: MissingRanks, mask: Mask) -> dict[str, object]:
    ranks = [
        {
            "rank": each.rank,
            "host": mask(each.host) if each.host is not None else None,
            "log": each.log or None,
            "last_line_at": format_time(each.time),
            "step": each.step,
            "stack": mask(each.stack) or None,
        }
        for each in missing.ranks
    ]
    return {"ranks": ranks, "count": missing.count, "world_size": missing.world_size, "text": mask(missing.sentence)}


def _stuck(stuck: StuckCollective, mask: Mask) -> dict[str, object]:
    rows = [
        {
            "ranks": row.ranks,
            "count": row.count,
            "does": row.does,
            "call": mask(row.call) or None,
            "since": format_time(row.since),
            "frame": mask(row.frame) or None,
            "host": mask(row.host) if row.host is not None else None,
        }
        for row in stuck.rows
    ]
    return {
        "call": mask(stuck.call),
        "group": mask(stuck.group),
        "size": stuck.size,
        "since": format_time(stuck.since),
        "root": stuck.root,
        "circular": stuck.circular,
        "ranks": rows,
        "text": mask(stuck.sentence),
    }


def _idle(idle: Idle | None) -> dict[str, object] | None:
    if idle is None:
        return None
    return {"seconds": round(idle.seconds, 3), "at_most": idle.at_most, "until": idle.until}


def _attempt(attempt: AttemptInFile | None) -> dict[str, object] | None:
    if attempt is None:
        return None
    return {"number": attempt.number, "file": attempt.file, "line": attempt.line}


def _evidence(evidence: Evidence, mask: Mask) -> dict[str, object]:
    return {
        "file": evidence.file,
        "line": evidence.line,
        "text": mask(evidence.text),
        "rank": evidence.rank,
        "host": mask(evidence.host) if evidence.host is not None else None,
        "time": format_time(evidence.time),
    }
