"""Translates Ray's data on a job to a report. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final
from urllib.parse import urlsplit

from lastbeat.model.job import JobReport, JobState
from lastbeat.model.text import fit, one_line

STATES: Final[Mapping[str, JobState]] = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "FAILED": JobState.FAILED,
    "STOPPED": JobState.CANCELLED,
}
"""Ray's status → job state."""
_NODE_DIED: Final = re.compile(
    r"node (?:has )?died|node (?:was|has been) (?:preempted|terminated)|node failure|node is dead|lost its node",
    re.IGNORECASE,
)
_EXIT: Final = re.compile(r"exit code (-?\d{1,5})\b")
_LOGGED: Final = re.compile(r",? *last available logs .*|\. No logs available\.", re.DOTALL)
_ID_DIGITS: Final = 8
_MOST_REASON: Final = 300


def report(info: Mapping[str, Any]) -> JobReport:
    """The report of a job from the Jobs API's data."""
    said = _text(info, "status")
    state = STATES.get(said, JobState.UNKNOWN)
    if state is JobState.UNKNOWN:
        return JobReport(state, said, f"Ray says {said[:60]!r}, which lastbeat does not know")
    message = _text(info, "message")
    code, signal = _exit(info, message if state is JobState.FAILED else "")
    failed_node = None
    name = node_name(info)
    if state is JobState.FAILED and code is None and signal is None and _NODE_DIED.search(message):
        state, failed_node = JobState.NODE_LOST, name
    ended = state.ended
    return JobReport(
        state,
        said,
        "" if state in {JobState.RUNNING, JobState.SUCCEEDED} else _reason(message, _text(info, "error_type")),
        exit_code=0 if state is JobState.SUCCEEDED else code,
        signal=signal,
        nodes=(name,) if name else (),
        failed_node=failed_node,
        # Ray's start is the time of submission. It does not report when the entrypoint began.
        started_at=None if state is JobState.PENDING else moment(info.get("start_time")),
        ended_at=moment(info.get("end_time")) if ended else None,
    )


def node_name(info: Mapping[str, Any]) -> str:
    """The node of a job's driver by its address, as people and logs know it, and a part of its id, which makes it
    unique: ``10.0.3.7-b10df308``. Empty if it has no node yet."""
    node = _text(info, "driver_node_id")
    if not node:
        return ""
    try:
        host = urlsplit(_text(info, "driver_agent_http_address")).hostname or ""
    except ValueError:
        host = ""
    short = re.sub(r"[^0-9A-Za-z]", "", node)[:_ID_DIGITS]
    return f"{host}-{short}" if host else short


def node_ids(names: tuple[str, ...], nodes: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Each of ``names`` → ids of the living nodes that it matches. A name matches by :func:`node_name`, address, the
    name that the node was started with, or node id."""
    living = [each for each in nodes if _text(each, "state") == "ALIVE" and _text(each, "node_id")]
    return {name: [_text(each, "node_id") for each in living if _is_named(each, name)] for name in names}


def _is_named(node: Mapping[str, Any], name: str) -> bool:
    own, host, short = _text(node, "node_id"), name.rpartition("-")[0], name.rpartition("-")[2]
    known = {_text(node, "node_ip"), _text(node, "node_name"), own} - {""}
    return name in known or (len(short) == _ID_DIGITS and own.startswith(short) and (not host or host in known))


def moment(milliseconds: object) -> datetime | None:
    """The time for Ray's milliseconds since 1970, or None."""
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def _exit(info: Mapping[str, Any], message: str) -> tuple[int | None, int | None]:
    """Exit status and signal. Ray writes a signal as a negative status."""
    code = info.get("driver_exit_code")
    if not isinstance(code, int) or isinstance(code, bool):
        # Before Ray 2.5, only the message has it.
        found = _EXIT.search(message.partition("\n")[0])
        code = int(found[1]) if found is not None else None
    if code is None:
        return None, None
    return (None, -code) if code < 0 else (code, None)


def _reason(message: str, error_type: str) -> str:
    """The first line of the message, and the last if it adds something. A stack trace is between them."""
    lines = [line for line in (one_line(each) for each in _LOGGED.sub("", message).splitlines()) if line]
    if not lines:
        return one_line(error_type)[:60]
    if error_type == "RUNTIME_ENV_SETUP_FAILURE" and len(lines) > 1:
        return f"{fit(lines[0], 100)} {fit(lines[-1], _MOST_REASON - 100)}"
    return fit(lines[0], _MOST_REASON)


def _text(info: Mapping[str, Any], name: str) -> str:
    value = info.get(name)
    return value if isinstance(value, str) else ""
