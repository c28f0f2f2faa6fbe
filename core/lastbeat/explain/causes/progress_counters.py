"""Detects progress of training by the growing counters in its lines."""

from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Final

from lastbeat.model.pattern import Pattern
from lastbeat.model.persisted import AnyFloat, Form

# For lines in lower case. Characters that must not precede a word or number are checked behind its first character,
# because a pattern that begins with a literal is several times as fast.
_WORDS: Final = Pattern(
    r"(?P<word>[besiurg](?<![\w/.-].)(?:(?<=g)lobal[_ ]?step|(?<=s)tep|(?<=i)teration|(?<=i)ter|(?<=e)poch|(?<=b)atch|"
    r"(?<=u)pdate|(?<=s)hard|(?<=s)ample|(?<=r)ound|(?<=e)pisode|(?<=i)t))s?\b"
    r"['\"]?\s{0,4}[:=#\[(]?\s{0,8}(?P<count>\d{1,15}(?:\.\d{1,9})?)"
)
_OF: Final = Pattern(r"(?P<count>\d(?<![\d./:-].)\d{0,14})\s{0,8}/\s{0,8}(?P<total>\d{2,15})(?![\d/:.])")
_LOSS: Final = Pattern(
    r"loss(?<!val[_ /]loss)(?<!eval[_ /]loss)(?<!test[_ /]loss)(?<!valid[_ /]loss)(?:_\w{1,12})?(?: ?\([^()]{1,30}\))?"
    r"['\"]?\s{0,4}[:=]?\s{0,4}[\[(]?['\"]?[-+]?\d"
)
# Throughput in a line without a counter. Inference servers beside training print theirs as long as they live.
_THROUGHPUT: Final = Pattern(r"\bperf/throughput\b|\b(?:tok(?:en)?|sample|image|img|sequence)s?/s(?:ec(?:ond)?)?\b")
_OTHERS_THROUGHPUT: Final = (
    "prompt",
    "generation",
    "running:",
    "request",
    "reqs",
    "tokeniz",
    "download",
    "eval",
    "val",
)
# Prefixes of summaries that are printed when a run is over.
_SUMMARIES: Final = ("wandb:", "COMET ")
# For lines in lower case. "number of nan iterations: 0" must not match.
_NOT_FINITE: Final = Pattern(r"(?:[:=|(\[]|loss|norm|grad)\s{0,8}['\"]?(?:tensor\(|array\()?[-+]?nan(?![\w-])")
_KINDS_LIMIT: Final = 16
"""Most kinds of lines whose counters are kept."""
_FAR: Final = 2
"""Most strides between ranks that print the same steps; a checkpoint lies further back."""
_COUNTS_LIMIT: Final = 4
"""Most counters of a line."""
_HEAD: Final = 500
"""Characters at a line's beginning that are searched."""


def has_finite_loss(text: str) -> bool:
    """Whether a line has a finite training loss, and no non-finite value."""
    lower = text[:_HEAD].lower()
    return _LOSS.search(lower) is not None and _NOT_FINITE.search(lower) is None


def _is_throughput(lower: str) -> bool:
    return _THROUGHPUT.search(lower) is not None and not any(word in lower for word in _OTHERS_THROUGHPUT)


@dataclass(eq=False, repr=False)
class ProgressCounters:
    """The latest counters of each kind of line."""

    FORM: ClassVar = Form.SPARSE

    last: dict[str, list[AnyFloat]] = field(default_factory=dict)
    """Kind of line → its counters, the least recently seen kind first. That is dropped when there are too many."""
    stride: dict[str, AnyFloat] = field(default_factory=dict)
    """Kind of line → the growth of its counters from one line to the next."""

    def __post_init__(self) -> None:
        self.last = dict(islice(self.last.items(), _KINDS_LIMIT))
        self.stride = dict(islice(self.stride.items(), _KINDS_LIMIT))

    def read(self, text: str, *, again: bool = False) -> bool:
        """Read ``text``. Returns whether it shows more progress than any line of its kind before.

        ``again`` says that a restart is possible. A count far below the last one is then where training resumed.
        """
        text = text[:_HEAD]
        if text.startswith(_SUMMARIES):
            return False
        lower = text.lower()
        kind, counts = "", []
        if "%|" in text:
            of = _OF.search(text, text.index("%|"))
            if of is not None:
                kind, counts = f"bar {of['total']}", [float(of["count"])]
        elif any(
            word in lower
            for word in (
                *("step", "iter", "epoch", "batch", "shard", "update", "sample", "round", "episode", "loss"),
                *("throughput", "/s"),
            )
        ):
            found = list(_WORDS.finditer(lower))[:_COUNTS_LIMIT]
            kind = " ".join(each["word"] for each in found)
            counts = [float(each["count"]) for each in found]
            if (of := _OF.search(text)) is not None and len(counts) < _COUNTS_LIMIT:
                kind += " of"
                counts.append(float(of["count"]))
            if not counts and (_LOSS.search(lower) is not None or _is_throughput(lower)):
                # Without a counter, different numbers mean another step.
                return self._is_another_loss(text)
        if not counts:
            return False
        last = self.last.pop(kind, None)
        self.last[kind] = counts if last is None else last
        if last is None:
            self._make_room()
            return False
        if not any(now > before for now, before in zip(counts, last, strict=False)):
            if again and last and counts[0] < last[0] - _FAR * self.stride.get(kind, 1):
                self.last[kind] = counts
            return False
        self.stride[kind] = max(abs(now - before) for now, before in zip(counts, last, strict=False))
        self.last[kind] = counts
        return True

    def _is_another_loss(self, text: str) -> bool:
        checksum = [float(sum(map(ord, text)))]
        last = self.last.pop("loss", None)
        self.last["loss"] = checksum
        self._make_room()
        return last is not None and last != checksum

    def _make_room(self) -> None:
        if len(self.last) > _KINDS_LIMIT:
            oldest = next(iter(self.last))
            del self.last[oldest]
            self.stride.pop(oldest, None)
