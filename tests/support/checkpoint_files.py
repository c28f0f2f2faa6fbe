"""Checkpoints as frameworks lay them out, small."""

import io
import json
import pickle
import zipfile


def torch_file(size: int = 300) -> bytes:
    """What ``torch.save`` writes: a zip file with a pickle and tensors."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"step": 1}))
        archive.writestr("archive/data/0", bytes(size))
        archive.writestr("archive/version", "3\n")
    return made.getvalue()


def safetensors_file(size: int = 64) -> bytes:
    """One tensor of ``size`` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def dcp_metadata(*shards: str) -> bytes:
    """The pickle of torch.distributed.checkpoint, as far as it names its shards."""
    return pickle.dumps({"storage_data": list(shards)}, protocol=4)


def huggingface(step: int) -> dict[str, bytes]:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    return {
        "model.safetensors.index.json": json.dumps(index).encode(),
        "model-00001-of-00002.safetensors": safetensors_file(),
        "model-00002-of-00002.safetensors": safetensors_file(),
        "optimizer.pt": torch_file(),
        "rng_state.pth": torch_file(),
        "trainer_state.json": json.dumps({"global_step": step, "log_history": []}).encode(),
    }


def megatron(ranks: int = 2) -> dict[str, bytes]:
    return {f"mp_rank_{rank:02d}/model_optim_rng.pt": torch_file() for rank in range(ranks)}


def deepspeed(ranks: int = 2) -> dict[str, bytes]:
    parts = {f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": torch_file() for rank in range(ranks)}
    return {"mp_rank_00_model_states.pt": torch_file(), **parts}


def dcp(ranks: int = 2) -> dict[str, bytes]:
    shards = {f"__{rank}_0.distcp": b"shard" for rank in range(ranks)}
    return {**shards, ".metadata": dcp_metadata(*shards)}


def orbax() -> dict[str, bytes]:
    return {
        "_CHECKPOINT_METADATA": b'{"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}',
        "default/_METADATA": b"{}",
        "default/manifest.ocdbt": b"ocdbt",
        "default/d/0a": b"tensors",
    }
