"""``policy``: list and check restart policies, and explain their decisions."""

import shlex
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import click

from lastbeat import settings as configuration
from lastbeat.jobs.restarts import loading
from lastbeat.jobs.restarts.names import KnownNames
from lastbeat.model.as_json import picked
from lastbeat.model.restart import JobEnd, Mode, Reaction, RestartDecision, RestartEntry, RestartPolicy, RestartRule
from lastbeat.model.text import nearest
from lastbeat.model.times import format_duration
from lastbeat.settings import SettingsError, catalogues, table
from lastbeat.views.lines import paint
from lastbeat.watch.decide.restart import decide_restart
from lastbeat_cli import exits, options
from lastbeat_cli.document import tell
from lastbeat_cli.lazy_group import CommandGroup

_TRANSITIONS = {
    Mode.CRASH: ("failed",),
    Mode.STALL: ("timed_out",),
    Mode.TIMEOUT: ("failed", "timed_out"),
    Mode.SUCCESS: ("succeeded",),
    Mode.PREEMPTED: ("preempted",),
}
"""Mode → the events in ``on:`` that a job's end in this mode triggers."""
_LINGERING: Final = {
    "end": "a job that is not restarted and still runs: is ended after 3 minutes without a step or a log line",
    "leave": "a job that is not restarted and still runs: is left running (on_permanent: leave)",
}
WHICH = "Which policy"
END = "How the job ended"
_EPILOG = """\
Exit status:
  0  the answer was printed
  3  there is no such policy, or it cannot be used: every fault is listed with its file and line
"""
_policy = options.option(
    "--policy NAME-OR-PATH",
    f"A policy that comes with lastbeat, or a file [{loading.RECOMMENDED}].",
    WHICH,
    name="named",
    default=loading.RECOMMENDED,
)


@click.group("policy", cls=CommandGroup)
def command() -> None:
    """Restart policies: when a job is restarted, and how often."""


@command.command("list", cls=options.Grouped, epilog=_EPILOG)
@options.form
def listing(*, as_json: bool) -> int:
    """List the policies that come with lastbeat."""
    found = {name: loading.description(name) for name in loading.names()}
    tell({"policies": found}, paint.columns(list(found.items())), as_json=as_json)
    return exits.OK


@command.command("show", cls=options.Grouped, epilog=_EPILOG)
@click.argument("name", metavar="NAME-OR-PATH")
@options.form
def show(*, name: str, as_json: bool) -> int:
    """Show what a policy does in each mode. For a built-in policy, prints its file, to start your own with."""
    found = load(name)
    shipped = loading.shipped_text(name).splitlines() if name in loading.names() else None
    tell(document(found), shipped or _lines(found), as_json=as_json)
    return exits.OK


@command.command("check", cls=options.Grouped, epilog=_EPILOG)
@click.argument("file", metavar="PATH")
@options.form
def check(*, file: str, as_json: bool) -> int:
    """Check the policy at PATH; every fault is listed."""
    found = load(file)
    tell({"file": file, "policy": document(found)}, [f"{file} can be used:", *_lines(found)], as_json=as_json)
    return exits.OK


@command.command("explain", cls=options.Grouped, epilog=_EPILOG)
@_policy
@options.option(
    "--mode",
    "How the job ended [crash].",
    END,
    type=click.Choice([each.value for each in Mode]),
    default=Mode.CRASH.value,
)
@options.option("--error-type NAME", "Error type of the cause [unknown].", END, default="unknown")
@options.option("--subsystem NAME", "Subsystem of the cause.", END)
@options.option("--signal NAME", "Signal that revealed the cause.", END)
@options.option("--confidence 0..1", "Confidence of the cause [1].", END, type=click.FloatRange(0, 1), default=1.0)
@options.option("--exit-code N", "The job's exit status.", END, type=click.IntRange(0, 255))
@options.option("--attempt N", "Number of this restart in a row [1].", END, type=click.IntRange(1, 1000), default=1)
@options.form
def explain(*, named: str, attempt: int, as_json: bool, **end: Any) -> int:
    """Explain what a policy decides when a job ends in this way."""
    known = known_names()
    policy = load(named, known)
    _check_names(known, end)
    mode = Mode(end.pop("mode"))
    now = datetime.now(timezone.utc)
    before = [RestartEntry(now - timedelta(minutes=attempt - n), mode, end["error_type"]) for n in range(1, attempt)]
    settings = configuration.load({})
    delay_s = settings[table.RESTART_DELAY_SECONDS]
    decision = decide_restart(policy, JobEnd(mode, **end), before, now, delay_s=delay_s, chance=1.0)
    happened = [*_TRANSITIONS[mode], *(on for on, meant in policy.reaction_signals.items() if end["signal"] in meant)]
    reactions = [each for on in happened for each in reaction_lines(policy, on)]
    stops = next((on for on in happened for each in policy.reactions.get(on, ()) if each.action == "stop"), None)
    if stops is not None:
        decision = RestartDecision(restart=False, reason=f"stopped by the policy {policy.name} on {stops}")
    lingering = _lingering_lines(policy, decision, mode) if stops is None else []
    said = {**decision_document(decision), "on_permanent": policy.on_permanent, "on": reactions}
    tell(said, [*decision_lines(decision), *lingering, *reactions], as_json=as_json)
    return exits.OK


def _lingering_lines(policy: RestartPolicy, decision: RestartDecision, mode: Mode) -> list[str]:
    """A line that says whether a job that is not restarted and still runs is ended; empty if that cannot happen."""
    stands_still = mode is Mode.STALL and policy.rule(mode).kind != "never"
    if decision.restart or not (stands_still or mode in {Mode.CRASH, Mode.PREEMPTED}):
        return []
    return [_LINGERING[policy.on_permanent]]


def load(name_or_path: str, known: KnownNames | None = None) -> RestartPolicy:
    """The restart policy. Raises :class:`SettingsError` with all faults in it."""
    try:
        return loading.load(name_or_path, known or known_names())
    except loading.RestartPolicyError as error:
        raise SettingsError(str(error).splitlines()) from None


def document(policy: RestartPolicy) -> dict[str, Any]:
    """A policy as a document."""
    return {
        "name": policy.name,
        "modes": {mode.value: _rule_document(policy.rule(mode)) for mode in Mode},
        "budgets": {
            "error_types": dict(policy.type_budgets),
            "same_cause": policy.cause_budget,
            "window": {"restarts": policy.window_restarts, "hours": policy.window_s / 3600},
        },
        **picked(policy, "same_step_times least_confidence longest_delay_s exclude_stragglers also on_permanent"),
        "on": {event: [asdict(each) for each in found] for event, found in policy.reactions.items()},
    }


def decision_document(decision: RestartDecision) -> dict[str, Any]:
    """A decision as a document."""
    return {
        "action": "restart" if decision.restart else "stop",
        "reason": decision.reason,
        "attempt": decision.attempt or None,
        "budgets": [picked(each, "name used limit") for each in decision.budgets],
        "longest_delay_s": decision.delay_s,
        "other_hardware": decision.other_hardware,
    }


def decision_lines(decision: RestartDecision) -> list[str]:
    """A decision as lines for people."""
    lines = [f"{'restart' if decision.restart else 'stop'}: {decision.reason}"]
    if decision.budgets:
        lines.append(f"budgets: {', '.join(map(str, decision.budgets))}")
    if decision.restart:
        lines.append(f"delay: at most {decision.delay_s:g} s (chosen at random below that)")
    if decision.restart and decision.other_hardware:
        lines.append("on other nodes than the last one")
    return lines


def known_names(signals: str | None = None) -> KnownNames:
    """The names in these catalogues, by default those of the settings. Raises :class:`SettingsError`."""
    signals = configuration.load({})[table.SIGNALS] if signals is None else signals
    try:
        return KnownNames.of(catalogues.catalogue(signals))
    except ValueError as fault:
        raise SettingsError(str(fault).splitlines()) from None


def _check_names(known: KnownNames, end: dict[str, Any]) -> None:
    """Raise :class:`SettingsError` for an unknown name in ``end``. Replaces an alias by a name that it stands for."""
    stands_for = (
        ("error_type", lambda name: known.error_types & {name}, known.error_types),
        ("subsystem", known.subsystem, known.all_subsystems()),
        ("signal", known.signal, known.all_signals()),
    )
    for option, found, names in stands_for:
        name = end[option]
        if name is None:
            continue
        if not found(name):
            what = f"--{option.replace('_', '-')}: there is none of the name {name!r}"
            raise SettingsError([what + nearest(name, sorted(names))])
        end[option] = name if name in found(name) else min(found(name))


def _rule_document(rule: RestartRule) -> dict[str, Any]:
    return {
        "kind": rule.kind,
        "max_retries": rule.max_retries,
        "default_action": rule.otherwise,
        "restart_on_error_types": sorted(rule.error_types),
        "restart_on_subsystems": list(rule.subsystems),
        "restart_on_signals": list(rule.signals),
        "exclude_error_types": sorted(rule.excluded),
    }


def _lines(policy: RestartPolicy) -> list[str]:
    lines = []
    for mode in Mode:
        rule = policy.rule(mode)
        if rule.kind == "never":
            lines.append(f"  {mode.value:<9} never restarted")
            continue
        most = "no limit of its own" if rule.max_retries is None else f"at most {rule.max_retries} in a row"
        named = [*sorted(rule.error_types), *rule.subsystems, *rule.signals]
        what = "restarted" if rule.kind == "always" else f"{', '.join(named) or 'nothing by name'}"
        rest = f"; else {rule.otherwise}" if rule.kind == "selective" else ""
        never = f"; never {', '.join(sorted(rule.excluded))}" if rule.excluded else ""
        lines.append(f"  {mode.value:<9} {what} ({most}){rest}{never}")
    if policy.window_restarts is not None:
        lines.append(f"  all       at most {policy.window_restarts} within {policy.window_s / 3600:g} h")
    lines += [f"  also      {', '.join(policy.also)}, whatever error type is excluded"] if policy.also else []
    lines += [f"  {_LINGERING[policy.on_permanent]}"] if policy.on_permanent == "leave" else []
    return [*lines, *(f"  {each}" for on in policy.reactions for each in reaction_lines(policy, on))]


def reaction_lines(policy: RestartPolicy, on: str) -> list[str]:
    """The reactions of the policy to the event ``on``, as lines for people."""
    return [f"on {on}: {_reaction(each)}" for each in policy.reactions.get(on, ())]


def _reaction(reaction: Reaction) -> str:
    if reaction.note:
        return f"note: {reaction.note}"
    if reaction.command:
        return f"run {shlex.join(reaction.command)} (for {format_duration(reaction.limit_s)} at most)"
    return {"stop": "stop the job", "restart": "ask this policy for a restart"}[reaction.action]
