"""Checkpoints as the real frameworks write them, whole and half-written."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from lastbeat.jobs.checkpoints.survey import survey  # noqa: E402 - after what it needs
from lastbeat.model.checkpoint import CheckpointSurvey  # noqa: E402 - as above
from lastbeat.stores.directory import DirectoryStore  # noqa: E402 - as above

STATE = {"weights": torch.arange(4096.0), "step": 7}


def looked(folder: Path) -> CheckpointSurvey:
    return survey(DirectoryStore(folder, trusting=True), settle_s=0)


def by_torch(place: Path) -> None:
    torch.save(STATE, place / "step_7.pt")


def by_an_old_torch(place: Path) -> None:
    torch.save(STATE, place / "step_7.pt", _use_new_zipfile_serialization=False)


def by_dcp(place: Path) -> None:
    import torch.distributed.checkpoint as dcp  # noqa: PLC0415 - slow, and for this one alone

    with warnings.catch_warnings():
        # That a single process saves is the intent.
        warnings.simplefilter("ignore")
        dcp.save({"weights": STATE["weights"]}, checkpoint_id=str(place / "step_7"), no_dist=True)


def by_safetensors(place: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    save_file({"weights": STATE["weights"]}, place / "step_7.safetensors")


def by_transformers(place: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    folder = place / "checkpoint-7"
    model.save_pretrained(folder)
    torch.save({}, folder / "optimizer.pt")
    state = transformers.TrainerState(global_step=7)
    state.save_to_json(str(folder / "trainer_state.json"))


WRITERS = [by_torch, by_an_old_torch, by_dcp, by_safetensors, by_transformers]


@pytest.mark.parametrize("write", WRITERS)
def test_what_a_framework_wrote_is_complete(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    found = looked(tmp_path)
    assert found.chosen is not None, found.checkpoints
    assert found.chosen.step == 7


@pytest.mark.parametrize("write", [by_torch, by_safetensors, by_transformers])
def test_cut_off_anywhere_it_is_not(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)
    path = max((each for each in tmp_path.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    whole = path.read_bytes()
    for part in (0.999, 0.5, 0.0):
        path.write_bytes(whole[: int(part * len(whole))])
        assert looked(tmp_path).chosen is None


def test_without_what_is_written_last_it_is_not(tmp_path: Path) -> None:
    by_dcp(tmp_path)
    (tmp_path / "step_7" / ".metadata").unlink()
    assert looked(tmp_path).chosen is None
