"""The log lines of an alert, without series of healthy steps, and without lines that the alert shows already."""

from typing import Final

from lastbeat.alerts.facts import error_texts, repeats
from lastbeat.model.alert import Message
from lastbeat.model.progress_lines import Progress
from lastbeat.model.text import CUT, clean, counted

_ERROR: Final = f"{CUT} the error above"
_TRACEBACK: Final = "Traceback (most recent call last)"
_STEPS_SHOWN: Final = 2
"""Number of last lines that are shown of a series of healthy steps."""


def log_lines(message: Message) -> tuple[str, ...]:
    """The lines of ``message.log_tail`` for display, oldest first. Hostile text."""
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
            # The alert shows these frames already.
            del shown[traceback:]
        traceback = None
        if shown[-1:] != [_ERROR]:
            shown.append(_ERROR)
    return (*shown, *_last_of(steps))


def _last_of(steps: list[str]) -> list[str]:
    left = len(steps) - _STEPS_SHOWN
    return steps if left < _STEPS_SHOWN else [f"{CUT} {counted(left, 'line')} of steps", *steps[-_STEPS_SHOWN:]]


def _is_step(line: str) -> bool:
    """Whether the line is a step of healthy training."""
    progress = Progress()
    return progress.read(line) and progress.not_finite_since is None
