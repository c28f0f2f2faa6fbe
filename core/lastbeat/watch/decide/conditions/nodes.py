"""Conditions of nodes, as they judge themselves.

A node judges itself, sample by sample, and reports what holds (:mod:`lastbeat.training.node.judging`); so watchers with
different rhythms agree, and what comes and goes is alerted once. Rank 0 reports in metadata.json, other nodes in files
of their own.
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
from lastbeat.watch.decide.conditions.condition import Check, Condition
from lastbeat.watch.decide.conditions.sources import METADATA, NODES
from lastbeat.watch.decide.silent_ranks import is_of_attempt

_LIMIT: Final = 300
_BROKEN: Final = frozenset({names.GPU_LOST, names.GPU_ECC})
_MOST_HOSTS: Final = 8
_HOST: Final = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MOST_NODES: Final = 2
"""This many nodes are named in a condition's text; the others are counted."""


def broken_hosts(seen: Seen, attempt: Attempt) -> tuple[str, ...]:
    """The hosts of ``attempt`` that have said that a GPU is lost, or that its memory had errors; few."""
    metadata = seen.metadata
    told = [(metadata.host, metadata.health or ())] if metadata is not None and metadata.fault is None else []
    told += [(node.host, node.conditions) for node in _ill_nodes(seen, attempt)]
    broken = (host or "" for host, conditions in told if any(each.name in _BROKEN for each in conditions))
    # What is no name of a host reaches no scheduler.
    return tuple(dict.fromkeys(host for host in broken if _HOST.fullmatch(host)))[:_MOST_HOSTS]


def _ill_nodes(seen: Seen, attempt: Attempt) -> list[IllNode]:
    """The nodes of other ranks than 0 that are not well, of ``attempt``."""
    return [
        node
        for node in (seen.ranks.ill if seen.ranks is not None else ())
        if is_of_attempt(node.modified, attempt)
        and (node.attempt is None or attempt.declared is None or node.attempt == attempt.declared)
    ]


def _said_by_nodes(name: str, check: Check) -> str | None:
    """What the nodes of this attempt report under ``name``, or None if none does."""
    lines = [
        one_line(each.text) if host is None else f"{one_line(host)}: {one_line(each.text)}"
        for host, conditions in _reports(check)
        for each in conditions
        if each.name == name
    ]
    more = len(lines) - _MOST_NODES
    text = "; ".join(lines[:_MOST_NODES]) + (f"; and {more} more nodes" if more > 0 else "")
    return fit(text, _LIMIT) if lines else None


def _reports(check: Check) -> Iterator[tuple[str | None, tuple[HealthCondition, ...]]]:
    """Each node that is not well, by the name that people know it by (None: the only one), and what it says."""
    evidence, metadata = check.evidence, check.evidence.seen.metadata
    stored_again = evidence.metadata is not None and evidence.metadata.suspect
    if metadata is not None and metadata.fault is None and not stored_again:
        several = (metadata.world_size or 1) > 1
        yield (metadata.host or "the node of rank 0") if several else None, metadata.health or ()
    for node in _ill_nodes(evidence.seen, evidence.attempt):
        yield node.host or f"the node of rank {node.rank}", node.conditions


def _row(name: str, meaning: str, *, outlasts_attempt: bool = False) -> Condition:
    meaning = f"by training's own reports ([health.md](health.md)) {meaning}"
    find, needs = partial(_said_by_nodes, name), (METADATA, NODES)
    return Condition(name, meaning, find, needs, hint=REMEDIES[name], outlasts_attempt=outlasts_attempt)


BROKEN_GPUS: Final = (
    _row(names.GPU_LOST, "a GPU is lost"),
    _row(names.GPU_ECC, "a GPU has had memory errors"),
)
"""What is wrong with a GPU explains the rest."""

CONDITIONS: Final = (
    _row(names.GPU_THROTTLED, "a GPU is slowed down", outlasts_attempt=True),
    _row(names.GPU_IDLE, "GPUs have been idle for ten minutes in which it made no step"),
    _row(names.RAM_LOW, "a node's memory runs out", outlasts_attempt=True),
    _row(names.DISK_LOW, "the disk of the checkpoints runs out (with when it will be full)", outlasts_attempt=True),
    _row(names.NETWORK_ERRORS, "a node's network counts errors"),
)
