"""``simulate-fault``: make a rank of a running run hang, die or slow down, to test the reaction."""

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

import click

from lastbeat.model import runid
from lastbeat.model.heartbeat import DOCUMENT_LIMIT_BYTES, read_heartbeat
from lastbeat.model.runid import rank_key
from lastbeat.model.simulated_fault import (
    RANDOM,
    FaultRequest,
    FaultType,
    SimulatedFault,
    decided,
    read_fault,
)
from lastbeat.model.text import fit, one_line
from lastbeat.model.times import format_duration, parse_span
from lastbeat.settings import opening
from lastbeat.stores import run_names
from lastbeat.stores.port import Store, StoreError
from lastbeat_cli import exits, options, values
from lastbeat_cli.document import tell
from lastbeat_cli.held_process import hold

WHAT: Final = "Which fault"
_EPILOG: Final = """\
Exit status:
  0  the fault was injected
  1  the process had ended before
  3  there is no such rank on this machine; also wrong settings or arguments

Examples:
  lastbeat restart simulate-fault llama --type rank_killed --rank 2 --after 30
  lastbeat restart simulate-fault llama --type random
  LASTBEAT_SIMULATE_FAULT=gpu_error:2:30 torchrun train.py
"""
_BY_SIGNAL: Final[Mapping[FaultType, int]] = MappingProxyType(
    {
        "rank_hung": signal.SIGSTOP,
        "rank_killed": signal.SIGKILL,
        "slow_rank": signal.SIGSTOP,
        "preempt": signal.SIGTERM,
    }
)
_SLICE_S: Final = 0.5
_MOST_RANKS: Final = 1000


@dataclass(frozen=True, slots=True)
class _Target:
    """A rank and its process."""

    rank: int
    process: int
    mark: str


@click.command("simulate-fault", cls=options.Grouped, epilog=_EPILOG)
@options.run(WHAT)
@options.option(
    "--type TYPE",
    f"{', '.join(_BY_SIGNAL)} or random [random]. Faults inside training need LASTBEAT_SIMULATE_FAULT.",
    WHAT,
    name="kind",
    default=RANDOM,
)
@options.option("--rank N", "The rank, or random [random].", WHAT, default=RANDOM)
@options.option("--after SECONDS", "Seconds until the fault, or random: 10 to 60 [random].", WHAT, default=RANDOM)
@options.place
@options.form
def command(*, run_id: str | None, kind: str, rank: str, after: str, as_json: bool, **given: str | None) -> int:
    """Make a rank of a run fail on purpose, on the machine where it runs.

    Its process is stopped (rank_hung), killed (rank_killed), stopped half of the time until Ctrl-C (slow_rank), or gets
    SIGTERM (preempt). Faults inside training (gpu_error, nan, disk_full, and a hang of the main thread only) must be
    simulated by training itself: set LASTBEAT_SIMULATE_FAULT where it is started.
    """
    faults: list[str] = []
    name = values.named_run(run_id, faults)
    asked = _read_request(kind, rank, after, faults)
    settings = values.settings(given, faults)
    store = opening.store(settings)
    targets = _targets(store, name, asked.rank)
    with _held(targets) as held:
        if not held:
            raise _no_process(store, name, asked.rank)
        target, process = random.choice(held)  # noqa: S311 - nothing secret
        fault = _decided(asked, target.rank)
        if not as_json:
            print(f"{fault}", flush=True)
            print(f"Process {target.process} on this machine, in {format_duration(fault.after_s)}.", flush=True)
        time.sleep(fault.after_s)
        happened = _happen(process, fault)
    if as_json:
        tell({"run_id": name, "type": fault.type, "rank": fault.rank, "process": target.process,
              "after_s": fault.after_s, "happened": happened}, (), as_json=True)  # fmt: skip
    elif not happened:
        print(f"Process {target.process} had ended before.")
    elif fault.type == "rank_hung":
        print(f"It is stopped. Have it go on with: kill -CONT {target.process}")
    return exits.OK if happened else exits.WARNING


def _read_request(kind: str, rank: str, after: str, faults: list[str]) -> FaultRequest:
    def read(option: str, value: str, text: str) -> FaultRequest:
        try:
            return read_fault(text)
        except ValueError as why:
            faults.append(f"{option}={fit(one_line(value), 40)!r} {why}")
            return FaultRequest()

    of_type = read("--type", kind, kind.replace(":", " ")).type
    of_rank = read("--rank", rank, f"{RANDOM}:{rank.replace(':', ' ')}").rank
    after_s = parse_span(after)
    delay = after if after_s is None else f"{after_s:g}"
    of_delay = read("--after", after, f"{RANDOM}::{delay.replace(':', ' ')}").after_s
    if of_type is not None and of_type not in _BY_SIGNAL:
        faults.append(
            f"--type={of_type} happens inside training: start that with "
            f"LASTBEAT_SIMULATE_FAULT={of_type}:{fit(one_line(rank), 20)}:{fit(one_line(delay), 20)} in its environment"
        )
    return FaultRequest(of_type, of_rank, of_delay)


def _decided(asked: FaultRequest, rank: int) -> SimulatedFault:
    kind = asked.type if asked.type is not None else random.choice([*_BY_SIGNAL])  # noqa: S311 - as above
    return decided(FaultRequest(kind, rank, asked.after_s), 1)


def _targets(store: Store, name: str, rank: int | None) -> list[_Target]:
    """The processes of this rank, or of all ranks, as training reports them."""
    numbers: Sequence[int] = (rank,) if rank is not None else _ranks(store, f"{name}/ranks/")
    told = [_target(store, f"{name}/{rank_key(number)}", number) for number in numbers]
    if rank in {0, None}:
        told.append(_target(store, f"{name}/{runid.METADATA}", 0))
    return list({target.process: target for target in told if target is not None}.values())


def _ranks(store: Store, folder: str) -> list[int]:
    names = (
        each.key.removeprefix(folder).removesuffix(".json") for each in store.list(folder, limit=_MOST_RANKS).entries
    )
    return sorted(int(each) for each in names if each.isascii() and each.isdigit() and len(each) < 10)


def _target(store: Store, key: str, rank: int) -> _Target | None:
    """The process that wrote the heartbeat ``key``, metadata.json or a rank's own."""
    blob = store.read(key, DOCUMENT_LIMIT_BYTES)
    beat = read_heartbeat(blob) if blob is not None else None
    # What lastbeat exec has started may be a launcher, and no rank.
    if beat is None or beat.wraps or beat.process_mark is None:
        return None
    number = beat.process if beat.process is not None else beat.rank_process
    return _Target(rank, number, beat.process_mark) if number is not None and 1 < number < 1 << 31 else None


@contextmanager
def _held(targets: Sequence[_Target]) -> Iterator[list[tuple[_Target, int]]]:
    """The targets that are alive on this machine, each with its pidfd."""
    held = [(target, process) for target in targets if (process := hold(target.process, target.mark)) is not None]
    try:
        yield held
    finally:
        for _, process in held:
            os.close(process)


def _no_process(store: Store, name: str, rank: int | None) -> StoreError:
    """The error if no wanted rank has a process of this user on this machine."""
    if not store.list(f"{name}/", limit=1).entries:
        return run_names.unknown(store, name)
    if rank is None:
        return StoreError(f"no rank of run {name} runs on this machine as your user", "say this where it runs")
    key = f"{name}/{rank_key(rank)}"
    blob = store.read(key, DOCUMENT_LIMIT_BYTES)
    host = read_heartbeat(blob).host if blob is not None else None
    where = f"; it told of itself on {fit(one_line(host), 60)}" if host else ""
    return StoreError(f"rank {rank} of run {name} does not run on this machine as your user{where}", "say this there")


def _happen(process: int, fault: SimulatedFault) -> bool:
    try:
        if fault.type == "slow_rank":
            _slow_down(process)
        else:
            signal.pidfd_send_signal(process, _BY_SIGNAL[fault.type])
    except ProcessLookupError:
        return False
    return True


def _slow_down(process: int) -> None:
    """Stop the process half of the time, until a signal or its end. In the end it always continues."""

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        while True:
            signal.pidfd_send_signal(process, signal.SIGSTOP)
            time.sleep(_SLICE_S)
            signal.pidfd_send_signal(process, signal.SIGCONT)
            time.sleep(_SLICE_S)
    finally:
        signal.pidfd_send_signal(process, signal.SIGCONT)
