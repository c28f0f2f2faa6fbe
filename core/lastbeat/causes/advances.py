"""Whether training goes on: counters in a log's lines that grow."""

from typing import Any, Final

from lastbeat.model.pattern import Pattern

# Of a line in lower case. What must not stand before a word or a number is asked behind its first character: a pattern
# that begins with characters is found several times as fast.
_WORDS: Final = Pattern(
    r"(?P<word>[besiurg](?<![\w/.-].)(?:(?<=g)lobal[_ ]?step|(?<=s)tep|(?<=i)teration|(?<=i)ter|(?<=e)poch|(?<=b)atch|"
    r"(?<=u)pdate|(?<=s)hard|(?<=s)ample|(?<=r)ound|(?<=e)pisode|(?<=i)t))s?\b"
    r"['\"]?\s{0,4}[:=#\[(]?\s{0,8}(?P<count>\d{1,15}(?:\.\d{1,9})?)"
)
_OF: Final = Pattern(r"(?P<count>\d(?<![\d./:-].)\d{0,14})\s{0,8}/\s{0,8}(?P<total>\d{2,15})(?![\d/:.])")
_LOSS: Final = Pattern(
    r"loss(?<!val[_ /]loss)(?<!eval[_ /]loss)(?<!test[_ /]loss)(?<!valid[_ /]loss)(?:_\w{1,12})?"
    r"['\"]?\s{0,4}[:=]?\s{0,4}['\"]?[-+]?\d"
)
# Who sums up what was measured, when a run is over.
_SUMMARIES: Final = ("wandb:", "COMET ")
# In lower case. "number of nan iterations: 0" is none.
_NO_NUMBER: Final = Pattern(r"(?:[:=|(]|loss|norm|grad)\s{0,8}['\"]?(?:tensor\()?[-+]?nan")
_MOST_KINDS: Final = 16
_FAR: Final = 2
"""Ranks that print the same steps are no more than so many lines apart; a checkpoint lies further back."""
_MOST_COUNTS: Final = 4
_HEAD: Final = 500


def has_finite_loss(text: str) -> bool:
    """Whether a line states a training loss that is a number, and no value that is none."""
    lower = text[:_HEAD].lower()
    return _LOSS.search(lower) is not None and _NO_NUMBER.search(lower) is None


class Advances:
    """The counters that lines of each kind showed last."""

    def __init__(self) -> None:
        self._last: dict[str, list[float]] = {}
        """The kind that was not seen for the longest time comes first: it makes way where there are too many."""
        self._stride: dict[str, float] = {}
        """How far they went from one line to the next."""

    def read(self, text: str, *, again: bool = False) -> bool:
        """Whether ``text`` shows that training is further than any line of this kind showed before. ``again``: a
        restart is possible, after which it counts from where the checkpoint is."""
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
            for word in ("step", "iter", "epoch", "batch", "shard", "update", "sample", "round", "episode", "loss")
        ):
            found = list(_WORDS.finditer(lower))[:_MOST_COUNTS]
            kind = " ".join(each["word"] for each in found)
            counts = [float(each["count"]) for each in found]
            if (of := _OF.search(text)) is not None and len(counts) < _MOST_COUNTS:
                kind += " of"
                counts.append(float(of["count"]))
            if not counts and _LOSS.search(lower) is not None:
                # Nothing to count by: another number is another step.
                return self._other(text)
        if not counts:
            return False
        last = self._last.pop(kind, None)
        self._last[kind] = counts if last is None else last
        if last is None:
            self._make_room()
            return False
        if not any(now > before for now, before in zip(counts, last, strict=False)):
            if again and counts[0] < last[0] - _FAR * self._stride.get(kind, 1):
                self._last[kind] = counts
            return False
        self._stride[kind] = max(abs(now - before) for now, before in zip(counts, last, strict=False))
        self._last[kind] = counts
        return True

    def _other(self, text: str) -> bool:
        seen = float(sum(map(ord, text)))
        last = self._last.pop("loss", None)
        self._last["loss"] = [seen]
        self._make_room()
        return last is not None and last != [seen]

    def _make_room(self) -> None:
        if len(self._last) > _MOST_KINDS:
            oldest = next(iter(self._last))
            del self._last[oldest]
            self._stride.pop(oldest, None)

    def state(self) -> dict[str, Any]:
        return {"last": self._last, "stride": self._stride}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> "Advances":
        advances = cls()
        advances._last = {
            str(kind): [float(each) for each in counts] for kind, counts in list(state["last"].items())[:_MOST_KINDS]
        }
        advances._stride = {str(kind): float(each) for kind, each in list(state["stride"].items())[:_MOST_KINDS]}
        return advances
