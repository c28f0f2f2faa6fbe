"""What passes leave so that looking need not read every run: it saves reads, and changes nothing that people see."""

import zlib
from dataclasses import replace
from typing import Any

import pytest

from lastbeat.model.fleet import PassReport
from lastbeat.stores.port import UnreachableError
from lastbeat.views.left_gists import EVERY_S, KEPT_S, LEAST_RUNS, KeptGists
from support.fleet_views import Looked, settle
from support.memory import START

GISTS = "_watchdog/gists.json.z"
RUNS = [f"run-{number:02}" for number in range(LEAST_RUNS + 5)]


def passes(fleet: Looked) -> PassReport:
    """A pass of a new process that leaves what it read."""
    fleet.through = gists = KeptGists(fleet.store, str)
    report = fleet.sweep(restarted=True)
    fleet._mark.write(report)
    assert gists.write_gists(report, float("inf")) is None
    return report


def fleet(count: int = len(RUNS), **options: Any) -> Looked:
    """Runs of all kinds over which two passes were made; the later ones end between them."""
    world = Looked(**options)
    world.beats(*RUNS[:count], host="node-7", owner="zoë", recent=[[START.timestamp(), 1, 2.5]])
    passes(world)
    world.after(EVERY_S + 1)
    world.beats(*RUNS[:2], step=2)
    world.run(RUNS[0]).error("boom")
    world.run(RUNS[1]).complete()
    passes(world)
    world.asked()
    return world


@pytest.mark.parametrize("paid", [True, False])
def test_opening_reads_no_run_that_did_not_write_since(paid: bool) -> None:
    world = fleet(paid=paid)
    with_gists = world.fresh().open()
    asked = world.asked()
    assert asked[GISTS] == 1
    assert not [key for key in asked if key.startswith("run-")], "records, steps and losses are in the gists"
    del world.store.held[GISTS]
    watch = world.fresh()
    watch.open()
    assert sum(count for key, count in world.asked().items() if key.startswith("run-")) >= LEAST_RUNS
    assert with_gists.rows == settle(watch).rows
    assert with_gists.unread == 0
    assert with_gists.notes == ()


def test_a_run_that_wrote_since_is_read_and_shown_as_it_is_now() -> None:
    world = fleet(paid=True)
    world.beats(RUNS[7], step=99)
    view = world.fresh().open()
    assert {key for key in world.asked() if key.startswith("run-")} == {f"{RUNS[7]}/progress.json"}
    assert world.row(RUNS[7], view).step == 99


def test_an_earlier_step_is_shown_with_its_age_and_never_as_standing_still() -> None:
    world = fleet(paid=True)
    world.after(3600)
    world.beats(*RUNS, step=99)
    world.store.refuse("read", UnreachableError("slow"), named="/progress.json")
    view = world.fresh().open()
    row = world.row(RUNS[7], view)
    assert (row.step, row.stands_still) == (1, False)
    assert "up to 1h 10m old; newer ones follow." in view.notes[-1]


def test_a_new_process_goes_on_with_what_others_left_and_drops_what_is_too_old() -> None:
    world = fleet()
    world.after(EVERY_S + 1)
    world.beats(*RUNS[2:], step=3)
    passes(world)
    world.asked()
    del world.store.held["_watchdog/fleet.json.z"]
    world.fresh().open()
    assert f"{RUNS[0]}/progress.json" not in world.asked(), "the last pass did not read it, an earlier one did"
    world.after(KEPT_S)
    world.beats(*RUNS[2:], step=4)
    passes(world)
    held = zlib.decompress(world.store.held[GISTS].body).decode()
    assert f"{RUNS[0]}/" not in held
    assert f"{RUNS[7]}/progress.json\t" in held


def test_a_small_fleet_and_a_second_pass_within_minutes_write_nothing() -> None:
    assert GISTS not in fleet(LEAST_RUNS - 1).store.held
    world = fleet()
    world.after(60)
    world.beats(*RUNS, step=3)
    before = world.store.held[GISTS].version
    passes(world)
    assert world.store.held[GISTS].version == before


def test_a_store_that_refuses_the_write_is_a_note() -> None:
    world = fleet()
    world.after(EVERY_S + 1)
    world.beats(*RUNS, step=3)
    world.through = gists = KeptGists(world.store, str)
    report = world.sweep(restarted=True)
    world.store.refuse("write", UnreachableError("no"), key=GISTS)
    assert "could not be written: no" in str(gists.write_gists(report, float("inf")))
    world.store.heal()
    assert gists.write_gists(replace(report), float("inf")) is None
    assert GISTS in world.store.held


def line(gist: str) -> bytes:
    return zlib.compress(f"{RUNS[7]}/progress.json\t0.0:v1\t{gist}".encode())


FOREIGN = [
    ("no archive", b"no archive"),
    ("cut off", line("{}")[:-9]),
    ("no JSON", line("{")),
    ("JSON nested deeper than Python reads", line("[" * 200_000)),
    ("JSON of another form", line('{"heartbeat":7}')),
    ("a time that is none", line('{"heartbeat":{"modified":"x"}}')),
    ("not UTF-8", zlib.compress(b"run\t0:v\t\xff")),
    ("no lines of ours", zlib.compress(b"../../etc/passwd\t1:1\t{}\n\n\t\t")),
]


def test_what_is_damaged_is_as_if_it_were_not_there() -> None:
    world = fleet()
    expected = world.fresh().open().rows
    for what, body in FOREIGN:
        world.store.put_text(GISTS, body)
        assert world.fresh().open().rows == expected, what


def test_text_that_is_not_fit_to_be_shown_is_not_taken_from_there() -> None:
    world = fleet()
    held = zlib.decompress(world.store.held[GISTS].body).decode()
    for hostile in ("\\u001b[2Jnode", "\u202enode"):
        world.store.put_text(GISTS, zlib.compress(held.replace("node-7", hostile).encode()))
        assert world.row(RUNS[7], world.fresh().open()).host in {"node-7", "i-0abc"}


def test_secrets_are_masked_in_what_is_left() -> None:
    world = Looked()
    world.beats(*RUNS, host="hush-hush")
    world.through = gists = KeptGists(world.store, lambda text: text.replace("hush-hush", "***"))
    assert gists.write_gists(world.sweep(restarted=True), float("inf")) is None
    held = zlib.decompress(world.store.held[GISTS].body).decode()
    assert "***" in held
    assert "hush" not in held
