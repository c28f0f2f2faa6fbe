"""What Ray's commands print: pure. All of it is hostile text. The wordings are those of Ray 2.9 to 2.60."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from lastbeat.jobs.launchers.ray.reports import STATES
from lastbeat.model.job import JobState
from lastbeat.model.text import clean

_ENDS: Final[Mapping[str, JobState]] = {
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "was stopped": JobState.CANCELLED,
}
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,16}m")
_BEFORE: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\s+[A-Z]{3,8} cli\.py:\d{1,6} -- "
_OF_COMMAND: Final = re.compile(_BEFORE)
_OWN_LINE: Final = re.compile(_BEFORE + r"Job submission server address: .*\n?")


def state_in(text: str, job: str) -> JobState:
    """The state that ``ray job status JOB`` prints. What the job has written may follow it, and is not read."""
    head = clean(text).partition("Status message: ")[0]
    told = f"Status for job '{job}': "
    if told in head:
        return STATES.get(head.partition(told)[2].split("\n", 1)[0].strip(), JobState.UNKNOWN)
    for word, meaning in _ENDS.items():
        if f"Job '{job}' {word}\n" in f"{head}\n":
            return meaning
    return JobState.UNKNOWN


def log_in(text: str) -> str:
    """The job's log in the output of ``ray job logs``, without the command's own lines."""
    text = _COLOUR.sub("", text)
    if (own := _OWN_LINE.match(text)) is not None:
        text = text[own.end() :]
    # The log's first line stands behind the time and place at which the command prints it.
    return text[found.end() :] if (found := _OF_COMMAND.match(text)) is not None else text


def listed_in(text: str) -> list[dict[str, Any]]:
    """The rows in the JSON that ``ray list`` prints. Raises ``ValueError`` for what is no such list."""
    if text.strip() == "No resource in the cluster":
        return []
    # Warnings may stand before it, on lines of their own.
    begin = re.search(r"^\[\s*(?:\{|\])", text, re.MULTILINE)
    if begin is None:
        raise ValueError("no list")
    try:
        listed = json.JSONDecoder().raw_decode(text, begin.start())[0]
    except RecursionError:
        raise ValueError("no list") from None
    return [each for each in listed if isinstance(each, dict)]
