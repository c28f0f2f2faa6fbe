"""Ranks that are slow, and jobs: conditions, by what the run's own heartbeat says of its last windows. Pure."""

from collections.abc import Mapping
from typing import Final

from lastbeat.model import status as names
from lastbeat.model.cause import Warned
from lastbeat.model.observation import Heartbeat
from lastbeat.model.straggler_lines import WARNING

_NAMES: Final = (names.STRAGGLER, names.SLOW)


def slow_conditions(metadata: Heartbeat | None, known: Mapping[str, str]) -> dict[str, str]:
    """The conditions that metadata.json tells of. While it cannot be read, those ``known`` stand."""
    if metadata is None or metadata.fault is not None:
        return {name: known[name] for name in _NAMES if name in known}
    told = metadata.stragglers
    found = {} if told is None else {names.STRAGGLER: told.text, names.SLOW: told.slow_text}
    return {name: text for name, text in found.items() if text is not None}


def told_already(warning: Warned, metadata: Heartbeat | None) -> bool:
    """Whether the line of a log that warns is our own about stragglers, of which the heartbeat tells more."""
    return metadata is not None and metadata.stragglers is not None and WARNING in warning.evidence.text
