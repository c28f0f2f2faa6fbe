"""Fills in the names in braces in a job's arguments: ``{resume_from}``, ``{attempt}``. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

CHECKPOINT: Final = ("resume_from", "resume_step")
"""Names that have no value without a checkpoint."""


def filled(arguments: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments with their values. Where there is no checkpoint, what wants one is left out:
    ``--load={resume_from}``, and ``--load {resume_from}`` with its option. In any other text it becomes nothing."""
    missing = [f"{{{name}}}" for name in CHECKPOINT if name not in values]
    found: list[str] = []
    for each in arguments:
        wanted = next((name for name in missing if name in each), None)
        if wanted is None:
            found.append(fill(each, values))
        elif each == wanted:
            if len(found) > 1 and found[-1].startswith("-") and "=" not in found[-1]:
                found.pop()
        elif not (each.startswith("-") and each.endswith(f"={wanted}")):
            found.append(fill_all(each, values))
    return tuple(found)


def fill(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its values filled in. A name without a value stays as it is."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def fill_all(text: str, values: Mapping[str, str]) -> str:
    """``text`` with its values filled in. Names of a missing checkpoint become empty."""
    return fill(text, {**dict.fromkeys(CHECKPOINT, ""), **values})
