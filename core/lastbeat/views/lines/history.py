"""One run as lines for people: its attempts and transitions, its job, its alerts and its files."""

from collections.abc import Iterator
from typing import Final

from lastbeat.model.amounts import age, size
from lastbeat.model.record import Transition
from lastbeat.model.status import Status
from lastbeat.model.text import counted, one_line
from lastbeat.model.times import format_duration, format_time
from lastbeat.model.view import RunView, SentAlert
from lastbeat.views.lines.paint import Line, cut, line, paragraph

MOST_TRANSITIONS: Final = 8
MOST_ALERTS: Final = 6
MOST_LOGS: Final = 5
_MOST_ATTEMPTS: Final = 6
_MOST_NODES: Final = 4
_MOST_NOTES: Final = 6
_INDENT: Final = "  "


def history(view: RunView, columns: int) -> Iterator[Line]:
    """The run's attempts if there are several, and its latest transitions, newest first."""
    if not view.history and not view.attempts and not view.interventions:
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
    for done in reversed(view.interventions[-MOST_TRANSITIONS:]):
        told = f"{format_time(done.at.replace(microsecond=0))}  {done.by} {done.what}"
        yield line(cut(_INDENT + one_line(told), columns))


def job(view: RunView, columns: int) -> Iterator[Line]:
    """The job of a supervised run, and the last restart decision."""
    if view.job is None:
        return
    yield line("Job", "heading")
    known, ruling = view.job.job, view.job.ruling
    if known is not None:
        where = f" on {', '.join(known.nodes[:_MOST_NODES])}" if known.nodes else ""
        more = f" and {len(known.nodes) - _MOST_NODES} more" if len(known.nodes) > _MOST_NODES else ""
        why = f" ({one_line(known.reason)})" if known.reason else ""
        told = f"{known.name}: {known.launcher} job {known.id}, {known.state}{where}{more}{why}"
        yield line(cut(_INDENT + told, columns))
    if view.job.supervised_by is not None:
        since = view.job.supervised_since
        long = f" for {format_duration((view.at - since).total_seconds())}" if since is not None else ""
        yield line(cut(f"{_INDENT}Supervised by {one_line(view.job.supervised_by)}{long}", columns))
    elif not view.job.over:
        yield line(f"{_INDENT}Nobody supervises it now: lastbeat restart {view.row.run_id}", "mark")
    policy = view.job.policy or "none: nothing is restarted"
    yield line(f"{_INDENT}Restart policy: {policy}; {counted(view.job.restarts, 'restart')} so far")
    if view.job.budgets:
        left = (
            f"{each.name} {'no limit' if each.limit is None else f'{each.left} of {each.limit}'}"
            for each in view.job.budgets
        )
        yield from paragraph(f"Budget left: {', '.join(left)}", columns, _INDENT)
    found = view.job.checkpoint
    if found is not None:
        step = f"step {found.step:,}, " if found.step is not None else ""
        saved = f"saved {age(view.at, found.saved_at)}, " if found.saved_at is not None else ""
        seen = f"found {age(view.at, found.found_at)}" if found.found_at is not None else ""
        yield from paragraph(f"Last complete checkpoint: {step}{saved}{seen}: {found.url}", columns, _INDENT)
    # That a successful run is not restarted goes without saying.
    if ruling is not None and (ruling.restart or view.row.status is not Status.SUCCEEDED):
        what = f"restart, attempt {ruling.attempt}".removesuffix(", attempt ") if ruling.restart else "not restarted"
        step = f", from step {ruling.resume_step}" if ruling.resume_step is not None else ""
        told = f"Decided {age(view.at, ruling.at)}: {what}{step}: {one_line(ruling.reason)}"
        yield from paragraph(told, columns, _INDENT)
        if ruling.job:
            yield from paragraph(f"Its {one_line(ruling.job)}", columns, _INDENT)
        if ruling.passed_over:
            yield from paragraph(f"Not from {one_line(ruling.passed_over)}", columns, _INDENT)
    yield from _reactions(view, columns)
    if view.job.next_job is not None:
        at = view.job.starts_at
        when = f" at {format_time(at.replace(microsecond=0))}" if at is not None and at > view.at else " now"
        yield line(f"{_INDENT}Next: {view.job.next_job} starts{when}")


def _reactions(view: RunView, columns: int) -> Iterator[Line]:
    """Notes and commands of the policy's ``on:``, newest first."""
    if view.job is None:
        return
    for note in reversed(view.job.notes[-_MOST_NOTES:]):
        told = f"Note {age(view.at, note.at)}, on {one_line(note.on)}: {one_line(note.text)}"
        yield from paragraph(told, columns, _INDENT)
    for run in reversed(view.job.commands[-_MOST_NOTES:]):
        how = f"{one_line(run.how)}, {age(view.at, run.ended_at)}" if run.ended_at else f"runs, {age(view.at, run.at)}"
        output = f"; output: {one_line(run.output)}" if run.output else ""
        yield from paragraph(f"{one_line(run.name)}: {how}{output}", columns, _INDENT)


def _transition(each: Transition) -> str:
    when = format_time(each.at.replace(microsecond=0))
    change = f"{each.before} to {each.after}" if each.before is not None else str(each.after)
    silenced = " (no alert: " + one_line(each.silenced) + ")" if each.silenced else ""
    step = f", step {each.step:,}" if each.step is not None else ""
    return f"{when}  {change}, attempt {each.attempt}{step}: {one_line(each.reason)}{silenced}"


def alerts(view: RunView, columns: int) -> Iterator[Line]:
    """The run's alerts, sent and pending, newest first."""
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
    fate = ", ".join(fates) if fates else "not sent: no channel was set up"
    yield line(cut(f"{_INDENT}{when}  {alert.event}: {fate}", columns))
    if alert.error:
        yield from paragraph(f"! {alert.error}", columns, _INDENT * 2, style="mark")


def files(view: RunView, columns: int) -> Iterator[Line]:
    """The run's folder and its logs, newest first."""
    yield line("Files", "heading")
    yield line(_INDENT + view.where)
    if view.link:
        yield line(_INDENT + view.link)
    for name, at, length in view.logs[:MOST_LOGS]:
        yield line(cut(f"{_INDENT}{name}  {size(length)}, {age(view.at, at)}", columns))
    if len(view.logs) > MOST_LOGS:
        yield line(f"{_INDENT}… and {len(view.logs) - MOST_LOGS} more logs ('lastbeat logs {view.row.run_id} --list')")
