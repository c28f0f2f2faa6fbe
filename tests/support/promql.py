"""What a PromQL expression asks for, by a parser that is not ours."""

import re
from collections.abc import Iterator
from typing import Any

import promql_parser

from lastbeat_cli.metrics.table import FLEET, METRICS

KNOWN = {metric.name: {FLEET, *metric.labels} for metric in METRICS}
OF_PROMETHEUS = {"instance", "job"}
"""Labels that every scrape adds."""
_GRAFANA = (
    (re.compile(r"\[\$__\w+\]"), "[5m]"),
    (re.compile(r"\$\w+"), "x"),
    (re.compile(r"\$\{\w+\}"), "x"),
)


def without_variables(expression: str) -> str:
    """As Grafana sends it, more or less."""
    for pattern, instead in _GRAFANA:
        expression = pattern.sub(instead, expression)
    return expression


def faults(expression: str) -> list[str]:
    """What it names that we do not export; an expression that is none raises ``ValueError``."""
    tree = promql_parser.parse(without_variables(expression))
    found, labels = [], set[str]()
    selectors = list(_selectors(tree))
    for name, named in selectors:
        if name not in KNOWN:
            found.append(f"no metric {name}")
            continue
        labels |= KNOWN[name]
        found += [f"{name} has no label {label}" for label in sorted(named - KNOWN[name] - OF_PROMETHEUS)]
    if not selectors:
        found.append("it asks for nothing")
    found += [f"nothing has the label {label}" for label in sorted(_grouped(tree) - labels - OF_PROMETHEUS)]
    return found


def _children(tree: Any) -> Iterator[Any]:
    for name in ("expr", "lhs", "rhs", "param"):
        child = getattr(tree, name, None)
        if child is not None and not isinstance(child, (str, int, float)):
            yield child
    yield from getattr(tree, "args", ())


def _selectors(tree: Any) -> Iterator[tuple[str, set[str]]]:
    selector = getattr(tree, "vector_selector", tree)
    if isinstance(selector, promql_parser.VectorSelector):
        yield str(selector.name), {matcher.name for matcher in selector.matchers.matchers}
        return
    for child in _children(tree):
        yield from _selectors(child)


def _grouped(tree: Any) -> set[str]:
    """Labels that it groups or matches by."""
    modifier = getattr(tree, "modifier", None)
    found = set[str]()
    for holder in (modifier, getattr(modifier, "matching", None)):
        found.update(map(str, getattr(holder, "labels", None) or ()))
    found.update(map(str, getattr(modifier, "group_labels", None) or ()))
    for child in _children(tree):
        found |= _grouped(child)
    return found
