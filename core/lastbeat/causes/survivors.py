"""Survivors: ranks that saw a peer go away, and whom they, or a launcher, name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lastbeat.causes import error_file
from lastbeat.causes.candidates import Candidate, Tier
from lastbeat.causes.log_summary import LogSummary, Named
from lastbeat.model.cause import LostPeer

RANK: Final = "peer_rank"
"""The field in which a signal extracts a peer's rank. Its address is in ``peer``, or another field that begins so."""
_ADDRESS: Final = "peer"
_LOOPBACK: Final = ("127.", "::1", "localhost", "0.0.0.0", "::ffff:127.")  # noqa: S104 - an address in a log
_LEAST_NAME: Final = 3


def lost_peer(best: Candidate, candidates: Sequence[Candidate], logs: Sequence[LogSummary]) -> LostPeer | None:
    """The peer whose end the logs show by what others saw of it. None: ``best`` is no such sight.

    1. Whoever reports that a peer went away lived on: it is not the one. The first other one that they name is.
    2. A launcher or scheduler that names ranks and hosts of processes that failed may know more of it, or all there is.
    3. Where nobody names its rank, it is the only one whose log tells of no trouble.
    4. Is a log of its own here, or can it be missing at all, because each log is of one process?
    """
    reports = [each for each in candidates if each.tier == Tier.CASCADE and each.traits.between_peers]
    # Ray's driver tells of a worker as ranks do of each other.
    of_peers = best.traits.between_peers or (best.signal.envelope and bool(best.log.named))
    if best.tier != Tier.CASCADE or not of_peers or best.traits.is_imposed:
        return None
    survivors = [Named(each.rank, each.mention.host) for each in reports]
    seen = [named for each in candidates if (named := named_in(each.mention.fields)) is not None]
    told = [*_by_launchers(candidates), *(named for log in logs for named in reversed(log.named))]
    others = [each for each in seen if not _is_any_of(each, survivors)]
    known = [each for each in told if not _is_any_of(each, survivors)]
    found = _merged(others[0] if others else None, known)
    surely = best.signal.envelope or best.mention.where == "collective"
    if found == Named() and not surely:
        # Of a web server, say, or of a worker that loads data.
        return None
    silent = _silent(logs, [each.log for each in candidates if each.tier > Tier.CONFIRMATION])
    if found.rank is None and len(silent) == 1 and silent[0].rank is not None and not _own_log(found, silent):
        # All others live on.
        found = replace(found, rank=silent[0].rank)
    apart = _are_apart(candidates, logs) and (found != Named() or not silent)
    return LostPeer(found.rank, found.host, _own_log(found, silent), apart=apart)


def named_in(fields: Mapping[str, str]) -> Named | None:
    """Whom a line names, by what its signal extracts."""
    rank = fields.get(RANK, "")
    addresses = (value for name, value in fields.items() if name.startswith(_ADDRESS) and name != RANK)
    host = _host(next(addresses, ""))
    named = Named(int(rank) if rank.isdigit() else None, host)
    return named if named != Named() else None


def _host(address: str) -> str | None:
    """A machine's name without its domain, or its address. None: it says nothing of which machine."""
    text = address.strip("[]()<>,;. ")
    if text.isdigit() or text.lower().startswith(_LOOPBACK):
        # NCCL names processes of its own node by number.
        return None
    text = text.removeprefix("::ffff:")
    name = text.partition(".")[0]
    return (name if any(map(str.isalpha, name)) and ":" not in text else text) or None


def _by_launchers(candidates: Iterable[Candidate]) -> Iterator[Named]:
    """Those that ``srun: error: node-17: task 3: …`` names, and whatever is worded alike."""
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


def _merged(seen: Named | None, told: Sequence[Named]) -> Named:
    """What survivors saw, and launchers know of the same one; or of the only one, since addresses are no names."""
    if seen is None:
        return told[0] if told else Named()
    same = next((each for each in told if _is(each, seen)), None)
    if same is None and len(told) == 1 and seen.rank is None and seen.host is not None and not seen.host[0].isalpha():
        same = told[0]
    if same is None:
        return seen
    rank = seen.rank if seen.rank is not None else same.rank
    return replace(seen, rank=rank, host=same.host or seen.host)


def _silent(logs: Sequence[LogSummary], speaking: Sequence[LogSummary]) -> list[LogSummary]:
    """Logs that tell of no trouble at all."""
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
    """Whether each log is of one process: then a log that is missing can be told."""
    speakers: dict[int, set[tuple[str, object]]] = {}
    for each in candidates:
        if each.tier == Tier.CONFIRMATION or error_file.is_error(each.log.file):
            continue
        who = ("rank", each.rank) if each.rank is not None else ("host", each.mention.host)
        speakers.setdefault(each.log_index, set()).add(who)
    ranks = all(log.rank is not None for log in logs if not error_file.is_error(log.file))
    alone = all(len(who) == 1 and all(name is not None for _, name in who) for who in speakers.values())
    return ranks or (bool(speakers) and alone)
