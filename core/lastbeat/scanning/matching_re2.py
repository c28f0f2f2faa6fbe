"""Google's RE2, where ``google-re2`` is installed: all texts are looked for at once, in one walk over the lines."""

from collections.abc import Collection, Iterator
from typing import Final

try:
    import re2
except ImportError:
    re2 = None

AVAILABLE: Final = re2 is not None
_MEMORY: Final = 64 << 20


class Scanner:
    """Two automata for a set of texts: one finds where any of them is, the other tells which of them a line has."""

    def __init__(self, texts: Collection[str]) -> None:
        options = re2.Options()
        options.max_mem = _MEMORY
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = True
        options.log_errors = False
        self._texts = sorted(texts)
        self._any = re2.compile("|".join(map(re2.escape, self._texts)).encode() or rb"[^\x00-\xff]", options)
        options.literal = True
        self._each = re2.Set.SearchSet(options)
        for text in self._texts:
            self._each.Add(text.encode())
        self._each.Compile()

    def lines(self, text: bytes) -> Iterator[tuple[int, list[str]]]:
        """Indices of the lines that hold some of the texts, ascending, and which."""
        index, counted, place = 0, 0, 0
        while (found := self._any.search(text, place)) is not None:
            begin = found.start()
            index += text.count(b"\n", counted, begin)
            counted = begin
            start, place = text.rfind(b"\n", 0, begin) + 1, text.find(b"\n", begin)
            line = text[start:] if place < 0 else text[start:place]
            yield index, [self._texts[each] for each in self._each.Match(line)]
            if place < 0:
                return
