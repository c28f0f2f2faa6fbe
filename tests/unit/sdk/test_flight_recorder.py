"""PyTorch's flight recorder is set up where training has not done so, and its dumps reach the run's folder."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from lastbeat.stores.directory import DirectoryStore
from lastbeat.training.sdk.beat_tasks import Beat, BeatTasks, RunStart
from lastbeat.training.sdk.flight_recorder import FlightDumps, record, ship_rest, torch_version
from lastbeat.training.sdk.run import Run
from support.memory import MemoryStore
from support.reporting import environment
from support.row_by_row import check_each
from support.there import there

ALL = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "/runs/my-run/flight/rank_",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/runs/my-run/flight/rank_",
}
OWN: Mapping[str, tuple[dict[str, str], dict[str, str], str | None]] = {
    "nothing": ({}, ALL, "/runs/my-run/flight/"),
    "its size, by the old name": (
        {"TORCH_NCCL_TRACE_BUFFER_SIZE": "50"},
        {name: value for name, value in ALL.items() if "SIZE" not in name},
        "/runs/my-run/flight/",
    ),
    "no recorder": (
        {"TORCH_FR_BUFFER_SIZE": "0"},
        {name: value for name, value in ALL.items() if "SIZE" not in name},
        "/runs/my-run/flight/",
    ),
    "its place": (
        {"TORCH_FR_DUMP_TEMP_FILE": "/mine/trace_"},
        {name: value for name, value in ALL.items() if "FILE" not in name},
        None,
    ),
    "no dumps": ({"TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}, ALL, "/runs/my-run/flight/"),
    "all of it": ({**ALL, "TORCH_FR_DUMP_TEMP_FILE": "/mine/trace_"}, {}, None),
}


def test_what_training_has_set_stays() -> None:
    check_each(OWN.items(), stays)


def stays(own: dict[str, str], added: dict[str, str], folder: str | None) -> None:
    environ = dict(own)
    assert record(environ, "/runs/my-run", "2.7") == folder
    assert environ == {**added, **own}


VERSIONS = {
    "an old one": ("2.7.1+cu126", True),
    "the first that warns of old names": ("2.8.0", False),
    "a new one": ("2.13.0+cpu", False),
    "one to come": ("3.0", False),
    "a build of one's own": ("main", False),
    "unknown": (None, False),
}


def test_a_torch_that_would_warn_of_its_old_names_gets_the_new_ones() -> None:
    check_each(VERSIONS.items(), gets_old_names)


def gets_old_names(version: str | None, old: bool) -> None:
    environ: dict[str, str] = {}
    record(environ, "/runs/my-run", version)
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in environ) == old
    assert ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE" in environ) == old
    assert environ["TORCH_FR_BUFFER_SIZE"] == "2000"


def test_the_version_is_that_of_the_commands_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "venv" / "bin" / "torchrun"
    command.parent.mkdir(parents=True)
    command.write_text("")
    command.chmod(0o700)
    assert torch_version(str(command)) is None
    version = tmp_path / "venv" / "lib" / "python3.12" / "site-packages" / "torch" / "version.py"
    version.parent.mkdir(parents=True)
    version.write_text("from typing import Optional\n\n__version__ = '2.6.0+cu124'\ncuda = '12.4'\n")
    assert torch_version(str(command)) == "2.6.0+cu124"
    version.write_bytes(b"\xff\xfe")
    assert torch_version(str(command)) is None
    assert torch_version("no-such-command") is None
    monkeypatch.setenv("PATH", str(command.parent))
    version.write_text('__version__ = "2.9.1"\n')
    assert torch_version("torchrun") == "2.9.1"


def test_this_processs_own_torch_need_not_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.5.1'\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert torch_version() == "2.5.1"
    torch = ModuleType("torch")
    torch.__dict__["__version__"] = "2.11.0"
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert torch_version() == "2.11.0"


@pytest.fixture
def folder() -> Iterator[Path]:
    """The folder on this machine for dumps of a run whose store is no directory."""
    made = Path(there(record({}, None)))
    yield made
    for each in made.glob("*"):
        each.unlink()
    if made.exists():
        made.rmdir()


def test_a_store_that_is_no_directory_gets_them_by_way_of_this_machine(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700


def started(folder: Path, store: MemoryStore | DirectoryStore) -> BeatTasks:
    tasks = BeatTasks([FlightDumps(str(folder))])
    tasks.begin([], RunStart(Run("my-run", None), environment(store), 0.0, 0.0))
    return tasks


def beat(tasks: BeatTasks, store: MemoryStore | DirectoryStore, *, ending: bool = False) -> None:
    at = Beat(Run("my-run", None), store, "my-run/", 0.0, ending=("_error", "NCCL timeout") if ending else None)
    for step in (*tasks.steps(at), *tasks.follow_steps(at)):
        step.do()


def dumps_in(store: MemoryStore) -> dict[str, bytes]:
    return {key.removeprefix("my-run/"): store.held[key].body for key in store.held}


def test_a_dump_is_shipped_once_it_is_whole(folder: Path) -> None:
    store = MemoryStore()
    tasks = started(folder, store)
    beat(tasks, store)
    assert dumps_in(store) == {}
    (folder / "rank_3").write_bytes(b"begun")
    (folder / "rank_4").mkdir()
    (folder / "rank_5").symlink_to("/etc/passwd")
    tasks._each("write", lambda task: task.write(Beat(Run("my-run", None), store, "my-run/", 0.0)))
    assert dumps_in(store) == {}, "it may still be being written"
    (folder / "rank_3").write_bytes(b"begun and ended")
    beat(tasks, store)
    beat(tasks, store)
    assert dumps_in(store) == {"flight/rank_3": b"begun and ended"}
    (folder / "rank_4").rmdir()
    (folder / "rank_5").unlink()
    tasks.close()
    assert not folder.exists()


def test_at_the_end_what_is_there_goes_out_before_the_sentinel(folder: Path) -> None:
    store = MemoryStore()
    tasks = started(folder, store)
    (folder / "rank_0").write_bytes(b"dump")
    beat(tasks, store, ending=True)
    assert dumps_in(store) == {"flight/rank_0": b"dump"}


def test_in_a_directory_they_are_written_where_they_belong(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    flight = tmp_path / "my-run" / "flight"
    tasks = started(flight, store)
    assert flight.is_dir()
    tasks.close()
    assert not flight.exists(), "an empty folder is no news"
    tasks = started(flight, store)
    (flight / "rank_0").write_bytes(b"dump")
    beat(tasks, store, ending=True)
    tasks.close()
    assert (flight / "rank_0").read_bytes() == b"dump"


def test_a_folder_that_is_gone_costs_no_beat(folder: Path) -> None:
    store = MemoryStore()
    tasks = started(folder, store)
    folder.rmdir()
    at = Beat(Run("my-run", None), store, "my-run/", 0.0)
    for step in tasks.steps(at):
        step.do()
    tasks.close()


def test_the_guardian_ships_those_of_a_process_that_was_killed(folder: Path) -> None:
    store = MemoryStore()
    (folder / "rank_7").write_bytes(b"dump")
    ship_rest(store, "my-run/", str(folder))
    assert dumps_in(store) == {"flight/rank_7": b"dump"}
    assert not os.path.exists(folder)  # noqa: PTH110
    ship_rest(store, "my-run/", str(folder))
