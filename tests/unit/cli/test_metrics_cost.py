"""Metrics come from what passes know: with them and without, a fleet is asked the very same, call by call."""

from collections import Counter
from pathlib import Path

from lastbeat.model.fleet import PassReport
from lastbeat_cli.metrics.endpoint import Scrapes
from lastbeat_cli.metrics.samples import PassMetrics
from lastbeat_cli.metrics.textfile import TextFile
from support.scraped import values
from support.waiting import LIMIT_S
from support.world import World, running


def passes(world: World, path: Path | None) -> list[PassReport]:
    """Twelve passes; with ``path`` everything is made of each that can be asked for."""
    metrics = PassMetrics(world.store.url, 60.0)
    scrapes = Scrapes(metrics.samples, world.store.url)
    file = None if path is None else TextFile(path, metrics, world.store.url)
    if file is not None:
        file.start()
    made = []
    for number in range(12):
        world.after(60)
        world.beat_all()
        if number == 5:
            world.run("run-0003").error()
        made.append(world.sweep())
        if file is not None:
            metrics.add(made[-1])
            file.write()
            assert scrapes.answer("").status == "200 OK"
            assert file.wait(LIMIT_S)
    return made


def asked(world: World) -> Counter[tuple[str, str]]:
    """Operation and file → how often, over all runs. Without the writes of records: looks are taken by several threads,
    and each of those that record something first tests what the store does with conditions."""
    calls = ((operation, key.rpartition("/")[2]) for operation, key in world.store.calls)
    return Counter(call for call in calls if call != ("write", "_watchdog.json"))


def test_a_fleet_is_asked_the_very_same(tmp_path: Path) -> None:
    bare, told = running(8), running(8)
    without, reports = passes(bare, None), passes(told, tmp_path / "lastbeat.prom")
    assert asked(told) == asked(bare)
    assert [report.statuses for report in reports] == [report.statuses for report in without]
    found = values((tmp_path / "lastbeat.prom").read_text(encoding="utf-8"))
    assert (found["runs FAILED"], found["runs RUNNING"], found["passes_total complete"]) == (1, 7, 12)
