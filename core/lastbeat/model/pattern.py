"""Regular expressions that cost nothing until they are searched for."""

import re
from collections.abc import Callable, Iterator
from functools import cached_property

Found = Callable[..., "re.Match[str] | None"]


class Pattern:
    """As ``re.compile`` returns it, but compiled at the first search.

    A log reader knows dozens of patterns, and a process that looks at one run once needs few of them. Compiling all
    would take longer than reading a megabyte.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text = text
        self.flags = flags

    @cached_property
    def compiled(self) -> "re.Pattern[str]":
        return re.compile(self.text, self.flags)

    # As attributes, they cost no more per call than those of ``re.Pattern``.

    @cached_property
    def search(self) -> Found:
        return self.compiled.search

    @cached_property
    def match(self) -> Found:
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Found:
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> "Callable[..., Iterator[re.Match[str]]]":
        return self.compiled.finditer

    @cached_property
    def sub(self) -> Callable[..., str]:
        return self.compiled.sub
