"""What logs said ↔ JSON, so that logs which have not changed need not be understood again."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from lastbeat.model.cause import Cause, Evidence, Explanation
from lastbeat.model.log_report import LogReport


def report_state(report: LogReport) -> dict[str, Any]:
    """``report`` without what was special about its look."""
    state = asdict(report)
    for special in ("notes", "unread", "unread_at", "hidden", "empty_at", "cold"):
        del state[special]
    plain: dict[str, Any] = _plain(state)
    return plain


def restored_report(state: Mapping[str, Any]) -> LogReport:
    """Raises ``ValueError``, ``TypeError``, ``KeyError`` or ``AttributeError`` for what :func:`report_state` did not
    give."""
    return LogReport(
        written_at=_time(state["written_at"]),
        progress_at=_time(state["progress_at"]),
        step=_whole(state["step"]),
        total_steps=_whole(state["total_steps"]),
        loss=_number(state["loss"]),
        learning_rate=_number(state["learning_rate"]),
        throughput=_number(state["throughput"]),
        throughput_unit=str(state["throughput_unit"]),
        explanation=_explanation(state["explanation"]),
        last_seen={str(name): datetime.fromisoformat(at) for name, at in state["last_seen"].items()},
        mark=str(state["mark"]),
        shown_at=_time(state["shown_at"]),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _explanation(state: Mapping[str, Any]) -> Explanation:
    return Explanation(
        cause=None if state["cause"] is None else _cause(state["cause"]),
        alternatives=tuple(map(_cause, state["alternatives"])),
        downstream=tuple(map(_evidence, state["downstream"])),
        ended=bool(state["ended"]),
        success=None if state["success"] is None else _evidence(state["success"]),
    )


def _cause(state: Mapping[str, Any]) -> Cause:
    restartable = state["restartable"]
    return Cause(
        error_type=str(state["error_type"]),
        evidence=_evidence(state["evidence"]),
        confidence=float(state["confidence"]),
        subsystem=None if state["subsystem"] is None else str(state["subsystem"]),
        restartable=None if restartable is None else bool(restartable),
        hint=str(state["hint"]),
        signal=str(state["signal"]),
    )


def _evidence(state: Mapping[str, Any]) -> Evidence:
    return Evidence(
        file=str(state["file"]),
        line=int(state["line"]),
        text=str(state["text"]),
        rank=_whole(state["rank"]),
        host=None if state["host"] is None else str(state["host"]),
        time=_time(state["time"]),
    )


def _time(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
