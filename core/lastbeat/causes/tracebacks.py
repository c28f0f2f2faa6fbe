"""Python's tracebacks as blocks of lines: where they begin, whose they are, and the line that they end with.

Ranks print at the same time, so one block a rank is kept open. What collects logs may put something before each line
that nobody knows; then the block's lines are those with the same before them, digits apart.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lastbeat.causes.kept import made_of
from lastbeat.model.pattern import Pattern

HEADER: Final = "Traceback (most recent call last)"
_FRAME: Final = Pattern(
    r"\s{0,40}File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9})(?:,? in (?P<function>.{1,120}))?"
)
_EXCEPTION: Final = Pattern(r"[A-Za-z_][\w.]{0,200}(?:\[[^\]]{0,80}\]|\([^)]{0,80}\))?(?::|\s*$)")
_MOST_OPEN: Final = 32
_FOREIGN_LIMIT: Final = 60
_LINES_LIMIT: Final = 2000
_PREFIX_LIMIT: Final = 120
_WORDS_LIMIT: Final = 240
_NAME_LIMIT: Final = 60
_PATH_LIMIT: Final = 160
_LIBRARY: Final = Pattern(
    r"site-packages|dist-packages|/lib/python\d|<frozen |<string>|<__array_function__|/bin/\w{1,40}$|\.so\b|^<"
)
_PLACES: Final = tuple(
    (name, Pattern(pattern))
    for name, pattern in (
        (
            "launcher",
            r"torch/distributed/(?:run|launch|elastic/|launcher/)|/bin/(?:torchrun|accelerate|deepspeed)|(?:accelerate|deepspeed)/(?:commands|launcher)/",
        ),
        ("jit", r"torch/jit/|torch/_jit_internal|torch/onnx/"),
        ("compile", r"torch/_(?:dynamo|inductor|functorch)/|torch/fx/|(?:^|/)triton/"),
        ("autograd", r"torch/autograd/|torch/_tensor\.py"),
        (
            "checkpoint",
            r"torch/serialization\.py|torch/distributed/checkpoint/|dist_checkpointing|safetensors/|checkpoint(?:ing|er|_\w{1,20})?\.py|/orbax/",
        ),
        (
            "collective",
            r"torch/distributed/distributed_c10d|torch/distributed/c10d_logger|deepspeed/comm/|horovod/|mpi4py/",
        ),
        (
            "connection",
            r"/socket\.py|multiprocessing/(?:connection|managers|reduction)\.py|/http/client\.py|urllib3/|/ssl\.py|asyncio/",
        ),
        ("cuda", r"torch/cuda/__init__|torch/accelerator/"),
        (
            "data",
            (
                r"/(?:tarfile|zipfile|gzip|lzma|bz2|csv|_pydatetime)(?:/__init__)?\.py|/json/decoder\.py|numpy/lib/\w{0,4}npyio|pyarrow/|/PIL/|webdataset/|"
                r"/streaming/|/datasets/(?:load|builder|arrow|table|packaged|download)|/h5py/|torchvision/(?:io|datasets)|soundfile|torchaudio/|decord|pandas/io|"
                r"tensorflow/python/(?:data|lib/io)|tokenizers/|sentencepiece|/cv2/|indexed_dataset|/lmdb/|mmap_dataset"
            ),
        ),
        ("import", r"<frozen importlib|importlib/"),
    )
)


def place_of(file: str) -> str:
    """Which part of the world a source file belongs to; "" for a program's own."""
    return next((name for name, pattern in _PLACES if pattern.search(file)), "")


@dataclass
class Block:
    """A traceback that has begun."""

    line: int
    prefix: str = ""
    settled: bool = False
    """Whether the prefix has been seen on a second line."""
    indent: int = 0
    frames: int = 0
    foreign: int = 0
    seen: int = 0
    top: str = ""
    file: str = ""
    site: str = ""
    words: str = ""
    """File names, functions and code, shortened: what the traceback speaks of."""
    quiet: bool = False
    """Announced as one that nobody has to care about."""
    logged: bool = False
    """Behind a line of a logger: somebody caught the exception, unless the traceback begins at the program's top."""

    @property
    def fatal(self) -> bool:
        return (
            self.top in {"<module>", "_bootstrap", "_run_module_as_main", "_wrap", "_worker_loop", "spawn_main"}
            and not self.quiet
        )

    @property
    def place(self) -> str:
        return place_of(self.file)


@dataclass
class Blocks:
    """The open tracebacks, by rank and what stands before their lines."""

    open: dict[str, Block] = field(default_factory=dict)

    def begin(self, rank: int | None, text: str, number: int, *, quiet: bool, logged: bool = False) -> None:
        """A line that holds :data:`HEADER`."""
        prefix = text[: text.find(HEADER)]
        prefix = prefix.removesuffix("Original ")
        indent = 0
        if prefix.strip(" |+") == "" or len(prefix) > _PREFIX_LIMIT:
            indent, prefix = len(prefix), ""
        if len(self.open) >= _MOST_OPEN:
            self.open.pop(next(iter(self.open)))
        self.open[_key(rank, prefix)] = Block(number, prefix, indent=indent, quiet=quiet, logged=logged)

    def read(self, rank: int | None, text: str) -> "tuple[Block, str] | bool | None":
        """What ``text`` is to an open block: its last line (then the block, and the line without what stands before
        it), a line of it (True), or none of its lines (None)."""
        found = self._block(rank, text)
        if found is None:
            self._wait()
            return None
        key, block, body = found
        taken = self._take(block, body)
        if taken is None:
            self._wait()
            return None
        block.seen += 1
        if taken or block.seen > _LINES_LIMIT:
            del self.open[key]
        return (block, body.strip()) if taken else True

    def _wait(self) -> None:
        for each in list(self.open):
            block = self.open[each]
            block.foreign += 1
            if block.foreign > _FOREIGN_LIMIT:
                del self.open[each]

    def _block(self, rank: int | None, text: str) -> tuple[str, Block, str] | None:
        shape = _mask(text)
        for key, block in reversed(self.open.items()):
            if not key.startswith(f"{rank} "):
                continue
            if not block.prefix:
                return key, block, text
            if shape.startswith(_mask(block.prefix)):
                block.settled = True
                return key, block, text[len(block.prefix) :]
            if not block.settled and _FRAME.match(text):
                block.settled, block.prefix, block.indent = True, "", 0
                return key, block, text
        return None

    def _take(self, block: Block, body: str) -> bool | None:
        """Whether this is the block's last line; None: it is not one of its lines."""
        stripped = body.strip(" |\t")
        if not stripped:
            return False
        frame = _FRAME.match(body.lstrip("|"))
        if frame is not None:
            if block.frames == 0:
                block.indent = max(0, len(body) - len(body.lstrip()) - 2)
                block.top = (frame["function"] or "").strip()[:_NAME_LIMIT]
                # Whoever catches and logs does so in code of the program's own; else the top was left out.
                block.logged = block.logged and _LIBRARY.search(frame["file"]) is None
            block.frames += 1
            file, function = frame["file"], (frame["function"] or "").strip()[:_NAME_LIMIT]
            block.file = file[-_PATH_LIMIT:]
            name = file.rsplit("/", 1)[-1][-_NAME_LIMIT:]
            if not _LIBRARY.search(file):
                block.site = f"{name}:{frame['line']}:{function}"
            self._note(block, f"{name} {function}")
            return False
        indent = len(body) - len(body.lstrip())
        if indent > block.indent:
            if block.frames and not _LIBRARY.search(block.file):
                self._note(block, stripped)
            return False
        if _EXCEPTION.match(stripped):
            return True
        return False if stripped.startswith("[Previous line repeated") else None

    @staticmethod
    def _note(block: Block, words: str) -> None:
        block.words = f"{block.words} {words[:120]}"[-_WORDS_LIMIT:]

    def state(self) -> dict[str, Any]:
        return {key: asdict(block) for key, block in self.open.items()}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Blocks":
        return cls({str(key): made_of(Block, block) for key, block in list(state.items())[:_MOST_OPEN]})


def _key(rank: int | None, prefix: str) -> str:
    return f"{rank} {_mask(prefix)}"


def _mask(text: str) -> str:
    return re.sub(r"\d", "0", text[:_PREFIX_LIMIT])
