"""What nodes say of their own health, as conditions of the run. Pure.

A node judges itself, sample by sample, and says what holds (:mod:`lastbeat.health.judging`); so watchers with different
rhythms agree, and what comes and goes is told once. Rank 0 says it in metadata.json, other nodes in files of their own.
"""

from typing import TYPE_CHECKING, Final

from lastbeat.decide.silent_ranks import is_of_attempt
from lastbeat.model import status as names
from lastbeat.model.health import HEALTH_CONDITIONS
from lastbeat.model.observation import IllNode, Seen
from lastbeat.model.pattern import Pattern
from lastbeat.model.record import Attempt
from lastbeat.model.text import fit, one_line

if TYPE_CHECKING:
    from lastbeat.decide.verdict import AttemptEvidence

_LIMIT: Final = 300
_BROKEN: Final = frozenset({names.GPU_LOST, names.GPU_ECC})
_MOST_HOSTS: Final = 8
_HOST: Final = Pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAMED: Final = 2
"""So many nodes are told in words; the others are counted."""


def health_conditions(evidence: "AttemptEvidence") -> dict[str, str]:
    """Condition → what nodes of this attempt say of it, worst first. Where this look could not see how things are,
    those of the record stand."""
    metadata, ranks, known = evidence.seen.metadata, evidence.seen.ranks, evidence.known_health
    told = metadata if metadata is not None and metadata.fault is None and not _is_old(evidence) else None
    world = (metadata.world_size or 1) if metadata is not None else 1
    blind = evidence.metadata is not None and told is None
    hidden = blind or (world > 1 if ranks is None else ranks.unread or ranks.denied or ranks.ill_left)
    found: dict[str, list[str]] = {}
    for each in (told.health or ()) if told is not None else ():
        where = told.host or "the node of rank 0" if told is not None and world > 1 else None
        found.setdefault(each.name, []).append(_on(where, each.text))
    for node in ranks.ill if ranks is not None else ():
        if _is_of(node, evidence.attempt):
            for each in node.conditions:
                found.setdefault(each.name, []).append(_on(node.host or f"the node of rank {node.rank}", each.text))
    raised: dict[str, str] = {}
    for name in HEALTH_CONDITIONS:
        if name in found:
            raised[name] = _told(found[name])
        elif name in known and hidden:
            raised[name] = known[name]
    return raised


def broken_hosts(seen: Seen, attempt: Attempt) -> tuple[str, ...]:
    """The hosts of ``attempt`` that have said that a GPU is lost, or that its memory had errors; few."""
    metadata, ranks = seen.metadata, seen.ranks
    told = [(metadata.host, metadata.health or ())] if metadata is not None and metadata.fault is None else []
    told += [(node.host, node.conditions) for node in (ranks.ill if ranks is not None else ()) if _is_of(node, attempt)]
    broken = (host or "" for host, conditions in told if any(each.name in _BROKEN for each in conditions))
    # What is no name of a host reaches no scheduler.
    return tuple(dict.fromkeys(host for host in broken if _HOST.fullmatch(host)))[:_MOST_HOSTS]


def _is_old(evidence: "AttemptEvidence") -> bool:
    """Whether metadata.json is an old document that was stored again."""
    return evidence.metadata is not None and evidence.metadata.suspect


def _is_of(node: IllNode, attempt: Attempt) -> bool:
    return is_of_attempt(node.modified, attempt) and (
        node.attempt is None or attempt.declared is None or node.attempt == attempt.declared
    )


def _on(host: str | None, text: str) -> str:
    return one_line(text) if host is None else f"{one_line(host)}: {one_line(text)}"


def _told(lines: list[str]) -> str:
    more = len(lines) - _NAMED
    return fit("; ".join(lines[:_NAMED]) + (f"; and {more} more nodes" if more > 0 else ""), _LIMIT)
