"""One rank's dump → its collectives, whichever version of the format wrote it.

Versions 2.1 to 2.10 add fields and rename none, so a missing field is an unknown one. Older ones name a group by
``pg_name`` alone and count by ``seq_id``.
"""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lastbeat.explain import flight_recorder

if TYPE_CHECKING:
    from lastbeat.explain.flight_recorder.plain_pickle import Read

MOST_GROUPS: Final = 256
"""Most groups of a rank."""
_MOST_MEMBERS: Final = 1 << 17
_MOST_NAME: Final = 80
_MOST_NAMES: Final = 10_000
_MOST_SIZES: Final = 160
_MOST_FRAMES: Final = 64
"""Most frames of an entry that are searched for the program's own."""
_MOST_CALLS: Final = 400_000
"""Most collectives of all ranks together, as far as ranks are known to come."""
_LEAST_KEPT, _MOST_KEPT = 64, 4096
_LIBRARY: Final = re.compile(r"site-packages|dist-packages|/lib/python\d|/torch/|^<|^\?\?|\.(?:so|cpp|cc|h)\b|^$")
_DEFAULT_GROUP: Final = "default_pg"
_PICKLE: Final = b"\x80"
_KEYS: Final = (b"pg_config", b"entries", b"pg_status", b"comm_lib_version", b"nccl_version", b"collective_seq_id")
"""Of which a pickle has one at its beginning."""
_JSON_KEYS: Final = re.compile(rb'"(?:entries"\s{0,8}:\s{0,8}\[|pg_config"\s{0,8}:\s{0,8}\{)')
"""What a dump in JSON has at its beginning. Logs of JSON lines may have such words, too, in their texts."""
P2P: Final = re.compile(r"\b(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})")
_NUMBER: Final = re.compile(r"\d{1,7}")
HEAD_BYTES: Final = 4096
"""First bytes of a file that show whether it is a dump."""


class ProcessGroup(NamedTuple):
    """A process group, the same for each of its ranks."""

    name: str
    about: str
    """Its description, as ``default_pg``."""
    ranks: tuple[int, ...]
    """Global numbers. Empty: unknown."""

    @property
    def is_default(self) -> bool:
        """Whether all ranks belong to it."""
        return self.about == _DEFAULT_GROUP or (not self.about and self.name in {"0", _DEFAULT_GROUP})

    @property
    def shown(self) -> str:
        """``tp (1)``; the name alone if it has no description."""
        about = self.about if self.about not in {"", "undefined"} else ""
        return f"{about} ({self.name})" if about and self.name else about or self.name or "?"


class Call(NamedTuple):
    """What one rank asked of a group: a collective, or one end of a transfer."""

    seq: int
    name: str
    """``all_reduce``."""
    sizes: str
    """Sizes of inputs and outputs, for comparison and display."""
    dtypes: str
    at_ns: int
    """When it was asked for, in ns since 1970. 0: unknown."""
    done: bool
    started: bool
    frame: str
    """The innermost frame of the program's own code, else of any: ``train.py:88 in step``."""
    limit_ns: int
    """How long it may take. 0: unknown."""
    nccl: bool
    """Whether it is NCCL's, which says when a call is completed. Gloo forgets a call that failed as one that ended."""
    timed_out: bool


@dataclass(slots=True)
class RankDump:
    """What one rank's dump says: its latest calls of each group, oldest first."""

    calls: dict[ProcessGroup, list[Call]] = field(default_factory=dict)
    transfers: dict[ProcessGroup, list[Call]] = field(default_factory=dict)
    fault: str = ""
    """Why the rest is missing. Empty: the dump is whole."""

    @property
    def last(self) -> tuple[ProcessGroup, Call] | None:
        """The latest call of all."""
        both = [(group, calls[-1]) for each in (self.calls, self.transfers) for group, calls in each.items() if calls]
        return max(both, key=lambda one: one[1].at_ns, default=None)


def if_dump(read: "Read") -> "Read | None":
    """A function that reads the file from its beginning, if its first bytes look like a dump; else None."""
    head = read(HEAD_BYTES)
    if head[:1] == _PICKLE:
        found = any(key in head for key in _KEYS)
    else:
        found = head.lstrip()[:1] == b"{" and _JSON_KEYS.search(head) is not None
    return _after(head, read) if found else None


def _after(head: bytes, read: "Read") -> "Read":
    """A function that returns ``head``, and then what ``read`` does."""
    waiting = [head]
    return lambda count: waiting.pop() if waiting else read(count)


def kept_calls(ranks: int) -> int:
    """How many of its latest calls are kept of each rank, if ``ranks`` dumps are read."""
    return max(_LEAST_KEPT, min(_MOST_KEPT, _MOST_CALLS // max(1, ranks)))


def read_dump(read: "Read", expired: Callable[[], bool], *, keep: int = _MOST_KEPT) -> RankDump:
    """The dump whose bytes ``read`` returns, as far as it can be read. ``keep`` limits the calls of each group.

    Raises :class:`plain_pickle.RefusedDumpError` if nothing of it can be read.
    """
    first = read(HEAD_BYTES)
    entries = _Entries(keep)
    # They load for a file that is a dump: most that people ask about are logs.
    pickles, texts = flight_recorder.plain_pickle, flight_recorder.json_dump
    form = pickles.PlainPickle if first[:1] == _PICKLE else texts.JsonDump
    reader = form(_after(first, read), entries.take, expired)
    fault = ""
    try:
        document = reader.load()
    except pickles.RefusedDumpError as wrong:
        document, fault = reader.salvaged(), str(wrong)
        if not entries.count:
            raise
    found = entries.rank_dump(document if isinstance(document, dict) else {})
    found.fault = fault
    return found


class _Entries:
    """The latest entries of each group in one dump."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self.count = 0
        self._entries: dict[tuple[Any, bool], deque[Mapping[Any, Any]]] = {}
        self._transfers: dict[str, bool] = {}
        """Name of an operation → whether it has a sender and a receiver."""

    def take(self, entry: Mapping[Any, Any]) -> bool:
        """Keep ``entry``, if it is one; most entries of a long dump are dropped later."""
        name = entry.get("profiling_name")
        if type(name) is not str:
            return False
        self.count += 1
        transfer = self._transfers.get(name)
        if transfer is None:
            if len(self._transfers) > _MOST_NAMES:
                self._transfers.clear()
            transfer = self._transfers[name] = P2P.search(name[: 2 * _MOST_NAME]) is not None
        key = (_group(entry), transfer or entry.get("is_p2p") is True)
        entries = self._entries.get(key)
        if entries is None:
            if len(self._entries) >= MOST_GROUPS:
                return True
            entries = self._entries[key] = deque(maxlen=self._keep)
        entries.append(entry)
        return True

    def rank_dump(self, document: Mapping[Any, Any]) -> RankDump:
        entries = document.get("entries")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry:
                self.take(entry)
        groups, dump = document.get("pg_config"), RankDump()
        for ((name, about), transfer), kept in self._entries.items():
            calls = map(_call, kept)
            group = ProcessGroup(name, about, _members(groups, name))
            if transfer:
                dump.transfers[group] = list(calls)
            else:
                dump.calls[group] = _in_turn(calls)
        return dump


def _in_turn(calls: Iterable[Call]) -> list[Call]:
    """``calls`` with the parts of a coalesced call joined: all of them have to end. If numbers begin again, the group
    was made again under its name, and only its latest life counts."""
    found: list[Call] = []
    for call in calls:
        if found and call.seq < found[-1].seq:
            found.clear()
        if found and call.seq == found[-1].seq:
            found[-1] = found[-1]._replace(done=found[-1].done and call.done)
        else:
            found.append(call)
    return found


def _call(entry: Mapping[Any, Any]) -> Call:
    backend, _, name = str(entry["profiling_name"])[: 2 * _MOST_NAME].partition(":")
    state, done = entry.get("state"), _is_done(entry, backend)
    return Call(
        _whole(entry.get("collective_seq_id", entry.get("seq_id"))),
        sys.intern((name or backend)[:_MOST_NAME]),
        sys.intern(f"{_flat(entry.get('input_sizes'))} → {_flat(entry.get('output_sizes'))}"),
        sys.intern(f"{_flat(entry.get('input_dtypes'))} → {_flat(entry.get('output_dtypes'))}"),
        _whole(entry.get("time_created_ns")),
        done,
        done or state == "started" or bool(entry.get("time_discovered_started_ns")),
        sys.intern(_frame(entry.get("frames"))),
        _whole(entry.get("timeout_ms")) * 1_000_000,
        backend != "gloo",
        # A call of NCCL that is retired and not completed has timed out.
        backend != "gloo" and not done and entry.get("retired") is True,
    )


def _group(entry: Mapping[Any, Any]) -> tuple[str, str]:
    named = entry.get("process_group", entry.get("pg_name", entry.get("pg_id")))
    parts = named if isinstance(named, (tuple, list)) else (named,)
    texts = [str(part)[:_MOST_NAME] for part in parts[:2] if isinstance(part, (str, int))]
    return (*texts, "", "")[0], (*texts, "", "")[1]


def _members(groups: Any, name: str) -> tuple[int, ...]:
    """The global ranks of a group; empty if unknown. Gloo lists none."""
    known = groups.get(name) if isinstance(groups, dict) else None
    ranks = known.get("ranks") if isinstance(known, dict) else known
    if isinstance(ranks, str):
        ranks = [int(each) for each in _NUMBER.findall(ranks)]
    if not isinstance(ranks, (list, tuple)) or len(ranks) > _MOST_MEMBERS:
        return ()
    return tuple(sorted({_whole(each) for each in ranks}))


def _is_done(entry: Mapping[Any, Any], backend: str) -> bool:
    if entry.get("state") == "completed" or entry.get("time_discovered_completed_ns"):
        return True
    # Gloo only ever retires.
    return backend == "gloo" and entry.get("retired") is True


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _flat(sizes: Any) -> str:
    """``[4096, 8] [8]``."""
    if not isinstance(sizes, (list, tuple)):
        return ""
    shown = ""
    for each in sizes:
        shown += f" {'[' + ', '.join(map(_short, each[:8])) + ']' if isinstance(each, (list, tuple)) else _short(each)}"
        if len(shown) > _MOST_SIZES:
            return f"{shown[:_MOST_SIZES]} … of {len(sizes)}"
    return shown.strip()


def _short(value: Any) -> str:
    return str(value)[:24] if isinstance(value, (int, str)) else "?"


def _frame(frames: Any) -> str:
    known = list(_frames(frames)) if isinstance(frames, (list, tuple)) else []
    own = next((shown for file, shown in known if not _LIBRARY.search(file)), "")
    return own or next((shown for _, shown in known), "")


def _frames(frames: Any) -> Iterator[tuple[str, str]]:
    """File, and the frame for display, innermost first."""
    for frame in frames[:_MOST_FRAMES]:
        if not isinstance(frame, dict):
            continue
        file, line, name = frame.get("filename"), frame.get("line"), frame.get("name")
        if isinstance(file, str) and isinstance(name, str):
            where = file[-2 * _MOST_NAME :].rsplit("/", 1)[-1]
            yield file[:1000], f"{where}:{_whole(line)} in {name[:_MOST_NAME]}"
