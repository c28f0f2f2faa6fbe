"""The layouts that frameworks give their checkpoints: name → step, files → complete or why not.

Each framework writes something last, or names what belongs together; that is what counts here, as the frameworks' own
loaders have it (Megatron-LM's and DeepSpeed's tracker files, the index files of Transformers and safetensors, the
``.metadata`` of torch.distributed.checkpoint, the commit marks of Orbax).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lastbeat.jobs.checkpoints.headers import BrokenFileError, check, has_header
from lastbeat.stores.port import Entry, Store

MARKER_LIMIT: Final = 16 << 20
"""Bytes that are read of an index, a manifest or a trainer's state."""
_TRACKER_LIMIT: Final = 200
TRACKERS: Final = ("latest_checkpointed_iteration.txt", "latest")
"""Text files beside checkpoints that name the last complete one: Megatron-LM's and DeepSpeed's."""
SINGLE_FILES: Final = (".pt", ".pth", ".ckpt", ".safetensors")

_MEGATRON: Final = re.compile(r"iter_(\d{7,12})")
_DEEPSPEED: Final = re.compile(r"global_step(\d{1,12})")
_HUGGINGFACE: Final = re.compile(r"checkpoint-(\d{1,12})")
_STEP: Final = re.compile(r"(?:^|[^a-z])(?:global_?step|step|iteration|iter|it)s?[=_-]?(\d{1,12})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(\d{1,12})(?=\D*$)")
_TEMPORARY: Final = re.compile(r"\.orbax-checkpoint-tmp|\.tmp\b|^tmp[-_.]|\.part$|\.incomplete$")
_DCP_SHARD: Final = re.compile(rb"__\d{1,6}_\d{1,6}\.distcp")
_DEEPSPEED_OPTIMIZER: Final = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_OF_MANY: Final = re.compile(r"-\d{5}-of-\d{5}\.(?:safetensors|bin)$")
_WEIGHTS: Final = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors", "adapter_model.bin")
_INDEXES: Final = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MOST_HEADERS: Final = 64
"""Files of one checkpoint whose headers are read: the smallest and the largest of more."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """What may be a checkpoint: its files, by their name below it (a single file is named "")."""

    name: str
    files: Mapping[str, Entry]

    @property
    def is_file(self) -> bool:
        return "" in self.files


@dataclass(frozen=True, slots=True)
class Judgement:
    """A layout's judgement of a candidate. ``marked`` means that a marker that is written last proves it."""

    layout: str
    step: int | None
    why: str
    marked: bool = True


class IncompleteError(ValueError):
    """The candidate is a checkpoint, and not a complete one; ``str()`` says why."""

    def __init__(self, layout: str, step: int | None, why: str) -> None:
        super().__init__(why)
        self.layout = layout
        self.step = step


def step_in(name: str) -> int | None:
    """The step that a name tells: after a word for it, else its last number, where there is no ``epoch``."""
    found = _STEP.search(name)
    if found is None and "epoch" not in name.lower():
        found = _NUMBER.search(name)
    return int(found[1]) if found is not None else None


def judge(store: Store, candidate: CheckpointFiles, trackers: Mapping[str, str]) -> Judgement | None:
    """The candidate as a complete checkpoint; None: it is none at all. ``trackers``: what such files beside it say.

    Raises :class:`IncompleteError`, and :class:`StoreError` where something could not be read.
    """
    if candidate.is_file:
        return _single_file(store, candidate)
    layout, look = next((name, look) for name, fits, look in _LAYOUTS if fits(candidate))
    if look is None:
        return None
    step = step_in(candidate.name)
    if _TEMPORARY.search(candidate.name):
        raise IncompleteError(layout, step, "its name says that it is still being written")
    temporary = next((name for name in candidate.files if _TEMPORARY.search(name.rpartition("/")[2])), None)
    if temporary is not None:
        raise IncompleteError(layout, step, f"{temporary} is still being written")
    empty = next((name for name, each in candidate.files.items() if each.size_bytes == 0 and has_header(name)), None)
    if empty is not None:
        raise IncompleteError(layout, step, f"{empty} is empty")
    try:
        return look(_Look(store, candidate, step, layout, trackers))
    except BrokenFileError as broken:
        raise IncompleteError(layout, step, str(broken)) from None


def tracked(store: Store, name: str) -> str | None:
    """What the tracker file ``name`` says; None: there is none."""
    blob = store.read(name, _TRACKER_LIMIT)
    return None if blob is None else blob.body.decode("utf-8", "replace").strip()


@dataclass(frozen=True, slots=True)
class _Look:
    store: Store
    candidate: CheckpointFiles
    step: int | None
    layout: str
    trackers: Mapping[str, str]

    @property
    def files(self) -> Mapping[str, Entry]:
        return self.candidate.files

    def fail(self, why: str) -> IncompleteError:
        return IncompleteError(self.layout, self.step, why)

    def body(self, name: str) -> bytes | None:
        """A small file; None: it is not there."""
        there = self.files.get(name)
        blob = self.store.read(there.key if there else f"{self.candidate.name}/{name}", MARKER_LIMIT)
        if blob is not None and blob.size_bytes > MARKER_LIMIT:
            raise self.fail(f"{name} has {blob.size_bytes:,} bytes, which no such file has")
        return None if blob is None else blob.body

    def document(self, name: str) -> Any:
        body = self.body(name)
        try:
            return None if body is None else json.loads(body)
        except (ValueError, RecursionError):
            raise self.fail(f"{name} is no whole JSON document") from None

    def demand(self, names: Sequence[str], of: str) -> None:
        missing = sorted({name for name in names if name not in self.files})
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise self.fail(f"{missing[0]}{more} of {len(set(names))} that {of} names is missing")

    def headers(self) -> bool:
        """Whether headers show that the files are whole; :class:`BrokenFileError` if one is not."""
        named = sorted((each.size_bytes, name) for name, each in self.files.items() if has_header(name))
        half = _MOST_HEADERS // 2
        looked_at = named if len(named) <= _MOST_HEADERS else [*named[:half], *named[-half:]]
        told = [self._whole(name) for _, name in looked_at]
        return any(told)

    def _whole(self, name: str) -> bool:
        try:
            return check(self.store, self.files[name])
        except BrokenFileError as broken:
            raise BrokenFileError(f"{name} {broken}") from None


def _single_file(store: Store, candidate: CheckpointFiles) -> Judgement | None:
    if not candidate.name.endswith(SINGLE_FILES):
        return None
    step = step_in(candidate.name.rpartition(".")[0])
    layout = "lightning" if candidate.name.endswith(".ckpt") else "file"
    try:
        whole = check(store, candidate.files[""])
    except BrokenFileError as broken:
        raise IncompleteError(layout, step, f"it {broken}") from None
    why = "its header or directory can be read" if whole else "nothing in its format tells whether it is whole"
    return Judgement(layout, step, why, marked=False)


def _megatron(look: _Look) -> Judgement:
    tracker = look.trackers.get("latest_checkpointed_iteration.txt")
    if tracker is not None and tracker.isdecimal() and look.step is not None and look.step > int(tracker):
        raise look.fail(f"latest_checkpointed_iteration.txt still says {int(tracker)}")
    if any(name.endswith(".distcp") for name in look.files):
        return _sharded(look)
    by_rank: dict[str, set[str]] = {}
    for name in look.files:
        folder, _, file = name.rpartition("/")
        if folder.startswith("mp_rank_"):
            by_rank.setdefault(folder, set()).add(file)
    _same_files(look, by_rank)
    tensor_ranks = {int(each.split("_")[2]) for each in by_rank if each.split("_")[2].isdecimal()}
    gap = next((rank for rank in range(max(tensor_ranks, default=-1)) if rank not in tensor_ranks), None)
    if gap is not None:
        raise look.fail(f"mp_rank_{gap:02d} is missing")
    if not by_rank:
        raise look.fail("it has no mp_rank_… folder")
    look.headers()
    if tracker is not None and look.step is not None:
        return Judgement(look.layout, look.step, f"latest_checkpointed_iteration.txt says {tracker}")
    return Judgement(
        look.layout, look.step, "every rank has the same files, and their headers can be read", marked=False
    )


def _same_files(look: _Look, by_rank: Mapping[str, set[str]]) -> None:
    every = set().union(*by_rank.values()) if by_rank else set()
    for rank, files in sorted(by_rank.items()):
        missing = sorted(every - files)
        if missing:
            raise look.fail(f"{rank} has no {missing[0]}, which other ranks have")


def _deepspeed(look: _Look) -> Judgement:
    latest = look.trackers.get("latest")
    named = step_in(latest) if latest else None
    if named is not None and look.step is not None and look.step > named:
        raise look.fail(f"the file latest still says {latest}")
    if not any(name.endswith("model_states.pt") for name in look.files):
        raise look.fail("it has no …model_states.pt")
    ranks: dict[str, set[int]] = {}
    for name in look.files:
        found = _DEEPSPEED_OPTIMIZER.fullmatch(name)
        if found is not None:
            ranks.setdefault(found[2], set()).add(int(found[1]))
    most = max((max(each) for each in ranks.values()), default=-1)
    for model_rank, each in sorted(ranks.items()):
        gap = next((rank for rank in range(most + 1) if rank not in each), None)
        if gap is not None:
            raise look.fail(f"the optimizer's part of rank {gap} (mp_rank_{model_rank}) is missing")
    look.headers()
    if named is not None:
        return Judgement(look.layout, look.step, f"the file latest says {latest}")
    return Judgement(look.layout, look.step, "no rank's part is missing, and headers can be read", marked=False)


def _huggingface(look: _Look) -> Judgement:
    state = look.document("trainer_state.json")
    if state is None:
        raise look.fail("trainer_state.json is missing, which is written last")
    step = state.get("global_step") if isinstance(state, dict) else None
    for name in _INDEXES:
        index = look.document(name) if name in look.files else None
        if index is not None:
            shards = index.get("weight_map") if isinstance(index, dict) else None
            if not isinstance(shards, dict):
                raise look.fail(f"{name} names no shards")
            look.demand([str(shard) for shard in shards.values()], name)
            break
    else:
        shard = next((name for name in look.files if _OF_MANY.search(name)), None)
        if shard is not None:
            raise look.fail(f"the index that names {shard} and its like is missing")
        others = any("/" in name or name.endswith((".safetensors", ".bin", ".h5", ".msgpack")) for name in look.files)
        if not any(name in look.files for name in _WEIGHTS) and not others:
            raise look.fail("it has no weights")
    look.headers()
    told = step if isinstance(step, int) and not isinstance(step, bool) else look.step
    return Judgement(look.layout, told, "trainer_state.json is there, and so is every file that its index names")


def _sharded(look: _Look) -> Judgement:
    """torch.distributed.checkpoint: the coordinator writes ``.metadata`` when all ranks have written their shards."""
    folders = sorted({name.rpartition("/")[0] for name in look.files if name.endswith(".distcp")})
    for folder in folders or [""]:
        prefix = f"{folder}/" if folder else ""
        metadata = look.body(f"{prefix}.metadata")
        if not metadata:
            raise look.fail(f"{prefix}.metadata is missing, which is written last")
        # A pickle, which is never run: the shards' names stand in it as plain text.
        named = {found.decode("ascii") for found in _DCP_SHARD.findall(metadata)}
        look.demand([prefix + name for name in sorted(named)], ".metadata")
    empty = next((name for name, each in look.files.items() if name.endswith(".distcp") and not each.size_bytes), None)
    if empty is not None:
        raise look.fail(f"{empty} is empty")
    return Judgement(look.layout, look.step, ".metadata is there, and so is every shard that it names")


def _orbax(look: _Look) -> Judgement:
    document = look.document("_CHECKPOINT_METADATA") if "_CHECKPOINT_METADATA" in look.files else None
    if any(name.rpartition("/")[2] == "commit_success.txt" for name in look.files):
        return Judgement(look.layout, look.step, "commit_success.txt is there")
    if isinstance(document, dict):
        if document.get("commit_timestamp_nsecs") is None and "commit_timestamp_nsecs" in document:
            raise look.fail("_CHECKPOINT_METADATA has no time of its commit")
        return Judgement(look.layout, look.step, "_CHECKPOINT_METADATA says that it was committed")
    # In a directory Orbax renames the whole of it when it is done.
    return Judgement(look.layout, look.step, "it has its final name, and a _METADATA", marked=False)


def _folder(look: _Look) -> Judgement:
    if look.headers():
        return Judgement(look.layout, look.step, "its files' headers can be read", marked=False)
    return Judgement(look.layout, look.step, "nothing in it tells whether it is whole", marked=False)


def _has(candidate: CheckpointFiles, *endings: str) -> bool:
    return any(name.endswith(endings) for name in candidate.files)


def _named(pattern: "re.Pattern[str]") -> Callable[[CheckpointFiles], bool]:
    return lambda candidate: pattern.fullmatch(candidate.name) is not None


_LAYOUTS: Final[tuple[tuple[str, Callable[[CheckpointFiles], bool], Callable[[_Look], Judgement] | None], ...]] = (
    ("megatron", _named(_MEGATRON), _megatron),
    ("deepspeed", _named(_DEEPSPEED), _deepspeed),
    ("huggingface", _named(_HUGGINGFACE), _huggingface),
    ("orbax", lambda each: _has(each, "_CHECKPOINT_METADATA", "_METADATA", "commit_success.txt"), _orbax),
    ("orbax", lambda each: ".orbax-checkpoint-tmp" in each.name, _orbax),
    ("dcp", lambda each: _has(each, ".distcp", ".metadata"), _sharded),
    ("deepspeed", lambda each: _has(each, "model_states.pt"), _deepspeed),
    ("huggingface", lambda each: "trainer_state.json" in each.files, _huggingface),
    ("folder", lambda each: _has(each, *SINGLE_FILES, ".bin", ".npz", ".msgpack"), _folder),
    ("none", lambda _: True, None),
)
"""Layout, whether a candidate has it, how it is judged. The first that fits counts."""
