"""The log lines of an alert: without runs of healthy steps, and without what the alert says already."""

from typing import Final

from lastbeat.deliver.facts import error_texts, repeats
from lastbeat.model.alert import Message
from lastbeat.model.text import CUT, clean, counted

_ERROR: Final = f"{CUT} the error above"
_TRACEBACK: Final = "Traceback (most recent call last)"
_STEPS_SHOWN: Final = 2
"""How many lines of a run of healthy steps are shown, its last ones."""


def log_lines(message: Message) -> tuple[str, ...]:
    """What people are shown of ``message.log_tail``, oldest first. Hostile text."""
    texts = error_texts(message)
    shown: list[str] = []
    steps: list[str] = []
    traceback: int | None = None
    for line in map(clean, message.log_tail):
        if _is_step(line):
            steps.append(line)
            continue
        shown += _last_of(steps)
        steps = []
        if _TRACEBACK in line:
            traceback = len(shown)
        if not repeats(line, *texts):
            shown.append(line)
            continue
        if traceback is not None and message.frames:
            # The alert says where it was raised.
            del shown[traceback:]
        traceback = None
        if shown[-1:] != [_ERROR]:
            shown.append(_ERROR)
    return (*shown, *_last_of(steps))


def _last_of(steps: list[str]) -> list[str]:
    left = len(steps) - _STEPS_SHOWN
    return steps if left < _STEPS_SHOWN else [f"{CUT} {counted(left, 'line')} of steps", *steps[-_STEPS_SHOWN:]]


def _is_step(line: str) -> bool:
    """Whether healthy training prints such a line."""
    from lastbeat.model.progress_lines import Progress  # noqa: PLC0415 - only where there is a log

    progress = Progress()
    return progress.read(line) and progress.not_finite_since is None
