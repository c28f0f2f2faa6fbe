"""Regular expressions that cost nothing until they are searched for."""

import re
from collections.abc import Callable, Iterator
from functools import cached_property

Found = Callable[..., "re.Match[str] | None"]


class Pattern:
    """Like what ``re.compile`` gives, which it calls when it is first asked to look for something.

    Whoever reads logs knows dozens of patterns, and a process that takes one look at a run needs few of them: to
    compile them all would take longer than to read a megabyte.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text = text
        self.flags = flags

    @cached_property
    def compiled(self) -> "re.Pattern[str]":
        return re.compile(self.text, self.flags)

    # As attributes, which cost no call more than those of ``re.Pattern``.

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
