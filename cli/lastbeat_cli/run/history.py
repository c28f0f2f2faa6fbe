"""One run as lines for people: its attempts and transitions, its alerts, and where its files lie."""

from collections.abc import Iterator
from typing import Final

from lastbeat.model.record import Transition
from lastbeat.model.text import one_line
from lastbeat.model.times import format_time
from lastbeat.model.view import RunView, SentAlert
from lastbeat_cli.lines import age, size
from lastbeat_cli.terminal.paint import Line, cut, line, wrapped

MOST_TRANSITIONS: Final = 8
MOST_ALERTS: Final = 6
MOST_LOGS: Final = 5
_MOST_ATTEMPTS: Final = 6
_INDENT: Final = "  "


def history(view: RunView, columns: int) -> Iterator[Line]:
    """Its attempts, where there was more than one, and its latest transitions, the newest first."""
    if not view.history and not view.attempts:
        return
    yield line("History", "heading")
    if len(view.attempts) > 1 or any(span.attempt > 1 for span in view.attempts):
        for span in view.attempts[-_MOST_ATTEMPTS:]:
            yield line(f"{_INDENT}attempt {span.attempt}: {span.status}, begun {age(view.at, span.since)}")
        if len(view.attempts) > _MOST_ATTEMPTS:
            yield line(f"{_INDENT}… and {len(view.attempts) - _MOST_ATTEMPTS} earlier attempts (--json has them)")
    for each in reversed(view.history[-MOST_TRANSITIONS:]):
        yield line(cut(_INDENT + _transition(each), columns))
    left = (view.transitions or 0) - min(len(view.history), MOST_TRANSITIONS)
    if left > 0 and view.history:
        yield line(f"{_INDENT}… and {left:,} before that")


def _transition(each: Transition) -> str:
    when = format_time(each.at.replace(microsecond=0))
    change = f"{each.before} to {each.after}" if each.before is not None else str(each.after)
    silenced = " (nobody was told: " + one_line(each.silenced) + ")" if each.silenced else ""
    return f"{when}  {change}, attempt {each.attempt}: {one_line(each.reason)}{silenced}"


def alerts(view: RunView, columns: int) -> Iterator[Line]:
    """What people were told, and what still waits, the newest first."""
    told = f"{view.alerts_pending} pending, {view.alerts_delivered} delivered"
    if view.alerts_dropped:
        told += f", {view.alerts_dropped} given up"
    if not view.alerts and not view.alerts_delivered and not view.alerts_pending and not view.alerts_dropped:
        if view.history:
            yield (("Alerts", "heading"), ("  none", ""))
        return
    yield (("Alerts", "heading"), (f"  {told}", "mark" if view.alerts_pending or view.alerts_dropped else ""))
    for alert in reversed(view.alerts[-MOST_ALERTS:]):
        yield from _alert(alert, columns)
    if len(view.alerts) > MOST_ALERTS:
        yield line(f"{_INDENT}… and {len(view.alerts) - MOST_ALERTS} earlier ones (--json has them)")


def _alert(alert: SentAlert, columns: int) -> Iterator[Line]:
    when = format_time(alert.at.replace(microsecond=0))
    fates = [f"{channel} {state}" for channel, state, _ in alert.deliveries]
    fate = ", ".join(fates) if fates else "told to nobody, for no pass had a channel"
    yield line(cut(f"{_INDENT}{when}  {alert.event}: {fate}", columns))
    if alert.error:
        yield from ((((row), "mark"),) for row in wrapped(f"! {alert.error}", columns, _INDENT * 2))


def files(view: RunView, columns: int) -> Iterator[Line]:
    """Where its files lie, and its logs, the newest first."""
    yield line("Files", "heading")
    yield line(_INDENT + view.where)
    if view.link:
        yield line(_INDENT + view.link)
    for name, at, length in view.logs[:MOST_LOGS]:
        yield line(cut(f"{_INDENT}{name}  {size(length)}, {age(view.at, at)}", columns))
    if len(view.logs) > MOST_LOGS:
        yield line(f"{_INDENT}… and {len(view.logs) - MOST_LOGS} more logs ('lastbeat logs {view.row.run_id} --list')")
