"""Single numbers in the lines that training programs print: loss, learning rate, epoch, step, throughput.

All functions take a line in lower case. A word is looked for first, and the patterns only where it stands: most lines
are long, and a pattern that is tried at each character of them costs ten times as much. No pattern has an unbounded
repeat inside another.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lastbeat.model.pattern import Pattern

if TYPE_CHECKING:
    import re

_IS: Final = r"['\"]?\s{0,8}[:=]?\s{0,8}['\"]?"
_NUMBER: Final = r"([-+]?(?:\d{1,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?|\.\d{1,20}|nan|inf(?:inity)?))(?![\w%])"
_OF: Final = r"(?:\s{0,8}(?:/|of)\s{0,8}(\d{1,15}))"
_TRIES: Final = 8
_AHEAD: Final = 32
"""Characters before a unit in which its number begins."""


def _after(prefixes: Sequence[str], word: str) -> str:
    """``word`` where a word begins, or behind one of ``prefixes`` that begins there. To be matched where it stands."""
    places = [r"(?<![\w/.-])", *(rf"(?<=[^\w/.-]{prefix})|(?<=\A{prefix})" for prefix in prefixes)]
    return f"(?:{'|'.join(places)}){word}"


_WHOSE_LOSS: Final = (
    *("train_", "train/", "training_", "training/", "lm_", "step_", "total_", "reduced_train_", "train_lm_"),
    *("crossentropy", "train/crossentropy"),
)
# Not the loss of an evaluation, nor one part of a loss.
_LOSS: Final = Pattern(
    r"(?<!val )(?<!valid )(?<!validation )(?<!eval )(?<!test )"
    + _after(
        _WHOSE_LOSS,
        rf"loss(?:_step|_epoch|/train/total)?(?: train)?{_IS}{_NUMBER}",
    )
)
_RATE: Final = Pattern(_after(["train/", "optim/"], rf"(?:learning[ _]rate|lr){_IS}\[?{_NUMBER}"))
_EPOCH: Final = Pattern(_after([], rf"epoch(?:\(train\))?{_IS}\[?\s{{0,8}}{_NUMBER}"))
_STEP: Final = Pattern(
    _after(
        ["global_"],
        rf"(?:num_updates|step|iter(?:ation)?)(?:\(train\))?['\"]?\s{{0,8}}[:=#]?\s{{0,8}}['\"]?\[?\s{{0,8}}"
        rf"(\d{{1,15}})(?![\d.]*\.?\d|[a-z%]){_OF}?",
    )
)
# Where neither step nor iteration is named: "[  50/1251]" of timm, mmcv, torchvision and their like.
_COUNT: Final = Pattern(r"\[\s{0,8}(\d{1,12})/(\d{1,12})(?=[\]\s(])")

# What to look for, the pattern that begins there, its unit, and whether the number is seconds a step. A line that
# tells several is read by the first: one program's lines stay comparable.
_SPEEDS: Final = (
    ("per gpu (tflop/s/gpu):", Pattern(rf"per gpu \(tflop/s/gpu\):\s{{0,8}}{_NUMBER}"), "TFLOP/s/GPU", 0.0),
    ("elapsed time per iteration (ms):", Pattern(rf"elapsed .{{18}} \(ms\):\s{{0,8}}{_NUMBER}"), "it/s", 1000.0),
    ("tokens/s/device:", Pattern(rf"tokens/s/device:\s{{0,8}}{_NUMBER}"), "tokens/s/device", 0.0),
    ("tps:", Pattern(r"tps:\s{0,8}(\d{1,3}(?:,\d{3}){0,6}(?:\.\d{1,9})?|\d{1,15}(?:\.\d{1,9})?)"), "tokens/s", 0.0),
    ("tokens_per_second=", Pattern(r"tokens_per_second=(\d{1,3}(?:,\d{3}){0,6}(?:\.\d{1,9})?)"), "tokens/s", 0.0),
    ("currsamplespersec=", Pattern(rf"currsamplespersec={_NUMBER}"), "samples/s", 0.0),
    ("samples_per_second", Pattern(rf"samples_per_second{_IS}{_NUMBER}"), "samples/s", 0.0),
    ("samples/s", Pattern(rf"samples/s(?:ec)?{_IS}{_NUMBER}"), "samples/s", 0.0),
    ("perf/throughput:", Pattern(rf"perf/throughput:\s{{0,8}}{_NUMBER}"), "tokens/s/GPU", 0.0),
    ("tokens/s", Pattern(rf"tokens/s(?:ec(?:ond)?)?{_IS}{_NUMBER}"), "tokens/s", 0.0),
    ("tokens_per_sec", Pattern(rf"tokens_per_sec(?:ond)?{_IS}{_NUMBER}"), "tokens/s", 0.0),
    ("throughput (samples", Pattern(rf"throughput \(samples\w{{0,12}}/s\w{{0,6}}\){_IS}{_NUMBER}"), "samples/s", 0.0),
    ("train_step_timing in s:", Pattern(rf"train_step_timing in s:\s{{0,8}}{_NUMBER}"), "it/s", 1.0),
    ("time", Pattern(r"time:?\s{0,8}(\d{1,12}(?:\.\d{1,12})?) ?ms\b"), "it/s", 1000.0),
)
# The number before its unit: "24264.35 samples/sec".
_BEFORE_UNIT: Final = Pattern(
    r"(?<![\d.])(\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?|\d{1,15}(?:\.\d{1,9})?) ?(tok(?:en)?|sample)s?/s(?:ec(?:ond)?)?\b"
)
_UNITS: Final = {"tok": "tokens/s", "token": "tokens/s", "sample": "samples/s"}
_BAR_SPEED: Final = Pattern(r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?)(it/s|s/it)\b")


def _first(pattern: Pattern, lower: str, word: str, ahead: int = 0) -> "re.Match[str] | None":
    """The first match of ``pattern`` that begins ``ahead`` characters into one of the first places of ``word``."""
    at = lower.find(word)
    for _ in range(_TRIES):
        if at < 0:
            return None
        found = pattern.match(lower, at + ahead)
        if found is not None:
            return found
        at = lower.find(word, at + 1)
    return None


def loss(lower: str) -> "re.Match[str] | None":
    """Training's loss: its value is group 1."""
    return _first(_LOSS, lower, "loss")


def rate(lower: str) -> "re.Match[str] | None":
    """The learning rate: its value is group 1."""
    return _first(_RATE, lower, "learning") or _first(_RATE, lower, "lr")


def epoch(lower: str) -> "re.Match[str] | None":
    """The epoch: its value is group 1."""
    return _first(_EPOCH, lower, "epoch")


def step(lower: str) -> "re.Match[str] | None":
    """The step in group 1, of how many in group 2; one that counts over all epochs outranks."""
    return (
        _first(_STEP, lower, "global_step", len("global_"))
        or _first(_STEP, lower, "num_updates")
        or _first(_STEP, lower, "step")
        or _first(_STEP, lower, "iter")
    )


def count(lower: str, start: int) -> "re.Match[str] | None":
    """``[50/1251]`` from ``start`` on."""
    return _COUNT.search(lower, start)


def throughput(lower: str) -> tuple[float, str] | None:
    """How fast training is, and in what unit."""
    for word, pattern, unit, seconds in _SPEEDS:
        at = lower.find(word)
        if at < 0:
            continue
        found = pattern.search(lower, at)
        if found is not None:
            return _speed(float(found[1].replace(",", "")), unit, seconds)
    for word in ("tok/s", "toks/s", "tokens/s", "samples/s"):
        at = lower.find(word)
        found = _BEFORE_UNIT.search(lower, max(0, at - _AHEAD)) if at >= 0 else None
        if found is not None:
            return _speed(float(found[1].replace(",", "")), _UNITS[found[2]], 0.0)
    return None


def bar_throughput(behind: str) -> tuple[float, str] | None:
    """The same of what a bar shows behind it."""
    found = _BAR_SPEED.search(behind)
    if found is None:
        return None
    return _speed(float(found[1]), "it/s", 0.0 if found[2] == "it/s" else 1.0)


def _speed(value: float, unit: str, seconds: float) -> tuple[float, str] | None:
    """``seconds``: what ``value`` divides where it is the time of a step."""
    if not 0 < value < float("inf"):
        return None
    return (seconds / value if seconds else value), unit
