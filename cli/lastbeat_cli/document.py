"""JSON output for programs: one object on one line."""

import json
from collections.abc import Callable

from lastbeat.model.document import clean


def masked(document: dict[str, object], redact: Callable[[str], str]) -> dict[str, object]:
    """``document`` with secrets masked in the fields that hold free text."""
    free = ("reason", "action")
    return {key: redact(text) if key in free and isinstance(text, str) else text for key, text in document.items()}


def masked_throughout(value: object, redact: Callable[[str], str]) -> object:
    """``value`` with secrets masked in every text except field names."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: masked_throughout(part, redact) for key, part in value.items()}
    if isinstance(value, list):
        return [masked_throughout(part, redact) for part in value]
    return value


def dump(value: object) -> str:
    """``value`` as JSON on one line, in ASCII, so that it is valid for any text."""
    return json.dumps(clean(value), allow_nan=False)
