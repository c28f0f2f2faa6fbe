"""What it costs to look: opening the view of a fleet and of one run, and watching on; in a directory and on moto."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from bench import views_runs
from bench.fleet_servers import Moto
from bench.fleet_store import TaggedStore
from bench.server import BUCKET, CHECKOUT, PREFIX, S3, s3
from lastbeat import settings
from lastbeat.fleet.mark import MarkWriter
from lastbeat.fleet.sweep import Sweep
from lastbeat.model.policy import FleetPolicy, Policy
from lastbeat.settings import opening
from lastbeat.views.left_gists import LIMIT_BYTES, KeptGists
from lastbeat.watch.watchdog import WatchContext

SIZES = (10, 1000, 5000)
ROUNDS = 8
GISTS = "_watchdog/gists.json.z"


class Place(Protocol):
    """Where a fleet lies."""

    name: str
    environment: Mapping[str, str]

    def begin(self, runs: int) -> None:
        """Lay a fleet there over which a pass has been made."""
        ...

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None: ...

    def bytes(self) -> int | None:
        """Headers and bodies in both directions until now; None where nobody counts."""
        ...


class Directory:
    """A directory of this machine."""

    name = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LASTBEAT_", "MONITORING_"))}
        self.environment: Mapping[str, str] = {**kept, "MONITORING_ROOT": str(root)}

    def begin(self, runs: int) -> None:
        self.fill(_fleet(runs))
        with child(self) as one:
            one.do("sweep")

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        for key, body in files:
            path = self._root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)

    def bytes(self) -> int | None:
        return None


class Bucket:
    """moto, which counts."""

    name = "moto"

    def __init__(self, server: S3) -> None:
        self._server = server
        self.environment: Mapping[str, str] = {**server.environment, "MONITORING_ROOT": f"s3://{BUCKET}/{PREFIX}"}

    def begin(self, runs: int) -> None:
        # Made over the same files elsewhere, because moto takes many minutes for it.
        made = TaggedStore()
        made.now = datetime.now(timezone.utc)
        made.fill(_fleet(runs))
        policy, seen = FleetPolicy(), KeptGists(made, str)
        report = Sweep(WatchContext(seen, (), Policy(), made.clock), policy, mark=MarkWriter(made, policy)).run()
        seen.write_gists(report, float("inf"))
        self.fill(made.files())
        self._date_gists()

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        Moto(self._server).fill(files)

    def _date_gists(self) -> None:
        """Give the gists the times at which their files came here, as a pass over this server would."""
        store = opening.store(settings.load(environ=self.environment))
        blob = store.read(GISTS, LIMIT_BYTES)
        if blob is None:
            return
        at: dict[str, float] = {}
        start = ""
        while True:
            page = store.list("", start)
            at |= {entry.key: entry.modified.timestamp() for entry in page.entries}
            if not page.more:
                break
            start = page.entries[-1].key
        lines = (line.split("\t", 2) for line in zlib.decompress(blob.body).decode().split("\n"))
        dated = (f"{key}\t{at[key]}:{token.partition(':')[2]}\t{gist}" for key, token, gist in lines)
        store.write(GISTS, zlib.compress("\n".join(dated).encode(), 3))

    def bytes(self) -> int | None:
        return self._server.counts().bytes


@dataclass(frozen=True)
class Seen:
    """One fleet at one place. ``opened`` and ``again`` are of the fleet's view, ``one`` and ``one_again`` of a run's;
    ``rounds`` are those of watching while every run that lives writes between two of them."""

    place: str
    runs: int
    opened: Mapping[str, Any]
    rounds: tuple[Mapping[str, Any], ...]
    one: Mapping[str, Any]
    one_again: Mapping[str, Any]


class Child:
    """The process that looks."""

    def __init__(self, process: "subprocess.Popen[str]", place: Place) -> None:
        self._process, self._place = process, place

    def do(self, what: str) -> dict[str, Any]:
        before = self._place.bytes()
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended at {what!r}")
        found: dict[str, Any] = json.loads(line)
        after = self._place.bytes()
        return {**found, "bytes": None if before is None or after is None else after - before}


@contextmanager
def child(place: Place) -> Iterator[Child]:
    paths = {"PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'core'}"}
    with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder, subprocess.Popen(
        [sys.executable, "-m", "bench.views_child"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**place.environment, **paths, "LASTBEAT_STATE_DIR": folder},
    ) as process:  # fmt: skip
        try:
            yield Child(process, place)
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=60)


def _fleet(runs: int) -> Iterator[tuple[str, bytes]]:
    now = datetime.now(timezone.utc)
    return (file for number in range(runs) for file in views_runs.whole(number, now))


def look(place: Place, runs: int) -> Seen:
    place.begin(runs)
    with child(place) as one:
        opened = one.do("open")
        if opened["rows"] != runs or opened["unread"]:
            raise RuntimeError(f"not all of {runs} runs were seen: {opened}")
        rounds = []
        for step in range(1, ROUNDS + 1):
            now = datetime.now(timezone.utc)
            alive = (number for number in range(runs) if views_runs.lives(number))
            place.fill(file for number in alive for file in views_runs.beat(number, step, now))
            rounds.append(one.do("round"))
        run_id = views_runs.run_id(0)
        return Seen(place.name, runs, opened, tuple(rounds), one.do(f"run {run_id}"), one.do("again"))


def seen(progress: Callable[[str], None]) -> Iterator[Seen]:
    for runs in SIZES:
        progress(f"looking at {runs:,} runs in a directory")
        with tempfile.TemporaryDirectory(prefix="lastbeat-bench-") as folder:
            yield look(Directory(Path(folder)), runs)
        progress(f"looking at {runs:,} runs on moto")
        with s3() as server:
            yield look(Bucket(server), runs)


def tables(progress: Callable[[str], None]) -> Iterator[str]:
    found = list(seen(progress))
    yield "| opening the fleet view | requests | bytes both ways | seconds | CPU | document | gzipped |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for each in found:
        opened, name = each.opened, f"{each.runs:,} runs, {each.place}"
        yield (
            f"| {name} | {_kinds(opened)} | {_bytes(opened['bytes'])} | {opened['wall_s']:.2g} "
            f"| {opened['cpu_s']:.2g} | {_bytes(opened['document_bytes'])} | {_bytes(opened['packed_bytes'])} |"
        )
    yield ""
    yield "| watching on, two in five runs write between | of each two intervals one | and the other | seconds each |"
    yield "|---|---|---|---:|"
    for each in found:
        wall_s = statistics.median(one["wall_s"] for one in each.rounds)
        first, second = each.rounds[-2:]
        yield f"| {each.runs:,} runs, {each.place} | {_kinds(first)} | {_kinds(second)} | {wall_s:.2g} |"
    yield ""
    yield "| opening the view of one run | requests | bytes both ways | seconds | a look later |"
    yield "|---|---|---:|---:|---|"
    for each in found:
        one = each.one
        yield (
            f"| of {each.runs:,}, {each.place} | {_kinds(one)} | {_bytes(one['bytes'])} | {one['wall_s']:.2g} "
            f"| {_kinds(each.one_again)} |"
        )


def _kinds(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(found["requests"].items())) or "none"


def _bytes(count: int | None) -> str:
    if count is None:
        return "not counted"
    return f"{count / 1000:,.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:,.1f} MB"
