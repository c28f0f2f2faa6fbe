"""Read one log with one way of matching, in a process of its own: prints what it took and what it found, as JSON."""

import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from lastbeat.explain.scanning import regex_tree
from lastbeat.explain.scanning.matching import Matcher, compiled
from lastbeat.explain.scanning.prefilter import EACH_STEP, Prefilter
from lastbeat.explain.scanning.splitting import Splitter, line_of
from lastbeat.explain.signals.loading import load
from lastbeat.model.signal import Signal

CATALOGUE = "megatron_production"
CHUNK = 1 << 20
Hit = tuple[int, str]
Way = Callable[[Path], Iterable[Hit]]


def main(argv: Sequence[str]) -> int:
    way, path = argv[0], Path(argv[1])
    known = load(CATALOGUE).signals
    began = time.process_time()
    scan = WAYS[way](known)
    ready = time.process_time()
    hits = list(scan(path))
    took = {"ready_s": ready - began, "cpu_s": time.process_time() - ready}
    print(json.dumps({**took, "bytes": path.stat().st_size, **told(hits)}))
    return 0


def told(hits: Iterable[Hit]) -> dict[str, object]:
    """What of ``hits`` has to be the same whoever found them."""
    known = sorted(set(hits))
    return {"hits": len(known), "digest": hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]}


def ours(signals: Sequence[Signal], *, native: bool) -> Way:
    """Everything but the lines of each step, and of those the last one in each megabyte."""
    matcher = Matcher(signals, native=native)
    prefilter = Prefilter(matcher)

    def scan(path: Path) -> Iterator[Hit]:
        splitter = Splitter()
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                batch = splitter.feed(data)
                for index in prefilter.lines(batch):
                    line = batch.line(index)
                    for signal, _ in matcher.matches(line.text):
                        if signal.kind not in EACH_STEP:
                            yield line.number, signal.name
                for index in prefilter.progress(batch, 0, len(batch)):
                    if any(signal.kind in EACH_STEP for signal, _ in matcher.matches(batch.line(index).text)):
                        break

    return scan


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            yield number, line_of(number, line.rstrip("\n")).text if line.startswith(("[rank", "(")) else line[:-1]


def loop(signals: Sequence[Signal]) -> Way:
    """Each pattern on each line: what such monitors do."""
    patterns = [(signal.name, compiled(signal).search) for signal in signals if signal.kind not in EACH_STEP]
    steps = [compiled(signal).search for signal in signals if signal.kind in EACH_STEP]

    def scan(path: Path) -> Iterator[Hit]:
        for number, line in lines_of(path):
            for name, search in patterns:
                if search(line) is not None:
                    yield number, name
            for search in steps:
                search(line)

    return scan


def alternation(signals: Sequence[Signal]) -> Way:
    """All patterns as one; where it matches, each by itself."""
    wanted = [signal for signal in signals if signal.kind not in EACH_STEP]
    parts = [re.sub(r"\(\?P<\w+>", "(?:", compiled(signal).pattern) for signal in wanted]
    written = [
        f"(?i:{part})" if signal.ignore_case else f"(?:{part})" for signal, part in zip(wanted, parts, strict=True)
    ]
    anyone = re.compile("|".join(written), re.ASCII).search
    patterns = [(signal.name, compiled(signal).search) for signal in wanted]

    def scan(path: Path) -> Iterator[Hit]:
        for number, line in lines_of(path):
            if anyone(line) is not None:
                for name, search in patterns:
                    if search(line) is not None:
                        yield number, name

    return scan


def is_common(pattern: str) -> bool:
    """Whether RE2 and Hyperscan support ``pattern``: it has no back-reference and no look-around."""
    nodes = regex_tree.nodes(regex_tree.parse(pattern))
    looks = (isinstance(node, regex_tree.Assertion) and node.inside is not None for node in nodes)
    return not any(looks) and not any(isinstance(node, regex_tree.BackReference) for node in nodes)


def re2_set(signals: Sequence[Signal]) -> Way:
    """``google-re2``'s Set on each line, and Python's ``re`` for the patterns that RE2 does not take."""
    import re2  # noqa: PLC0415 - only this way needs it

    wanted = [signal for signal in signals if signal.kind not in EACH_STEP]
    options = re2.Options()
    options.max_mem = 1 << 30
    options.log_errors = False
    options.never_capture = True
    together = re2.Set.SearchSet(options)
    numbered, apart = [], []
    for signal in wanted:
        pattern = compiled(signal).pattern
        if not signal.substring and not is_common(pattern):
            apart.append((signal.name, compiled(signal).search))
        else:
            together.Add(("(?i)" if signal.ignore_case else "") + pattern.replace("(?<", "(?P<").replace("\\Z", "\\z"))
            numbered.append(signal.name)
    together.Compile()

    def scan(path: Path) -> Iterator[Hit]:
        for number, line in lines_of(path):
            for index in together.Match(line) or ():  # None for none
                yield number, numbered[index]
            for name, search in apart:
                if search(line) is not None:
                    yield number, name

    return scan


def hyperscan(signals: Sequence[Signal]) -> Way:
    """Blocks of whole lines; what it may have found is asked of Python's ``re``, which knows captures and looks."""
    import hyperscan as hs  # noqa: PLC0415 - only this way needs it

    wanted = [signal for signal in signals if signal.kind not in EACH_STEP]
    flags = []
    for signal in wanted:
        shared = signal.substring or is_common(signal.pattern)
        flags.append(
            hs.HS_FLAG_MULTILINE
            | hs.HS_FLAG_ALLOWEMPTY
            | (hs.HS_FLAG_CASELESS if signal.ignore_case else 0)
            | (0 if shared else hs.HS_FLAG_PREFILTER)
        )
    database = hs.Database()
    written = [re.sub(r"\(\?P<\w+>", "(?:", compiled(signal).pattern).encode() for signal in wanted]
    # A prefix is not part of the text, so that what begins a text may stand behind one.
    written = [pattern.replace(b"^\\s{0,8}", b"").replace(b"|^", b"|").removeprefix(b"^") for pattern in written]
    database.compile(expressions=written, ids=list(range(len(wanted))), elements=len(wanted), flags=flags)
    searches = [compiled(signal).search for signal in wanted]

    def scan(path: Path) -> Iterator[Hit]:
        first, half = 1, b""
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                whole, _, rest = (half + data).rpartition(b"\n")
                ends: set[tuple[int, int]] = set()
                database.scan(
                    whole, match_event_handler=lambda index, _, end, __, seen: seen.add((end, index)), context=ends
                )
                counted, number = 0, first
                for end, index in sorted(ends):
                    number += whole.count(b"\n", counted, end - 1)
                    counted = end - 1
                    start = whole.rfind(b"\n", 0, end - 1) + 1
                    stop = whole.find(b"\n", end - 1)
                    line = whole[start : stop if stop >= 0 else len(whole)].decode("utf-8", "replace")
                    if searches[index](line_of(number, line).text) is not None:
                        yield number, wanted[index].name
                first += whole.count(b"\n") + 1
                half = rest

    return scan


def lines_told(path: Path, names: set[str]) -> list[int]:
    """The lines that match one of these signals."""
    scan = ours(load(CATALOGUE).signals, native=True)
    return sorted({number for number, name in scan(path) if name in names})


WAYS: dict[str, Callable[[Sequence[Signal]], Way]] = {
    "ours": lambda signals: ours(signals, native=True),
    "ours, no RE2": lambda signals: ours(signals, native=False),
    "loop": loop,
    "alternation": alternation,
    "re2": re2_set,
    "hyperscan": hyperscan,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
