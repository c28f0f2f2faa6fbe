"""The result of one check: of a set-up, or of a node."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of an answer. ``warn`` means that it works, with a limitation."""

    name: str
    word: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""
