"""Finds the lost peer in the reports of surviving ranks and launchers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lastbeat.explain.causes import error_file
from lastbeat.explain.causes.candidates import Candidate, Tier
from lastbeat.explain.causes.log_summary import LogSummary, Named
from lastbeat.model.cause import LostPeer

RANK: Final = "peer_rank"
"""Name of the field with a peer's rank."""
_ADDRESS: Final = "peer"
"""Prefix of the names of fields with a peer's address."""
_LOOPBACK: Final = ("127.", "::1", "localhost", "0.0.0.0", "::ffff:127.")  # noqa: S104 - an address in a log
_LEAST_NAME: Final = 3
"""Least characters of a host's name that is looked for in file names."""


def lost_peer(best: Candidate, candidates: Sequence[Candidate], logs: Sequence[LogSummary]) -> LostPeer | None:
    """The peer that other ranks report as gone, or None if ``best`` is no such report.

    1. A rank that reports a lost peer has survived, so it is not the lost one. The first other rank that they name is.
    2. A launcher or scheduler that names failed ranks and hosts may complete it, or be the only source.
    3. If its rank is not named, it is the only rank whose log reports no trouble.
    4. Note the peer's own log, or whether it is missing although each log is of one process.
    """
    reports = [each for each in candidates if each.tier == Tier.CASCADE and each.traits.between_peers]
    # Ray's driver reports a lost worker as ranks report a lost peer.
    of_peers = best.traits.between_peers or (best.signal.envelope and bool(best.log.named))
    if best.tier != Tier.CASCADE or not of_peers or best.traits.is_imposed:
        return None
    survivors = [Named(each.rank, each.mention.host) for each in reports]
    seen = [named for each in candidates if (named := named_in(each.mention.fields)) is not None]
    by_launchers = [*_by_launchers(candidates), *(named for log in logs for named in reversed(log.named))]
    others = [each for each in seen if not _is_any_of(each, survivors)]
    known = [each for each in by_launchers if not _is_any_of(each, survivors)]
    found = _merged(others[0] if others else None, known)
    surely = best.signal.envelope or best.mention.where == "collective"
    if found == Named() and not surely:
        # It may be about a web server, for example, or a worker that loads data.
        return None
    silent = _silent(logs, [each.log for each in candidates if each.tier > Tier.CONFIRMATION])
    if found.rank is None and len(silent) == 1 and silent[0].rank is not None and not _own_log(found, silent):
        # All other ranks have survived.
        found = replace(found, rank=silent[0].rank)
    apart = _are_apart(candidates, logs) and (found != Named() or not silent)
    return LostPeer(found.rank, found.host, _own_log(found, silent), apart=apart)


def named_in(fields: Mapping[str, str]) -> Named | None:
    """The process that a line names, from the fields that its signal extracts; None if it names none."""
    rank = fields.get(RANK, "")
    addresses = (value for name, value in fields.items() if name.startswith(_ADDRESS) and name != RANK)
    host = _host(next(addresses, ""))
    named = Named(int(rank) if rank.isdigit() else None, host)
    return named if named != Named() else None


def _host(address: str) -> str | None:
    """A machine's name without its domain, or its address. None if ``address`` identifies no machine."""
    text = address.strip("[]()<>,;. ")
    if text.isdigit() or text.lower().startswith(_LOOPBACK):
        # NCCL names processes of its own node by number.
        return None
    text = text.removeprefix("::ffff:")
    name = text.partition(".")[0]
    return (name if any(map(str.isalpha, name)) and ":" not in text else text) or None


def _by_launchers(candidates: Iterable[Candidate]) -> Iterator[Named]:
    """The processes named by ``srun: error: node-17: task 3: …`` and similar lines."""
    for each in candidates:
        node = each.mention.fields.get("node")
        if each.tier == Tier.CONFIRMATION and each.rank is not None and node:
            yield Named(each.rank, _host(node))


def _is_any_of(one: Named, others: Iterable[Named]) -> bool:
    return any(_is(one, other) for other in others)


def _is(one: Named, other: Named) -> bool:
    if one.rank is not None and other.rank is not None:
        return one.rank == other.rank
    return one.host is not None and other.host is not None and one.host == _host(other.host)


def _merged(seen: Named | None, known: Sequence[Named]) -> Named:
    """The process that survivors saw, completed by the launchers' entry ``known`` for it. If survivors give only an
    address, which is no name, a single entry counts as the same one."""
    if seen is None:
        return known[0] if known else Named()
    same = next((each for each in known if _is(each, seen)), None)
    if same is None and len(known) == 1 and seen.rank is None and seen.host is not None and not seen.host[0].isalpha():
        same = known[0]
    if same is None:
        return seen
    rank = seen.rank if seen.rank is not None else same.rank
    return replace(seen, rank=rank, host=same.host or seen.host)


def _silent(logs: Sequence[LogSummary], speaking: Sequence[LogSummary]) -> list[LogSummary]:
    """Logs that report no trouble at all."""
    return [log for log in logs if not error_file.is_error(log.file) and not any(log is each for each in speaking)]


def _own_log(peer: Named, silent: Sequence[LogSummary]) -> str:
    for log in silent:
        if log.rank is not None and log.rank == peer.rank:
            return log.file
        name = log.file.rsplit("/", 1)[-1].lower()
        if peer.host is not None and len(peer.host) >= _LEAST_NAME and peer.host.lower() in name:
            return log.file
    return ""


def _are_apart(candidates: Iterable[Candidate], logs: Sequence[LogSummary]) -> bool:
    """Whether each log is of one process, so that a missing log is noticeable."""
    speakers: dict[int, set[tuple[str, object]]] = {}
    for each in candidates:
        if each.tier == Tier.CONFIRMATION or error_file.is_error(each.log.file):
            continue
        who = ("rank", each.rank) if each.rank is not None else ("host", each.mention.host)
        speakers.setdefault(each.log_index, set()).add(who)
    ranks = all(log.rank is not None for log in logs if not error_file.is_error(log.file))
    alone = all(len(who) == 1 and all(name is not None for _, name in who) for who in speakers.values())
    return ranks or (bool(speakers) and alone)
