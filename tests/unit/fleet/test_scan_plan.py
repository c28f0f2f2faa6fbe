"""Whether a pass lists everything or asks the live runs, by what the passes before it left."""

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from lastbeat.fleet.index import FleetIndex, IndexedRun
from lastbeat.fleet.scan_plan import ScanPlan, choose
from lastbeat.model import runid
from lastbeat.model.fleet import RunLine
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Status

NOW = 1_767_268_800.0
LIST, ASK = ScanPlan.LIST, ScanPlan.ASK


def known(pages: int, live: int, ended: int = 0, **more: object) -> FleetIndex:
    """What passes know of a fleet that they listed a minute ago."""
    runs = {}
    for number in range(live + ended):
        status = Status.FAILED if number >= live else Status.TIMED_OUT if number % 2 else Status.RUNNING
        line = RunLine(f"r{number}", status, "", None, None, (), datetime.fromtimestamp(NOW, timezone.utc), 1)
        files = {runid.METADATA: (NOW - 60, "1")}
        runs[line.run_id] = IndexedRun(line, NOW - 60, NOW - 60, files=files, moved=NOW - 60)
    return replace(FleetIndex(runs=runs, pages=pages, listed_at=NOW - 60, just_listed=True), **more)  # type: ignore[arg-type]


ROWS = [
    pytest.param(FleetIndex(), LIST, id="nothing is known: list"),
    pytest.param(known(1, 12), ASK, id="a page is more than twelve reads: ask after a pass that listed"),
    pytest.param(known(1, 13), LIST, id="and less than thirteen: list"),
    pytest.param(known(1, 12, ended=100), ASK, id="runs that ended are not asked"),
    pytest.param(known(2, 12, just_listed=False), LIST, id="two pages: every second pass lists"),
    pytest.param(known(1, 0, ended=3), LIST, id="one page and no live run: list"),
    pytest.param(known(2, 12, listed_at=NOW - 300), LIST, id="two pages that were listed five minutes ago: list"),
    pytest.param(known(3, 37, just_listed=False), ASK, id="three pages: ask, for five minutes"),
    pytest.param(known(3, 0, just_listed=False), ASK, id="three pages and no live run: the same"),
    pytest.param(known(3, 38), LIST, id="three pages are less than 38 reads: list"),
    pytest.param(known(3, 37, listed_at=NOW - 269), ASK, id="nearly five minutes: ask"),
    pytest.param(known(3, 37, listed_at=NOW - 271), LIST, id="half an interval early is on time: list"),
    pytest.param(known(3, 37, listed_at=NOW + 60), LIST, id="a listing of the future: list"),
    pytest.param(known(3, 37, cursor="r7"), LIST, id="a pass that did not come to its end: go on listing"),
    pytest.param(known(3, 37, cursor="r7", broke_off=True), ASK, id="for its listing broke off: ask first"),
    pytest.param(known(3, 38, cursor="r7", broke_off=True), LIST, id="unless asking costs more: go on listing"),
]


@pytest.mark.parametrize(("index", "plan"), ROWS)
def test_a_plan(index: FleetIndex, plan: ScanPlan) -> None:
    assert choose(index, NOW, FleetPolicy(), free=False) is plan


@pytest.mark.parametrize(("live", "plan"), [(2, ASK), (3, LIST)])
def test_a_run_that_its_logs_alone_keep_alive_is_asked_by_a_listing_of_its_folder(live: int, plan: ScanPlan) -> None:
    index = known(3, 2 * live)
    index.runs = {name: replace(run, by_log=True, moved=0.0) for name, run in index.runs.items()}
    assert choose(index, NOW, FleetPolicy(), free=False) is plan
