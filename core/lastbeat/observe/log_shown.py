"""What logs say, made fit to leave: without secrets and without what a terminal would interpret."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from lastbeat.model.cause import TEXT_LIMIT, Cause, Evidence, Explanation
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.text import clean, one_line


def shown(
    explanation: Explanation, mask: Callable[[str], str], shifts: Mapping[str, int | None] | None = None
) -> Explanation:
    """``explanation`` with ``mask`` and :func:`mask_tokens` applied to whatever was found in a log.

    ``shifts`` tells, file by file, by how much its line numbers are too high for the file as it is now.
    """

    def safe(text: str) -> str:
        return mask_tokens(mask(text))

    def line(evidence: Evidence) -> Evidence:
        host = None if evidence.host is None else safe(one_line(evidence.host))
        text = safe(clean(evidence.text))[:TEXT_LIMIT]
        shift = shifts.get(evidence.file, 0) if shifts is not None else 0
        number = 0 if shift is None else max(0, evidence.line - shift)
        return replace(evidence, line=number, file=safe(one_line(evidence.file)), text=text, host=host)

    def cause(found: Cause) -> Cause:
        return replace(found, evidence=line(found.evidence), hint=safe(clean(found.hint)))

    return Explanation(
        cause=None if explanation.cause is None else cause(explanation.cause),
        alternatives=tuple(map(cause, explanation.alternatives)),
        downstream=tuple(map(line, explanation.downstream)),
        ended=explanation.ended,
        success=None if explanation.success is None else line(explanation.success),
    )
