"""Whether a document's own time is beyond doubt: it is where one clock stamped the file and told the time in it."""

import json
from pathlib import Path

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.directory import file_system_of
from lastbeat.stores.kind import FREE, Traits
from lastbeat.watch.observe.run import Observer
from support.memory import MemoryStore
from support.world import World

LATE = "2026-01-01T11:40:00Z"
ONE_CLOCK = Traits(FREE, local=True, one_clock=True)


@pytest.mark.parametrize(
    ("traits", "document", "offset_s"),
    [
        pytest.param(ONE_CLOCK, {"last_update": LATE}, 0.0, id="the same machine's clock wrote both"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "host": "node-7"}, 0.0, id="and the document says so"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "host": "Node-7.lab.example"}, 0.0, id="with its domain"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "instance_id": "node-7"}, 0.0, id="or as its instance"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "instance_id": "i-1", "host": "node-7"}, 0.0, id="both names"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "host": "node-8"}, None, id="another machine's document"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "instance_id": "i-1"}, None, id="an instance not known here"),
        pytest.param(ONE_CLOCK, {"last_update": LATE, "clock_offset_s": 3600}, 3600.0, id="it says how far it is off"),
        pytest.param(ONE_CLOCK, {"last_update": LATE[:-1]}, None, id="a time without a zone may be local"),
        pytest.param(ONE_CLOCK, {"step": 3}, None, id="no time at all"),
        pytest.param(Traits(FREE, local=True), {"last_update": LATE}, None, id="a server stamps the files"),
    ],
)
def test_whose_clock_wrote_it(traits: Traits, document: dict[str, object], offset_s: float | None) -> None:
    store = MemoryStore()
    store.traits = traits
    store.put_text("run-1/metadata.json", json.dumps(document))
    seen, _ = Observer(store, "run-1", here="node-7").look()
    assert seen.metadata is not None  # type: ignore[union-attr]
    assert seen.metadata.clock_offset_s == offset_s  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("one_clock", "status"),
    [
        pytest.param(True, "TIMED_OUT", id="one clock: an old time that advances is old all the same"),
        pytest.param(False, "RUNNING", id="two clocks: a time that advances is a clock that is off"),
    ],
)
def test_an_old_time_that_advances(one_clock: bool, status: str) -> None:
    world = World(Policy())
    world.store.traits = Traits(FREE, one_clock=one_clock)
    world.skew_s = -1200.0
    for _ in range(3):
        world.beat(instance_id=None)
        outcome = world.look()
        world.after(60)
    assert outcome.status.value == status
    assert ("clock_skew" in outcome.conditions) is not one_clock


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        pytest.param("/data/runs", "ext4", id="a disk"),
        pytest.param("/data", "ext4", id="where it is mounted"),
        pytest.param("/database", "overlay", id="a name that begins alike"),
        pytest.param("/data/shared/runs", "nfs4", id="a server's folder below it"),
        pytest.param("/data/with blank/x", "lustre", id="a blank in its name"),
        pytest.param("/scratch", "fuse.sshfs", id="mounted over what was mounted before"),
    ],
)
def test_the_file_system_of_a_folder(tmp_path: Path, folder: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:20 / / rw,relatime - overlay overlay rw\n"
        "30 22 8:1 / /data rw shared:1 - ext4 /dev/sda1 rw\n"
        "31 30 0:44 / /data/shared rw shared:2 master:3 - nfs4 server:/x rw\n"
        "32 30 0:45 / /data/with\\040blank rw - lustre mds:/x rw\n"
        "33 22 0:46 / /scratch rw - xfs /dev/sdb rw\n"
        "34 22 0:47 / /scratch rw - fuse.sshfs x rw\n"
    )
    assert file_system_of(Path(folder), mounts) == kind


def test_where_nobody_says_nothing_is_taken_for_granted(tmp_path: Path) -> None:
    assert file_system_of(tmp_path, tmp_path / "none") == ""
