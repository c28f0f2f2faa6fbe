"""Restart policies ↔ their form in the record, which is read without pydantic and YAML."""

from lastbeat.model.restart import CompiledPolicy, CompiledRule, Mode, RestartPolicy, RestartRule


def compiled(policy: RestartPolicy) -> CompiledPolicy:
    """What the record keeps of ``policy``."""
    return CompiledPolicy(
        policy.name,
        tuple(_compiled(mode, rule) for mode, rule in policy.rules.items()),
        dict(policy.type_budgets),
        policy.cause_budget,
        policy.window_restarts,
        policy.window_s,
        policy.same_step_times,
        policy.least_confidence,
        policy.longest_delay_s,
        policy.exclude_stragglers,
        policy.on_permanent,
        {name: tuple(sorted(meant)) for name, meant in policy.also.items()},
    )


def policy_of(kept: CompiledPolicy) -> RestartPolicy | None:
    """The policy that the record keeps, without reactions, or None if it has parts that this version does not know."""
    if not kept.understood:
        return None
    return RestartPolicy(
        kept.name,
        {Mode(rule.mode): _rule(rule) for rule in kept.rules},
        kept.type_budgets,
        kept.cause_budget,
        kept.window_restarts,
        kept.window_s,
        kept.same_step_times,
        kept.least_confidence,
        kept.longest_delay_s,
        kept.exclude_stragglers,
        kept.on_permanent,
        {name: frozenset(meant) for name, meant in kept.also.items()},
    )


def _compiled(mode: Mode, rule: RestartRule) -> CompiledRule:
    return CompiledRule(
        mode.value,
        rule.kind,
        rule.max_retries,
        rule.otherwise,
        tuple(sorted(rule.error_types)),
        {name: tuple(sorted(meant)) for name, meant in rule.subsystems.items()},
        {name: tuple(sorted(meant)) for name, meant in rule.signals.items()},
        tuple(sorted(rule.excluded)),
    )


def _rule(rule: CompiledRule) -> RestartRule:
    return RestartRule(
        rule.kind,
        rule.max_retries,
        rule.otherwise,
        frozenset(rule.error_types),
        {name: frozenset(meant) for name, meant in rule.subsystems.items()},
        {name: frozenset(meant) for name, meant in rule.signals.items()},
        frozenset(rule.excluded),
    )
