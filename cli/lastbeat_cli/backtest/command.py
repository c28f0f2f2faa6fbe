"""``backtest``: replay the recorded history of a fleet with restart policies, or with learned limits."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import click

from lastbeat.fleet.all_records import all_records
from lastbeat.jobs.restarts import loading
from lastbeat.lab.backtest import Backtest, backtest
from lastbeat.model.document import masked
from lastbeat.model.restart import RestartPolicy
from lastbeat.settings import Settings, opening, table
from lastbeat.views.lines import paint
from lastbeat.watch.decide.past_run import past_run
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.backtest.timeouts import FleetTimeouts, read_timeouts, timeout_document, timeout_lines
from lastbeat_cli.backtest.told import FleetBacktest, backtest_document, backtest_lines
from lastbeat_cli.document import dump
from lastbeat_cli.policy.command import load

WHICH = "Which policies"
_LIMIT_S: Final = 900.0
_MOST_POLICIES: Final = 6
MOST_DECISIONS: Final = 10_000
"""Most decisions listed one by one; all are counted."""
_EPILOG = """\
Exit status:
  0  the result was printed
  3  the fleet could not be read, or a policy cannot be used; also wrong settings or arguments

What the words mean:
  saved    the policy restarts; in the history a user restarted later, with success: the downtime
  wasted   the policy restarts; the next attempt failed with the same cause and no progress: its time
  missed   the policy stops; in the history a user restarted, with success: the downtime
  spared   the policy stops; in the history a user restarted in vain: the time of that attempt
  unknown  the run was not restarted, or the progress of the next attempt was not recorded

Examples:
  lastbeat report backtest s3://bucket/training-runs --policy megatron_transient
  lastbeat report backtest --policy megatron_conservative --policy mine.yaml --decisions
  lastbeat report backtest --timeouts s3://bucket/training-runs
"""


@click.command("backtest", cls=options.Grouped, epilog=_EPILOG)
@options.fleet(WHICH)
@options.option(
    "--policy NAME-OR-PATH", f"May be repeated, to compare [{loading.RECOMMENDED}].", WHICH, name="named", multiple=True
)
@options.option("--decisions", "List each decision, too, the latest first.", name="listed")
@options.option(
    "--timeouts",
    "Replay learned limits (LASTBEAT_LEARN) instead: which hangs they would have found, and false alarms.",
    name="limits",
)
@options.place
@options.form
def command(
    *,
    named: tuple[str, ...],
    listed: bool,
    limits: bool,
    as_json: bool,
    **given: str | None,
) -> int:
    """Replay restart policies on the past of a fleet.

    Shows what each policy would have restarted and stopped, why, and the hours that it would have saved or wasted. This
    command is read-only and reads only the records of runs. Budgets and windows are applied as in reality.
    """
    faults: list[str] = []
    if len(named) > _MOST_POLICIES:
        faults.append(f"--policy may be given {_MOST_POLICIES} times at most")
    if limits and (named or listed):
        faults.append("--timeouts is about limits, not policies: leave --policy and --decisions out")
    settings = values.settings(given, faults)
    if limits:
        return _limits(settings, as_json=as_json)
    policies = [load(each) for each in dict.fromkeys(named or (loading.RECOMMENDED,))]
    found = _tested(settings, _apart(policies))
    if as_json:
        print(dump(masked(backtest_document(found), logs.redact)))
        return exits.OK
    told = backtest_lines(found, paint.width(sys.stdout), decisions=listed)
    paint.show(told, logs.redact)
    return exits.OK


def _limits(settings: Settings, *, as_json: bool) -> int:
    until = time.monotonic() + _LIMIT_S
    found = FleetTimeouts(opening.root_url(settings), all_records(opening.store(settings), until=until))
    read_timeouts(found, until)
    if as_json:
        print(dump(masked(timeout_document(found), logs.redact)))
        return exits.OK
    told = timeout_lines(found, paint.width(sys.stdout))
    paint.show(told, logs.redact)
    return exits.OK


def _apart(policies: Sequence[RestartPolicy]) -> list[RestartPolicy]:
    """``policies`` with unique names, since two files may share a name."""
    names = [policy.name for policy in policies]
    return [
        policy if names.count(policy.name) == 1 else replace(policy, name=f"{policy.name} ({number})")
        for number, policy in enumerate(policies, 1)
    ]


def _tested(settings: Settings, policies: Sequence[RestartPolicy]) -> FleetBacktest:
    until = time.monotonic() + _LIMIT_S
    records = all_records(opening.store(settings), until=until)
    found = FleetBacktest(opening.root_url(settings), records, {each.name: Backtest(each.name) for each in policies})
    delay_s = settings[table.RESTART_DELAY_SECONDS]
    for record in records.read(until):
        if record.left_out is not None and record.left_out.forgotten:
            continue
        past = past_run(record)
        found.runs += 1
        found.thin += past.thin
        found.cut += past.cut
        for each in past.ends:
            found.saw(each)
        for policy in policies:
            for decision in backtest(policy, past, delay_s):
                found.tests[policy.name].add(decision)
                found.keep(policy.name, decision, MOST_DECISIONS)
    return found
