"""Checkpoints that nobody sees but the pod: surveyed there, with the links that people make, and what cannot be read
said where it is."""

import os
from pathlib import Path

import pytest

from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.launchers.ray_pod import launcher as ray_pod
from lastbeat.stores.port import DeniedError, MissingStoreError, Store, UnreachableError
from support import checkpoint_files as made
from support.fake_kubectl import FakeCluster
from support.there import there

SEEN_THERE = "/proc/self/cwd/ckpt"
"""In the pod, the folder in its HOME; anywhere else, another one or none."""
LAUNCHER = ray_pod.launcher(Path("/nonexistent"), ("--head-pod=ray-head", "--namespace=ml"))


@pytest.fixture
def place(fake_cluster: FakeCluster) -> Path:
    """The folder of checkpoints."""
    folder = fake_cluster.add_pod("ray-head", "ml") / "ckpt"
    folder.mkdir()
    return folder


@pytest.fixture
def files(place: Path) -> Store:
    return there(LAUNCHER.files(SEEN_THERE))


def test_checkpoints_are_surveyed_in_the_pod_and_a_bucket_is_read_from_here(place: Path, files: Store) -> None:
    for step in (100, 200):
        for name, body in made.huggingface(step).items():
            (place / f"checkpoint-{step}").mkdir(exist_ok=True)
            (place / f"checkpoint-{step}" / name).write_bytes(body)
    (place / "checkpoint-200/trainer_state.json").unlink()
    found = survey(files, settle_s=0)
    assert found.chosen is not None
    assert (found.chosen.url, found.chosen.step) == (f"{SEEN_THERE}/checkpoint-100", 100)
    assert not Path(SEEN_THERE).exists()
    assert LAUNCHER.files("s3://bucket/ckpt") is None


def test_links_are_followed_as_in_a_directory_that_a_person_names(place: Path, files: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "x.pt").write_bytes(b"x")
    (place / "latest").symlink_to(elsewhere)
    (place / "last.pt").symlink_to(elsewhere / "x.pt")
    (place / "step_1").mkdir()
    (place / "step_1/below").symlink_to(elsewhere)
    (place / "step_1/itself").symlink_to("itself")
    (place / "step_1/nowhere").symlink_to("nowhere at all")
    os.mkfifo(place / "step_1/pipe")
    (place / "step_1/.hidden").write_bytes(b"")
    (place / os.fsdecode(b"no \xff text")).write_bytes(b"")
    (place / "step_1/new\nline").write_bytes(b"")
    found = {each.key: each.fault for each in files.list("").entries}
    assert {key for key, fault in found.items() if fault is None} == {"last.pt", "latest/x.pt", "step_1/new\nline"}
    assert isinstance(found["step_1/below"], DeniedError)
    assert len(found) == 4
    assert set(files.folders()) == {"latest", "step_1"}
    assert files.read("step_1/pipe", 10) is None
    assert there(files.read("latest/x.pt", 10)).body == b"x"


def test_what_is_longer_than_one_call_carries_is_read_in_several(place: Path, files: Store) -> None:
    body, part, start = os.urandom(5 << 20), 9 << 19, 1 << 18
    (place / "model.pt").write_bytes(body)
    for read, expected in (
        (files.read("model.pt", 20 << 20), body),
        (files.read("model.pt", part, from_end=True), body[-part:]),
        (files.read("model.pt", part, start=start), body[start : start + part]),
    ):
        assert read is not None
        assert read.body == expected
        assert read.size_bytes == len(body)


def test_a_place_that_is_not_there_is_not_an_empty_one(place: Path, files: Store) -> None:
    place.rmdir()
    for call in (lambda: files.list(""), files.folders, lambda: files.read("x.pt", 1)):
        with pytest.raises(MissingStoreError, match="in pod ray-head: there is no such directory") as raised:
            call()
        assert "--checkpoint-dir" in raised.value.advice


def test_nothing_is_ever_written(place: Path, files: Store) -> None:
    (place / "x.pt").write_bytes(b"x")
    for call in (lambda: files.write("y.pt", b""), lambda: files.delete("x.pt"), lambda: files.clear("x/")):
        with pytest.raises(DeniedError, match="only read"):
            call()
    files.clock()
    assert [each.name for each in place.iterdir()] == ["x.pt"]


@pytest.mark.parametrize("key", ["../x", "", "a/../../b"])
def test_no_key_leads_out_of_the_place(files: Store, key: str) -> None:
    with pytest.raises(ValueError, match="is no key"):
        files.read(key, 1)


@pytest.mark.parametrize("said", ["refused", "no container"])
def test_a_pod_that_cannot_be_asked_says_nothing_of_its_checkpoints(
    fake_cluster: FakeCluster, files: Store, said: str
) -> None:
    fake_cluster.fail(said)
    for call in (lambda: files.list(""), lambda: files.read("x.pt", 1), files.clock):
        with pytest.raises(UnreachableError) as raised:
            call()
        assert raised.value.advice


def test_a_page_is_bounded_however_many_files_there_are(place: Path, files: Store) -> None:
    (place / "step_1").mkdir()
    for number in range(2500):
        (place / f"step_1/{number:05}.pt").touch()
    first = files.list("", limit=10_000)
    assert (len(first.entries), first.more) == (1000, True)
    assert files.list("step_1/", "step_1/02498.pt").entries[0].key == "step_1/02499.pt"
