"""Conditions of nodes, as the nodes report them.

A node checks itself, sample by sample, and reports what holds (:mod:`lastbeat.training.node.judging`). So watchers with
different rhythms agree, and a condition that comes and goes raises one alert. Rank 0 reports in metadata.json, other
nodes in files of their own.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.health import REMEDIES, HealthCondition
from lastbeat.model.observation import IllNode, Seen
from lastbeat.model.pattern import Pattern
from lastbeat.model.record import Attempt
from lastbeat.model.text import fit, one_line
from lastbeat.watch.decide.conditions.condition import METADATA, NODES, Check, Condition
from lastbeat.watch.decide.silent_ranks import is_of_attempt

_LIMIT: Final = 300
_BROKEN: Final = frozenset({names.GPU_LOST, names.GPU_ECC})
_MOST_HOSTS: Final = 8
_HOST: Final = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_NODES: Final = 2
"""This many nodes are named in a condition's text; the others are counted."""


def broken_hosts(seen: Seen, attempt: Attempt) -> tuple[str, ...]:
    """Hosts of ``attempt`` that reported a lost GPU or errors in its memory; at most :data:`_MOST_HOSTS`."""
    metadata = seen.metadata
    told = [(metadata.host, metadata.health or ())] if metadata is not None and metadata.fault is None else []
    told += [(node.host, node.conditions) for node in _ill_nodes(seen, attempt)]
    broken = (host or "" for host, conditions in told if any(each.name in _BROKEN for each in conditions))
    # Only valid host names reach a scheduler.
    return tuple(dict.fromkeys(host for host in broken if _HOST.fullmatch(host)))[:_MOST_HOSTS]


def _ill_nodes(seen: Seen, attempt: Attempt) -> list[IllNode]:
    """The nodes of ``attempt``, without that of rank 0, that report a condition."""
    return [
        node
        for node in (seen.ranks.ill if seen.ranks is not None else ())
        if is_of_attempt(node.modified, attempt, node.attempt)
    ]


def said_by_nodes(name: str, check: Check) -> str | None:
    """What the nodes of this attempt report under ``name``, or None if none does."""
    lines = [
        one_line(each.text) if host is None else f"{one_line(host)}: {one_line(each.text)}"
        for host, conditions in _reports(check)
        for each in conditions
        if each.name == name
    ]
    if not lines:
        return None
    more = len(lines) - _MOST_NODES
    text = "; ".join(lines[:_MOST_NODES]) + (f"; and {more} more nodes" if more > 0 else "")
    return fit(text, _LIMIT)


def _reports(check: Check) -> Iterator[tuple[str | None, tuple[HealthCondition, ...]]]:
    """Each node that reports a condition: its name for people (None if it is the only one), and its conditions."""
    evidence, metadata = check.evidence, check.evidence.seen.metadata
    stored_again = evidence.metadata is not None and evidence.metadata.suspect
    if metadata is not None and metadata.fault is None and not stored_again:
        several = (metadata.world_size or 1) > 1
        yield (metadata.host or "the node of rank 0") if several else None, metadata.health or ()
    for node in _ill_nodes(evidence.seen, evidence.attempt):
        yield node.host or f"the node of rank {node.rank}", node.conditions


def _row(name: str, meaning: str, *, outlasts_attempt: bool = False) -> Condition:
    meaning = f"by training's own reports ([health.md](health.md)) {meaning}"
    find, needs = partial(said_by_nodes, name), (METADATA, NODES)
    return Condition(name, meaning, find, needs, hint=REMEDIES[name], outlasts_attempt=outlasts_attempt)


BROKEN_GPUS: Final = (
    _row(names.GPU_LOST, "a GPU is lost"),
    _row(names.GPU_ECC, "a GPU has had memory errors"),
)
"""First in the table: a broken GPU explains the other conditions."""

CONDITIONS: Final = (
    _row(names.GPU_THROTTLED, "a GPU is slowed down", outlasts_attempt=True),
    _row(names.GPU_IDLE, "GPUs have been idle for ten minutes in which it made no step"),
    _row(names.RAM_LOW, "a node's memory runs out", outlasts_attempt=True),
    _row(names.DISK_LOW, "the disk of the checkpoints runs out (with when it will be full)", outlasts_attempt=True),
    _row(names.NETWORK_ERRORS, "a node's network counts errors"),
)
