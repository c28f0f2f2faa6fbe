"""Parses Python's tracebacks: finds the beginning, the rank and the last line of each.

Ranks print at the same time, so one traceback is kept open for each rank. A log collector may put a prefix of its own
before every line. A traceback's lines are then those with the same prefix, apart from digits.
"""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import Form

HEADER: Final = "Traceback (most recent call last)"
_FRAME: Final = Pattern(
    r"\s{0,40}File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,9})(?:,? in (?P<function>.{1,120}))?"
)
_EXCEPTION: Final = Pattern(r"[A-Za-z_][\w.]{0,200}(?:\[[^\]]{0,80}\]|\([^)]{0,80}\))?(?::|\s*$)")
# An exception that no line of code looks like. Code is not indented if frames are not.
_NAMED_EXCEPTION: Final = Pattern(
    r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failure|Fault)(?::\s|\s*$)"
)
# An exception of another thread behind a line of code, without a line break.
_GLUED: Final = Pattern(r".{0,200}\)(?P<said>[A-Z]\w{2,60}(?:Error|Exception): .+)$")
_NOTEBOOK: Final = Pattern(r"\s{0,8}(?P<class>[A-Za-z_]\w{0,80}) {4,}$")
"""Text before the header in a notebook."""
_NOTEBOOK_FRAME: Final = Pattern(
    r"(?:File )?\[?(?P<file>[^\s\[\]()]{1,300}(?:\.py|>))(?:\]\([^)]{0,200}\))?(?::(?P<line>\d{1,9}))?,? in "
    r"(?P<function>[\w.<>]{1,120})"
)
_ARROW: Final = Pattern(r"-{1,4}> {0,3}\d{1,9} (?P<code>.*)")
"""The line of code that a notebook points to."""
_CARETS: Final = Pattern(r"[\^~]{1,400}$")
_OPEN_LIMIT: Final = 32
"""Most open tracebacks."""
_FOREIGN_LIMIT: Final = 60
"""Most other lines between two lines of a traceback."""
_LINES_LIMIT: Final = 2000
"""Most lines of a traceback."""
_HEADER_LIMIT: Final = 160
"""Most characters of a traceback's first line, counted from its end."""
_PREFIX_LIMIT: Final = 120
"""Most characters of a log collector's prefix."""
_WORDS_LIMIT: Final = 240
"""Most characters of a traceback's file names, functions and code that are kept."""
_NAME_LIMIT: Final = 60
"""Most characters of a function's or file's name."""
_PATH_LIMIT: Final = 160
"""Most characters of a path, counted from its end."""
_LIBRARY: Final = Pattern(
    r"site-packages|dist-packages|/lib/python\d|<frozen |<string>|<__array_function__|/bin/\w{1,40}$|\.so\b|^<"
)
# Code that is not the user's own either, wherever it is installed.
_NOT_THEIRS: Final = Pattern(
    r"(?:^|/)torch/(?:nn|optim|autograd|distributed|utils|cuda|fx|jit|amp|multiprocessing|serialization|functional|_)|"
    r"(?:^|/)lastbeat(?:_cli)?/(?:training/|integrations/|stores/|model/|__init__\.py)"
)
# Trackers observe training in threads of their own.
_ONLOOKER: Final = Pattern(
    r"(?:site|dist)-packages/(?:wandb|tensorboardX?|mlflow|comet_ml|neptune|clearml|swanlab|aim|trackio)/"
)
_FRAMES: Final = 2
"""Frames for display of the program's own code, and as many of libraries."""
_FILE_LIMIT: Final = 70
"""Most characters of a frame's file for display."""
_FUNCTION_LIMIT: Final = 40
"""Most characters of a frame's function for display."""
FRAME_LIMIT: Final = 160
"""Most characters of a frame for display."""
_INSTALLED: Final = Pattern(r"^.{0,400}(?:site-packages|dist-packages)/|^.{0,400}?/lib/python\d[\d.]{0,5}/")
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
        ("operator", r"torch/(?:nn/(?:functional|modules/(?!module\.py)\w{1,30})|functional|_ops)\.py"),
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


NATIVE: Final = "native"
"""Place of an exception that code outside of Python raised."""


def is_frame(text: str) -> bool:
    """Whether a line is a traceback's frame."""
    return _FRAME.match(text) is not None


def place_of(file: str) -> str:
    """The kind of code in a source file (``collective``, ``data``, ``checkpoint``, …); "" for a program's own."""
    file = file.replace("\\", "/")
    return next((name for name, pattern in _PLACES if pattern.search(file)), "")


@dataclass(eq=False, repr=False)
class OpenTraceback:
    """A traceback that has begun."""

    FORM: ClassVar = Form.SPARSE

    line: int
    header: str = ""
    """Its first line, shortened."""
    prefix: str = ""
    settled: bool = False
    """Whether a second line has confirmed the prefix."""
    indent: int = 0
    flat: bool = False
    """Whether its lines have lost their indents."""
    expects_code: bool = False
    """Whether the line before was a flat frame."""
    frames: int = 0
    foreign: int = 0
    """Number of other lines since it began."""
    seen: int = 0
    """Number of its own lines."""
    top: str = ""
    """Function of the outermost frame."""
    file: str = ""
    """Source file of the innermost frame so far."""
    site: str = ""
    """The innermost frame of the program's own code so far."""
    own_frames: list[str] = field(default_factory=list)
    """The innermost two frames of the program's own code, the innermost last."""
    library_frames: list[str] = field(default_factory=list)
    """The innermost two frames of other code, the innermost last."""
    latest_is_own: bool = False
    deliberate: bool = False
    """Whether the innermost frame so far is at a ``raise`` statement."""
    words: str = ""
    """File names, functions and code of the traceback, shortened."""
    named: str = ""
    """The class of its exception, if the header names it, as in a notebook."""
    quiet: bool = False
    """Whether it was announced as one to ignore."""
    detail_of: int = -1
    """Order of the envelope's mention for a traceback without header, which is the detail of an envelope; else -1."""
    logged: bool = False
    """Whether a logger printed it. The exception was then caught, unless the traceback begins at the entry point."""
    headless: bool = False
    """Whether the text begins in it, so that its first line is a frame."""

    @property
    def fatal(self) -> bool:
        return (
            self.top in {"<module>", "_bootstrap", "_run_module_as_main", "_wrap", "_worker_loop", "spawn_main"}
            and not self.quiet
        )

    @property
    def place(self) -> str:
        return place_of(self.file) or (NATIVE if self._called_native_code else "")

    @property
    def _called_native_code(self) -> bool:
        """Whether the latest frame shows its code, which is no ``raise``: then what it called is not in Python."""
        frames = self.own_frames if self.latest_is_own else self.library_frames
        return bool(frames) and ": " in frames[-1] and not self.deliberate

    @property
    def innermost(self) -> tuple[str, ...]:
        """Frames for display: at most two of the program's own, then at most two of libraries, the innermost first."""
        return (*reversed(self.own_frames[-_FRAMES:]), *reversed(self.library_frames[-_FRAMES:]))

    def entered(self, file: str, line: str, function: str) -> None:
        """Add a frame, further in than those before."""
        self.deliberate = False
        foreign = _LIBRARY.search(file) is not None or _NOT_THEIRS.search(file) is not None
        shown = _INSTALLED.sub("", file) if foreign else file
        shown = shown if len(shown) <= _FILE_LIMIT else f"…{shown[1 - _FILE_LIMIT :]}"
        frame = f"{shown}:{line} in {function[:_FUNCTION_LIMIT]}" if function else f"{shown}:{line}"
        frames = self.library_frames if foreign else self.own_frames
        frames.append(frame)
        del frames[:-_FRAMES]
        self.latest_is_own = not foreign

    def shows_code(self, code: str) -> None:
        """Add the line of code of the latest frame."""
        self.deliberate = self.deliberate or code.startswith(("raise ", "assert "))
        frames = self.own_frames if self.latest_is_own else self.library_frames
        if frames and ": " not in frames[-1]:
            frames[-1] = f"{frames[-1]}: {code}"[:FRAME_LIMIT]


@dataclass(eq=False, repr=False)
class TracebackParser:
    """The open tracebacks, by rank and prefix."""

    open: dict[str, OpenTraceback] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open = dict(islice(self.open.items(), _OPEN_LIMIT))

    def begin(
        self, rank: int | None, text: str, number: int, *, quiet: bool, logged: bool = False, detail_of: int = -1
    ) -> None:
        """Open a traceback. ``text`` contains :data:`HEADER`."""
        prefix = text[: text.find(HEADER)]
        # A terminal echoes the keys that ended the program.
        prefix = prefix.removesuffix("Original ").removesuffix("^C").removesuffix("^\\")
        indent, notebook = 0, _NOTEBOOK.match(prefix)
        if notebook is not None or prefix.strip(" |+") == "" or len(prefix) > _PREFIX_LIMIT:
            indent, prefix = 0 if notebook is not None else len(prefix), ""
        if len(self.open) >= _OPEN_LIMIT:
            self.open.pop(next(iter(self.open)))
        self.open[_key(rank, prefix)] = OpenTraceback(
            number, text[-_HEADER_LIMIT:], prefix, indent=indent, quiet=quiet, detail_of=detail_of, logged=logged
        )
        if notebook is not None:
            self.open[_key(rank, prefix)].named = notebook["class"]

    def begin_at_frame(self, rank: int | None, text: str, number: int) -> None:
        """Open a traceback whose header is not in the text, at its frame ``text``."""
        self.begin(rank, HEADER, number, quiet=False)
        self.open[_key(rank, "")].headless = True
        self.read(rank, text)

    def unfinished(self) -> OpenTraceback | None:
        """The first traceback whose exception is not there yet, or None."""
        whole = (each for each in self.open.values() if not each.headless and each.detail_of < 0)
        return next((each for each in whole if not each.quiet), None)

    def read(self, rank: int | None, text: str) -> "tuple[OpenTraceback, str] | bool | None":
        """Read ``text``. Returns True for a line of an open traceback, and None for another line. For the last line,
        returns the traceback and the line without its prefix."""
        found = self._owner(rank, text)
        if found is None:
            self._age()
            return None
        key, traceback, body = found
        is_last = self._take(traceback, body)
        if is_last is None:
            self._age()
            return None
        traceback.seen += 1
        if is_last or traceback.seen > _LINES_LIMIT:
            del self.open[key]
        if not is_last:
            return True
        glued = _GLUED.match(body) if body[:1].isspace() else None
        return traceback, (body.strip() if glued is None else glued["said"])

    def _age(self) -> None:
        for each in list(self.open):
            traceback = self.open[each]
            traceback.foreign += 1
            if traceback.foreign > _FOREIGN_LIMIT:
                del self.open[each]

    def _owner(self, rank: int | None, text: str) -> tuple[str, OpenTraceback, str] | None:
        """The open traceback that ``text`` may belong to: its key, itself, and ``text`` without its prefix."""
        masked = _mask(text)
        for key, traceback in reversed(self.open.items()):
            if not key.startswith(f"{rank} "):
                continue
            if not traceback.prefix:
                return key, traceback, text
            if masked.startswith(_mask(traceback.prefix)):
                traceback.settled = True
                return key, traceback, text[len(traceback.prefix) :]
            if not traceback.settled and _FRAME.match(text):
                # The text before the header was no prefix.
                traceback.settled, traceback.prefix, traceback.indent = True, "", 0
                return key, traceback, text
        return None

    def _take(self, traceback: OpenTraceback, body: str) -> bool | None:
        """Whether ``body`` is the traceback's last line; None if it does not belong to the traceback.

        1. An empty line continues it, also with the margin of an exception group.
        2. For a frame, remember the outermost function, the innermost code and the innermost of the program's own.
        3. A line indented deeper than the header is the code of a frame. So is the line behind a frame if indents are
           lost, unless it can only be an exception.
        4. At the header's own indent, the exception ends it.
        """
        stripped = body.strip(" |\t")
        if not stripped:
            return False
        frame = _FRAME.match(body.lstrip("|"))
        if frame is not None:
            if traceback.frames == 0:
                traceback.flat = body.startswith("File ") and traceback.indent == 0
                traceback.indent = max(0, len(body) - len(body.lstrip()) - 2)
                traceback.top = (frame["function"] or "").strip()[:_NAME_LIMIT]
                # Python ignores an exception in a destructor, even if its announcement is not in this log.
                traceback.quiet = traceback.quiet or traceback.top == "__del__"
                # Code that catches and logs is the program's own; otherwise the top was left out.
                traceback.logged = traceback.logged and _LIBRARY.search(frame["file"]) is None
            traceback.frames += 1
            traceback.expects_code = traceback.flat
            file, function = frame["file"], (frame["function"] or "").strip()[:_NAME_LIMIT]
            traceback.file = file[-_PATH_LIMIT:]
            # Its exception only ends the thread.
            if traceback.top == "_bootstrap_inner" and _ONLOOKER.search(file):
                traceback.quiet = True
            name = file.rsplit("/", 1)[-1][-_NAME_LIMIT:]
            traceback.entered(file, frame["line"], function)
            if not _LIBRARY.search(file):
                traceback.site = f"{name}:{frame['line']}:{function}"
            self._note(traceback, f"{name} {function}")
            return False
        if traceback.named and self._take_of_notebook(traceback, stripped):
            return False
        indent = len(body) - len(body.lstrip())
        is_code = traceback.expects_code and not _NAMED_EXCEPTION.match(stripped)
        traceback.expects_code = False
        if indent > traceback.indent or is_code or (traceback.flat and _CARETS.match(stripped)):
            if traceback.frames:
                traceback.shows_code(stripped)
            if traceback.frames and not _LIBRARY.search(traceback.file):
                self._note(traceback, stripped)
            return traceback.frames > 0 and _GLUED.match(stripped) is not None
        if traceback.named and not stripped.startswith(traceback.named):
            return None
        if _EXCEPTION.match(stripped):
            return True
        return False if stripped.startswith("[Previous line repeated") else None

    @staticmethod
    def _take_of_notebook(traceback: OpenTraceback, text: str) -> bool:
        """Whether ``text`` is a frame as notebooks print it, or the line of code that one points to."""
        frame, arrow = _NOTEBOOK_FRAME.match(text), _ARROW.match(text)
        if frame is not None:
            traceback.frames += 1
            traceback.file = frame["file"][-_PATH_LIMIT:]
            traceback.entered(frame["file"], frame["line"] or "?", frame["function"])
        elif arrow is not None and traceback.frames:
            traceback.shows_code(arrow["code"].strip())
        return frame is not None or arrow is not None

    @staticmethod
    def _note(traceback: OpenTraceback, words: str) -> None:
        traceback.words = f"{traceback.words} {words[:120]}"[-_WORDS_LIMIT:]


def _key(rank: int | None, prefix: str) -> str:
    return f"{rank} {_mask(prefix)}"


def _mask(text: str) -> str:
    return re.sub(r"\d", "0", text[:_PREFIX_LIMIT])
