"""What the members of a group have in common. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lastbeat.model.group import FACTS, Group

VALUES_LIMIT = 50
MOST = 0.8
"""From this share on a fact counts as shared."""


def counted(group: Group, joining: Sequence[Mapping[str, str]]) -> Group:
    """``group`` with the facts of those that join it counted; of rare values the count may be lost."""
    facts, having = dict(group.facts), dict(group.having)
    for name in FACTS:
        values = Counter(each[name] for each in joining if each.get(name))
        having[name] = having.get(name, 0) + values.total()
        values.update(facts.get(name, {}))
        facts[name] = dict(values.most_common(VALUES_LIMIT))
    return replace(group, facts=facts, having=having)


def shared(group: Group) -> dict[str, str]:
    """What at least four of five members have in common, of those where it is known: fact → value and how many."""
    found = {}
    for name in FACTS:
        total = group.having.get(name, 0)
        value, count = max(group.facts.get(name, {}).items(), key=lambda item: item[1], default=("", 0))
        if total >= 2 and count >= MOST * total:
            how_many = f"all {count}" if count == total else f"{count} of {total}"
            known = "" if total >= len(group.members) else " where it is known"
            found[name] = f"{value} ({how_many}{known})"
    return found
