"""What ``explain --json`` prints."""

from collections.abc import Callable

from lastbeat.model.cause import Cause, Evidence
from lastbeat.model.times import format_time
from lastbeat_cli.explain.story import ExplainReport, hint, restartable

Mask = Callable[[str], str]


def story_document(story: ExplainReport, mask: Mask) -> dict[str, object]:
    """The promised keys, all of them always there; what is not known is null. ``mask`` cleans what training wrote."""
    found = story.explanation
    cause = found.cause
    return {
        "cause": _cause(cause, story, mask) if cause is not None else None,
        "alternatives": [_cause(other, story, mask) for other in found.alternatives],
        "downstream": [_evidence(each, mask) for each in found.downstream],
        "hint": (mask(hint(cause, story.error_types)) or None) if cause is not None else None,
        "ended": found.ended,
        "success": _evidence(found.success, mask) if found.success is not None else None,
        "notes": [mask(note) for note in story.notes],
    }


def _cause(cause: Cause, story: ExplainReport, mask: Mask) -> dict[str, object]:
    return {
        "error_type": cause.error_type,
        "subsystem": cause.subsystem,
        "confidence": round(cause.confidence, 3),
        "restartable": restartable(cause, story.error_types),
        "signal": cause.signal or None,
        "evidence": _evidence(cause.evidence, mask),
    }


def _evidence(evidence: Evidence, mask: Mask) -> dict[str, object]:
    return {
        "file": evidence.file,
        "line": evidence.line,
        "text": mask(evidence.text),
        "rank": evidence.rank,
        "host": mask(evidence.host) if evidence.host is not None else None,
        "time": format_time(evidence.time),
    }
