"""``make bench``: prints the tables of docs/performance*.md and docs/accuracy.md; ``--write`` puts them there."""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import lastbeat
from bench import (
    detection,
    faults,
    fleet,
    guardian,
    hangs,
    health,
    loop,
    measure,
    numbers,
    ray,
    restarts,
    scale,
    sdk,
    signals,
    stragglers,
    timeouts,
    views,
)
from bench.server import BUCKET, CHECKOUT, PREFIX, S3, s3

PAGES = [*sorted((CHECKOUT / "docs").glob("performance*.md")), CHECKOUT / "docs" / "accuracy.md"]
AN_HOUR = "polling"
"""A part that runs only if it is named, because it takes an hour."""
PACKAGES = ("obstore", "boto3", "moto")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--times", type=int, default=21, help="runs of each command (21)")
    parser.add_argument("--passes", type=int, default=20, help="passes of the loop that are counted (20)")
    parser.add_argument("--rounds", type=int, default=5, help="loops of each logger (5)")
    parser.add_argument("--peers", action="store_true", help="install the peers into build/bench-peers first")
    parser.add_argument(
        "--only",
        choices=(*PARTS, AN_HOUR),
        help="one run, requests of fleets, their time, logs, looking, restarts, on Ray, limits, numbers, nodes, …",
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long the polling supervisor is watched (60)")
    parser.add_argument("--curves", type=Path, help="a folder of logs and trainer_state.json files to judge as well")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the logs that are read (200)")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/performance*.md, each part as a whole"
    )
    args = parser.parse_args(argv)
    if args.peers:
        sdk.install_peers()
        signals.install_peers()
    incomplete = False
    for part in (args.only,) if args.only else PARTS:
        lines = [line.rstrip() for line in tables_of(part, args)]
        text = "\n".join(lines) + "\n"
        print(text, end="")
        if args.write:
            missing = [line for line in lines if "not installed" in line or "| did not run" in line]
            if missing:
                # Else figures of another commit would stay beside new ones, or rows would be lost.
                print("not written, for these rows are missing (--peers installs what people use):", file=sys.stderr)
                print(*missing, sep="\n", file=sys.stderr)
                incomplete = True
            else:
                write(part, text)
    return 1 if incomplete else 0


def tables_of(part: str, args: argparse.Namespace) -> Iterator[str]:
    """The lines of one part: the machine and how it is measured, then its tables."""
    if part == "run":
        yield from run_tables(args)
        return
    if part == "counts":
        progress("requests and dollars of fleets")
        yield f"lastbeat {lastbeat.__version__} at {_commit()}; such counts are the same on every machine."
        yield ""
        yield from fleet.counted()
        return
    how, tables = _TABLES[part]
    yield from machine(how)
    yield ""
    yield from tables(args)


def run_tables(args: argparse.Namespace) -> Iterator[str]:
    yield from machine(f"Each command {args.times} times, in turn with the others;")
    with s3() as server, tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
        for part in (
            requests_a_pass(server, args.passes),
            start_to_exit(server, Path(folder), args.times),
            imports(Path(folder), args.times),
            sdk.starts(server, Path(folder), args.times),
            sdk.calls(Path(folder)),
            sdk.loops(Path(folder), args.rounds),
            detection.table(server, 7),
            guardian.table(Path(folder), 7),
        ):
            yield ""
            yield from part


def health_tables(args: argparse.Namespace) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
        yield from health.tables(progress, Path(folder), args.times)


_TABLES: Final[dict[str, tuple[str, Callable[[argparse.Namespace], Iterator[str]]]]] = {
    "fleet": (
        "Each fleet on a server of its own, the poller right after the sweep;",
        lambda _: fleet.measured(progress),
    ),
    "scale": ("Each size in a process of its own, requests in memory;", lambda _: scale.tables(progress)),
    "signals": (
        "Each way to read a log in a process of its own;",
        lambda args: signals.tables(progress, args.megabytes * 1_000_000),
    ),
    "views": ("The viewer is a process of its own;", lambda _: views.tables(progress)),
    "restarts": ("Jobs and supervisors are processes of their own;", lambda _: restarts.tables(progress, 5)),
    "ray": ("Ray, the supervisor and its job are processes of their own;", lambda _: ray.tables(progress, 2)),
    "timeouts": (
        "Traces are made from a seed, so their figures are the same on every machine;",
        lambda _: timeouts.tables(progress),
    ),
    "numbers": (
        "Runs are made from a seed, so their figures are the same on every machine;",
        lambda args: numbers.tables(progress, args.curves),
    ),
    "health": ("Each row in a process of its own;", health_tables),
    "stragglers": (
        "Traces are made from a seed; steps are taken in a process each;",
        lambda _: stragglers.tables(progress),
    ),
    "hangs": (
        "Each start is a process of its own, the runs are in a directory;",
        lambda _: hangs.tables(progress, 3),
    ),
    "faults": ("Each fault once, the runs in a directory, a look each second;", lambda _: faults.tables(progress)),
    AN_HOUR: ("The supervisor is a process of its own;", lambda args: restarts.polling(progress, args.minutes)),
}
"""Part → how it is measured, and its tables."""
PARTS: Final = ("run", "counts", *(part for part in _TABLES if part != AN_HOUR))


def write(part: str, text: str) -> None:
    begin, end = (f"<!-- measured{'' if part == 'run' else ', ' + part}: {place} -->\n" for place in ("begin", "end"))
    (page,) = [each for each in PAGES if begin in each.read_text(encoding="utf-8")]
    before, rest = page.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    page.write_text(before + begin + text + end + after, encoding="utf-8")


def machine(how: str) -> Iterator[str]:
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield f"lastbeat {lastbeat.__version__} at {_commit()}, on {_processor()}, {os.cpu_count()} cores,"
    yield f"{platform.system()}, Python {platform.python_version()}, {versions}. {how}"
    yield f"load average at the start {load:.1f}."


def _commit() -> str:
    """The commit that is measured. Changes to the pages that the tables go into do not count."""
    git = ["git", "-C", str(CHECKOUT)]
    asked = [*git, "status", "--porcelain", "--", ".", *(f":!{page.relative_to(CHECKOUT)}" for page in PAGES)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(asked, capture_output=True, text=True, check=False)
    if head.returncode or changed.returncode:
        return "an unknown commit"
    return f"{head.stdout.strip()}{' with changes' if changed.stdout.strip() else ''}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def requests_a_pass(server: S3, passes: int) -> Iterator[str]:
    progress("requests a pass")
    yield "| a pass of the loop over a healthy run | requests | of which | bytes, headers and both ways |"
    yield "|---|---:|---|---:|"
    for name, beating in (("both heartbeats new", True), ("nothing new", False)):
        seen = loop.healthy(server, f"loop-{'new' if beating else 'same'}", passes, beating=beating)
        yield f"| {name} | {seen.requests:g} | {seen.kinds} | {seen.bytes:,.0f} |"


def start_to_exit(server: S3, folder: Path, times: int) -> Iterator[str]:
    progress("process start to exit")
    run_id = "once"
    loop.beat(server, run_id, 1)
    root = f"s3://{BUCKET}/{PREFIX}"
    ours = [sys.executable, str(CHECKOUT / "cli" / "monitor.py"), "--run-id", run_id, "--root", root, "--once"]
    peer = [sys.executable, str(CHECKOUT / "bench" / "peer.py"), BUCKET, PREFIX, run_id]
    commands = {"`cli/monitor.py --once`, the record exists": ours, "boto3, the same four keys, no record": peer}
    found = measure.in_turn(commands, server.environment, folder, times)
    yield "| process start to exit, against moto | wall, median | wall, least | CPU, median |"
    yield "|---|---:|---:|---:|"
    for name, runs in found.items():
        yield f"| {name} | {runs.wall_s * 1e3:.0f} ms | {runs.least_wall_s * 1e3:.0f} ms | {runs.cpu_s * 1e3:.0f} ms |"
    us, them = found.values()
    shares = [us.wall_s / them.wall_s, us.least_wall_s / them.least_wall_s, us.cpu_s / them.cpu_s]
    yield "| the first in parts of the second | " + " | ".join(f"{share:.2f}" for share in shares) + " |"


def imports(folder: Path, times: int) -> Iterator[str]:
    progress("imports")
    environment = dict(os.environ) | {"PYTHONPATH": str(CHECKOUT / "core")}
    commands = {
        "`pass`": [sys.executable, "-c", "pass"],
        "`import lastbeat`": [sys.executable, "-c", "import lastbeat"],
    }
    found = measure.in_turn(commands, environment, folder, times)
    bare, ours = found.values()
    yield "| `python -c` | wall, median | wall, least |"
    yield "|---|---:|---:|"
    for name, runs in found.items():
        yield f"| {name} | {runs.wall_s * 1e3:.1f} ms | {runs.least_wall_s * 1e3:.1f} ms |"
    above, least = (ours.wall_s - bare.wall_s) * 1e3, (ours.least_wall_s - bare.least_wall_s) * 1e3
    yield f"| `import lastbeat` above bare Python | {above:.1f} ms | {least:.1f} ms |"


def progress(what: str) -> None:
    print(f"measuring {what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
