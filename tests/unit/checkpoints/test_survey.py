"""Which checkpoints are complete, and which one a restart takes."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.jobs.checkpoints.layouts import step_in
from lastbeat.jobs.checkpoints.survey import newly_saved, survey
from lastbeat.model.checkpoint import Checkpoint, CheckpointSurvey, Completeness, Quarantine
from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import UnreachableError
from support import checkpoint_files as made
from support.memory import MemoryStore
from support.row_by_row import labelled

HOUR = timedelta(hours=1)
Files = Mapping[str, bytes]


def put(store: MemoryStore, name: str, files: Files | bytes) -> None:
    """One checkpoint, a minute after the one before."""
    store.pass_time(60)
    for below, body in ({"": files} if isinstance(files, bytes) else files).items():
        store.write(f"{name}/{below}" if below else name, body)


def place(*checkpoints: tuple[str, Files | bytes]) -> MemoryStore:
    store = MemoryStore()
    for name, files in checkpoints:
        put(store, name, files)
    store.pass_time(3600)
    return store


def looked(store: MemoryStore, **more: object) -> CheckpointSurvey:
    return survey(store, sleep=store.pass_time, **more)  # type: ignore[arg-type]


def only(store: MemoryStore, **more: object) -> Checkpoint:
    (found,) = looked(store, **more).checkpoints
    return found


COMPLETE = [
    ("Megatron, by its tracker", "iter_0000100", made.megatron(), {"latest_checkpointed_iteration.txt": b"100"}),
    ("Megatron without a tracker", "iter_0000100", made.megatron(), {}),
    ("Megatron in the distributed format", "iter_0000100", made.dcp(), {"latest_checkpointed_iteration.txt": b"100\n"}),
    ("DeepSpeed, by its tracker", "global_step100", made.deepspeed(), {"latest": b"global_step100"}),
    ("DeepSpeed without a tracker", "global_step100", made.deepspeed(), {}),
    ("Hugging Face", "checkpoint-100", made.huggingface(100), {}),
    ("torch.distributed.checkpoint", "step_100", made.dcp(), {}),
    ("Orbax", "100", made.orbax(), {}),
    ("Orbax in a bucket", "100", {"commit_success.txt": b"ok", "d/0": b"x", "_METADATA": b"{}"}, {}),
    ("Lightning", "epoch=3-step=100.ckpt", made.torch_file(), {}),
    ("a file of safetensors", "model_100.safetensors", made.safetensors_file(), {}),
    ("a file of an old torch", "step_100.pt", b"\x80\x02old", {}),
    ("a folder of files", "step_100", {"model.pt": made.torch_file(), "rng.bin": b"x"}, {}),
]


@pytest.mark.parametrize(("name", "files", "beside"), labelled(COMPLETE))
def test_a_complete_checkpoint_is_taken(name: str, files: Files | bytes, beside: Files) -> None:
    store = place(*beside.items(), (name, files))
    found = looked(store)
    assert found.chosen is not None, found.checkpoints
    assert (found.chosen.name, found.chosen.step) == (name, 100)
    assert found.chosen.url == f"{store.url}/{name}"
    assert found.newest_step == 100


def without(files: Files, name: str) -> Files:
    return {each: body for each, body in files.items() if each != name}


def cut(files: Files, name: str) -> Files:
    return {**files, name: files[name][:-20]}


MEGATRON_AT_50 = {"latest_checkpointed_iteration.txt": b"50"}
SHARD = "model-00002-of-00002.safetensors"
INCOMPLETE = [
    ("Megatron's tracker still says an earlier one", "iter_0000100", made.megatron(), MEGATRON_AT_50,
     "latest_checkpointed_iteration.txt still says 50"),
    ("a rank lacks a file that others have", "iter_0000100",
     {**made.megatron(3), "mp_rank_00/distrib_optim.pt": made.torch_file()}, {},
     "mp_rank_01 has no distrib_optim.pt, which other ranks have"),
    ("a rank is missing", "iter_0000100", without(made.megatron(3), "mp_rank_01/model_optim_rng.pt"), {},
     "mp_rank_01 is missing"),
    ("DeepSpeed's latest still says an earlier one", "global_step100", made.deepspeed(), {"latest": b"global_step50"},
     "the file latest still says global_step50"),
    ("the optimizer's part of a rank is missing", "global_step100",
     without(made.deepspeed(3), "zero_pp_rank_1_mp_rank_00_optim_states.pt"), {},
     "the optimizer's part of rank 1 (mp_rank_00) is missing"),
    ("Hugging Face's last file is missing", "checkpoint-100", without(made.huggingface(100), "trainer_state.json"),
     {}, "trainer_state.json is missing, which is written last"),
    ("a shard that the index names is missing", "checkpoint-100", without(made.huggingface(100), SHARD), {},
     f"{SHARD} of 2 that model.safetensors.index.json names is missing"),
    ("a shard is cut off", "checkpoint-100", cut(made.huggingface(100), SHARD), {},
     f"{SHARD} has 114 bytes, and its header says 134"),
    ("the optimizer is cut off", "checkpoint-100", cut(made.huggingface(100), "optimizer.pt"), {},
     "optimizer.pt has no readable zip directory: it was cut off, or is not yet whole"),
    ("the index is half of a document", "checkpoint-100",
     {**made.huggingface(100), "trainer_state.json": b'{"global_step": 1'}, {},
     "trainer_state.json is no whole JSON document"),
    ("the coordinator's metadata is missing", "step_100", without(made.dcp(), ".metadata"), {},
     ".metadata is missing, which is written last"),
    ("a shard that the metadata names is missing", "step_100", without(made.dcp(3), "__2_0.distcp"), {},
     "__2_0.distcp of 3 that .metadata names is missing"),
    ("Orbax has not renamed it yet", "100.orbax-checkpoint-tmp-17", made.orbax(), {},
     "its name says that it is still being written"),
    ("Orbax has not committed it", "100",
     {**made.orbax(), "_CHECKPOINT_METADATA": b'{"commit_timestamp_nsecs": null}'}, {},
     "_CHECKPOINT_METADATA has no time of its commit"),
    ("an empty file", "step_100.pt", b"", {}, "it is empty"),
    ("a text file that is called so", "step_100.pt", b"hello", {}, "it begins like no file of torch"),
    ("a file beside its temporary one", "step_100", {"model.pt": made.torch_file(), "optim.pt.tmp": b"x"}, {},
     "optim.pt.tmp is still being written"),
    ("a header that cannot be true", "model_100.safetensors", b"\xff" * 100, {}, "it ends within its header"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "beside", "why"), labelled(INCOMPLETE))
def test_a_half_written_checkpoint_is_skipped_with_its_reason(
    name: str, files: Files | bytes, beside: Files, why: str
) -> None:
    found = looked(place(*beside.items(), (name, files)))
    (checkpoint,) = found.checkpoints
    assert (checkpoint.completeness, checkpoint.why) == (Completeness.INCOMPLETE, why)
    assert (found.chosen, found.newest_step) == (None, -1)


def test_the_one_before_a_half_written_one_is_taken() -> None:
    found = looked(place(("step_100.pt", made.torch_file()), ("step_200.pt", made.torch_file()[:-20])))
    assert [(each.name, each.usable) for each in found.checkpoints] == [("step_200.pt", False), ("step_100.pt", True)]
    assert found.newest_step == 100


def test_steps_count_not_the_order_of_names_or_of_copying() -> None:
    found = looked(place(("step_1000.pt", made.torch_file()), ("step_90.pt", made.torch_file())))
    assert [each.step for each in found.checkpoints] == [1000, 90]


def test_one_that_tells_no_step_is_as_far_as_its_time_says() -> None:
    epoch = ("epoch=1-step=50.ckpt", made.torch_file())
    assert [each.name for each in looked(place(epoch, ("last.ckpt", made.torch_file(400)))).checkpoints] == [
        "last.ckpt",
        "epoch=1-step=50.ckpt",
    ]
    assert looked(place(("last.ckpt", made.torch_file()), epoch)).checkpoints[0].name == "epoch=1-step=50.ckpt"


def test_what_is_no_checkpoint_is_not_listed() -> None:
    store = place(("logs", {"train.log": b"x"}), ("config.json", b"{}"), ("wandb", {"run.wandb": b"x"}))
    assert looked(store).checkpoints == ()
    assert looked(MemoryStore()).newest_step == -1


def test_one_that_was_written_as_training_died_needs_a_marker() -> None:
    store = place(("step_100.pt", made.torch_file()))
    saved = store.now - HOUR
    late = saved + timedelta(seconds=5)
    assert only(store, crashed_at=late).why.startswith("last written 5s before the crash")
    assert only(store, crashed_at=saved + timedelta(minutes=5)).usable
    marked = place(("checkpoint-100", made.huggingface(100)))
    assert only(marked, crashed_at=late).usable


def test_one_on_which_attempts_died_is_quarantined_and_the_one_before_is_taken() -> None:
    store = place(("step_1.pt", made.torch_file()), ("step_2.pt", made.torch_file()))
    why = "attempts 3 and 4 died on it before their first step"
    found = looked(store, quarantined={"step_2.pt": Quarantine(why, store.now)})
    assert (found.checkpoints[0].completeness, found.checkpoints[0].why) == (Completeness.QUARANTINED, why)
    assert found.newest_step == 1
    died = store.now
    put(store, "step_2.pt", made.torch_file())
    store.pass_time(3600)
    assert looked(store, quarantined={"step_2.pt": Quarantine(why, died)}).newest_step == 2, "it was saved again"


@pytest.mark.parametrize("name", ["step_7.pt", "step_7/model.pt"])
def test_one_that_still_grows_is_being_written(name: str) -> None:
    store = MemoryStore()
    store.write(name, made.torch_file())

    def grow(seconds: float) -> None:
        store.pass_time(seconds)
        store.write(name, made.torch_file(900))

    (found,) = survey(store, sleep=grow).checkpoints
    assert (found.usable, found.why) == (False, "its files still change: it is being written")
    (found,) = survey(store, sleep=store.pass_time).checkpoints
    assert found.usable


def test_one_that_cannot_be_read_is_no_proof_of_anything() -> None:
    store = place(("step_1.pt", made.torch_file()), ("step_2.pt", made.torch_file()))
    store.refuse("read", UnreachableError("no answer"), under="step_2.pt")
    found = looked(store)
    assert [each.completeness for each in found.checkpoints] == [Completeness.UNREADABLE, Completeness.COMPLETE]
    store.delete("step_1.pt")
    assert looked(store).newest_step is None


def test_what_is_older_than_the_one_that_is_taken_need_not_be_looked_at() -> None:
    store = place(*((f"step_{n}.pt", made.torch_file()) for n in range(30)))
    store.calls.clear()
    assert len(looked(store, stop_at_first=True).checkpoints) == 1
    assert len(store.calls) < 8


STEPS = [
    ("step-100", 100),
    ("global_step100", 100),
    ("epoch=3", None),
    ("ckpt_epoch_3_iter_40", 40),
    ("100", 100),
    ("llama-7b-step100", 100),
    ("last", None),
    ("v2_steps_30_final", 30),
]


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_name_tells_its_step(name: str, step: int | None) -> None:
    assert step_in(name) == step


FRAMEWORKS: list[tuple[str, Callable[[], Files]]] = [
    ("checkpoint-7", lambda: made.huggingface(7)),
    ("iter_0000007", lambda: made.megatron(3)),
    ("global_step7", lambda: made.deepspeed(3)),
    ("step_7", lambda: made.dcp(3)),
]


@settings(max_examples=60)
@given(st.sampled_from(FRAMEWORKS), st.data())
def test_whichever_shard_is_lost_it_is_not_taken(
    framework: tuple[str, Callable[[], Files]], data: st.DataObject
) -> None:
    name, files = framework[0], dict(framework[1]())
    # The last rank's absence cannot be told from fewer ranks where nothing names them.
    named = [each for each in files if "mp_rank_02" not in each and "pp_rank_2" not in each]
    named = [each for each in named if each not in ("rng_state.pth", "optimizer.pt")]
    del files[data.draw(st.sampled_from(named))]
    assert looked(place((name, files))).chosen is None


@settings(max_examples=80)
@given(st.integers(0, 10**6), st.booleans())
def test_wherever_a_file_is_cut_off_it_is_not_taken(at: int, torch: bool) -> None:
    whole = made.torch_file() if torch else made.safetensors_file()
    name = "step_1.pt" if torch else "step_1.safetensors"
    assert looked(place((name, whole[: at % len(whole)]))).chosen is None


@given(st.binary(max_size=400))
def test_a_hostile_file_breaks_nothing(body: bytes) -> None:
    looked(
        place(("step_1.pt", body), ("step_2.safetensors", body), ("step_3", {".metadata": body, "__0_0.distcp": body}))
    )
    looked(
        place(
            ("step_4.pt", b"PK\x03\x04" + body),
            ("checkpoint-1", {"trainer_state.json": body, "model.safetensors": body}),
        )
    )


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return Path.touch, (tmp_path / "ran",)  # type: ignore[return-value]

    import pickle  # noqa: PLC0415 - what is not to be run

    body = pickle.dumps(Bomb())
    looked(place(("step_1.pt", body), ("step_3", {".metadata": body + b"__0_0.distcp", "__0_0.distcp": body})))
    assert not (tmp_path / "ran").exists()


def test_a_real_directory_with_a_hidden_marker_and_a_link(tmp_path: Path) -> None:
    for name, body in made.dcp().items():
        (tmp_path / "step_5").mkdir(exist_ok=True)
        (tmp_path / "step_5" / name).write_bytes(body)
    (tmp_path / "latest").symlink_to("step_5")
    store = DirectoryStore(tmp_path, trusting=True)
    found = survey(store, settle_s=0)
    assert [(each.name, each.usable) for each in found.checkpoints] == [("step_5", True)]
    (tmp_path / "step_5" / ".metadata").unlink()
    assert survey(store, settle_s=0).chosen is None


def test_a_trainer_state_knows_the_step_better_than_the_name() -> None:
    files = {**made.huggingface(5), "trainer_state.json": json.dumps({"global_step": 6}).encode()}
    assert only(place(("checkpoint-5", files))).step == 6


# What is newly saved, looked at again and again.


def fresh(store: MemoryStore, *known: str, **more: Any) -> tuple[list[str], int]:
    found, requests = newly_saved(store, lambda each: each.name not in known, skipped=known, **more)
    return [each.name for each in found], requests


NEW = [
    ("a marker proves it at once", "checkpoint-100", made.huggingface(100), 3, True),
    ("a marker, and it may still be written to", "checkpoint-100", made.huggingface(100), 0, False),
    ("no marker, and it has settled", "step_100.pt", made.torch_file(), 61, True),
    ("no marker, and it is young", "step_100.pt", made.torch_file(), 10, False),
    ("half written", "step_100.pt", made.torch_file()[:20], 600, False),
]


@pytest.mark.parametrize(("name", "files", "age_s", "counts"), labelled(NEW))
def test_when_a_checkpoint_counts_as_saved(name: str, files: Files | bytes, age_s: float, counts: bool) -> None:
    store = MemoryStore()
    put(store, name, files)
    store.pass_time(age_s)
    assert fresh(store)[0] == ([name] if counts else [])


def test_when_nobody_writes_any_more_nothing_has_to_settle_but_a_crash_cuts_off() -> None:
    store = MemoryStore()
    put(store, "step_100.pt", made.torch_file())
    assert fresh(store, over=True)[0] == ["step_100.pt"]
    assert fresh(store, over=True, crashed_at=store.now)[0] == []


def test_all_that_is_new_is_found_the_oldest_first() -> None:
    store = place(("step_1.pt", made.torch_file()), ("step_3.pt", made.torch_file()), ("step_2.pt", made.torch_file()))
    assert fresh(store, "step_1.pt")[0] == ["step_2.pt", "step_3.pt"]


def test_what_is_known_costs_no_more_than_a_request_however_many_files_it_has() -> None:
    store = MemoryStore()
    for step in (1, 2):
        for number in range(2500):
            store.put_text(f"step_{step}/shard-{number:05}.bin", "x")
    put(store, "step_3.pt", made.torch_file())
    store.pass_time(600)
    store.calls.clear()
    assert fresh(store, "step_1", "step_2") == (["step_3.pt"], 3)
    assert [operation for operation, _ in store.calls].count("list") == 3, "and not six"
