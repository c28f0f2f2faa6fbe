"""``make matrix``: the table of docs/training-ends.md, printed, or written there with ``--write``."""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from matrix.cases import CASES, Case, Way
from matrix.fleets import Told, live
from matrix.peers import PEERS, Ended, observe
from support.checkout import ROOT

PAGE = ROOT / "docs" / "training-ends.md"
MARKS = ("<!-- matrix: {} begin -->\n", "<!-- matrix: {} end -->")
LONG = 150


def main() -> None:
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/training-ends.md")
    parser.add_argument(
        "--peers", metavar="PYTHON", help="an interpreter that has torch, wandb and knockknock, for the peers"
    )
    parser.add_argument("--only", metavar="PART", choices=["lastbeat", "peers"], help="one of the two tables alone")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        if given.only != "peers":
            _out("lastbeat", "\n".join(_told(Path(folder))), write=given.write)
        if given.peers and given.only != "lastbeat":
            _out("peers", "\n".join(_peers(Path(folder), given.peers)), write=given.write)


def _out(name: str, text: str, *, write: bool) -> None:
    sys.stdout.write(f"{text}\n")
    if write:
        begin, end = (mark.format(name) for mark in MARKS)
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
        PAGE.write_text(f"{before}{begin}{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def _machine() -> str:
    import torch  # noqa: PLC0415

    python, cores, load = platform.python_version(), os.cpu_count(), os.getloadavg()[0]
    return f"PyTorch {torch.__version__}, Python {python}, {cores} cores, load average {load:.1f}"


def _told(folder: Path) -> Iterator[str]:
    machine = _machine()
    told = live(folder / "lastbeat")
    owners = any("owner" in alert for each in told.values() for _, alert in each.alerts)
    yield f"{machine} at the start and {os.getloadavg()[0]:.1f} at the end, including these runs."
    yield ""
    columns = ["ends by", "seen by", "people hear, after", "headline", "cause and evidence"]
    columns += [*(["person"] if owners else []), "what to do"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for case in CASES:
        for way in Way:
            yield _row(told[way.value, case.name], folder, owners=owners)


def _row(told: Told, folder: Path, *, owners: bool) -> str:
    if told.fault:
        return f"| {told.case.says} | {told.way.says} | nothing: {_cell(told.fault, folder)} |"
    last = told.last
    evidence = last["evidence"]
    cause = last["cause"] or "none"
    if last["cause"] and last["confidence"] is not None:
        cause += f" ({last['confidence']:.2f})"
    if evidence:
        where = f"{evidence['file']}:{evidence['line']}" if evidence["line"] else evidence["file"]
        cause += f", {where}: {evidence['text']}"
    elif last["stack"]:
        cause += f"; it hangs in {last['stack'][-1]}"
    person = [last.get("owner") or "-"] if owners else []
    cells = [last["reason"], cause, *person, last["action"] or "-"]
    return (
        f"| {told.case.says} | {told.way.says} | {_times(told)} | "
        + " | ".join(_cell(cell, folder) for cell in cells)
        + " |"
    )


def _times(told: Told) -> str:
    """Where a limit has to pass first: the limit, and what it took beyond it."""
    said = []
    for at, alert in told.alerts:
        limit_s = _limit_s(told, alert["event"])
        limit = f"{limit_s:g} s + " if limit_s else ""
        said.append(f"{alert['event']} {limit}{max(0.0, at - told.happened_at - limit_s):.1f} s")
    return ", ".join(said)


def _limit_s(told: Told, event: str) -> float:
    if told.way is Way.LOG:
        return 60.0 if event == "TIMED_OUT" else 0.0
    return {"WARNING": 60.0, "TIMED_OUT": 120.0}.get(event, 0.0) if told.case.lives else 0.0


def _cell(text: str, folder: Path) -> str:
    text = " ".join(text.split()).replace(str(folder), "…").replace(sys.prefix, "…").replace("|", "\\|")
    text = re.sub(r"(?:/[\w.+-]+)+/([\w.-]+\.py)", r"…/\1", text)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def _peers(folder: Path, python: str) -> Iterator[str]:
    versions = (
        'import importlib.metadata as m; print(", ".join(f"{n} {m.version(n)}" for n in ("wandb", "knockknock")))'
    )
    yield f"{subprocess.run([python, '-c', versions], capture_output=True, text=True, check=True).stdout.strip()}."
    yield ""
    seen = {(ended.peer, ended.case.name): ended for ended in observe(folder / "peers", python)}
    yield (
        "| ends by | "
        + " | ".join({"torchrun": "torchrun alone", "wandb": "wandb, offline"}.get(p, p) for p in PEERS)
        + " |"
    )
    yield "|---|---|---|---|"
    for case in CASES:
        yield f"| {case.says} | " + " | ".join(_seen(seen[peer, case.name], case, folder) for peer in PEERS) + " |"


def _seen(ended: Ended, case: Case, folder: Path) -> str:
    exit_ = "still running after three minutes" if ended.exit is None else f"exit status {ended.exit}"
    parts = [exit_]
    if ended.peer == "wandb":
        parts.append(f"its file: {ended.kept}")
    if ended.peer == "knockknock":
        told = [f"{text!r} after {after:.1f} s" for after, text in ended.messages if after > 0]
        parts.append(f"message {'; '.join(told)}" if told else "no message")
    else:
        parts.append("no alert")
    if ended.peer == "torchrun" and ended.last_lines:
        told = [line.strip() for line in ended.last_lines if re.match(r"\s*(?:exitcode|traceback)\s+: ", line)]
        parts.append(f"output ends: {', '.join(told[-2:]) or ended.last_lines[-1]}")
    return _cell("; ".join(parts), folder)


if __name__ == "__main__":
    main()
