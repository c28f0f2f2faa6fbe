"""Alerts raised by training, with ``run.alert`` or ``lastbeat.alert``, in one small document beside the run.

Training needs no channel and no secret of one: watchers read the document, and send its alerts from their outbox.
"""

import json
from collections.abc import Sequence
from dataclasses import MISSING, replace
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    UNSTAMPED,
    WHOLE,
    document_field,
    objects,
    one_of,
    read_object,
    text_of,
    written,
)
from lastbeat.model.json_values import json_object
from lastbeat.model.text import fit, one_line

LIMIT_BYTES: Final = 256 * 1024
MOST: Final = 20
"""Number of latest alerts that are kept. With these limits the worst document has less than ``LIMIT_BYTES``."""
TITLE_LIMIT: Final = 200
TEXT_LIMIT: Final = 2000
LEVELS: Final = ("info", "warning", "error")
"""From the mildest on."""
_ID_LIMIT: Final = 40


@dataclass(frozen=True, slots=True)
class RaisedAlert:
    """One alert."""

    id: str = document_field("id", text_of(_ID_LIMIT), required=True)
    """Identifies the alert, even if the document is lost or rewritten."""
    title: str = document_field("title", text_of(TITLE_LIMIT), default=MISSING)
    text: str = document_field("text", text_of(TEXT_LIMIT), default="")
    level: str = document_field("level", one_of(LEVELS), default=LEVELS[0])
    at: str = document_field("at", text_of(_ID_LIMIT), default="")
    """When, by training's clock, as ISO 8601: for people."""
    rank: int | None = document_field("rank", WHOLE)
    attempt: int | None = document_field("attempt", WHOLE)

    @property
    def line(self) -> str:
        """All that it says, in one line."""
        said = ": ".join(part for part in (one_line(self.title), one_line(self.text)) if part)
        return f"{said} (rank {self.rank})" if self.rank else said


def encode_alerts(run_id: str, alerts: Sequence[RaisedAlert]) -> bytes:
    """The document with the latest alerts."""
    kept = (
        replace(each, title=fit(each.title, TITLE_LIMIT), text=fit(each.text, TEXT_LIMIT)) for each in alerts[-MOST:]
    )
    known = [{name: value for name, value in written(each).items() if value not in {None, ""}} for each in kept]
    return json.dumps({"run_id": run_id, "alerts": known}, ensure_ascii=False).encode("utf-8", "replace")


def read_alerts(body: bytes) -> tuple[RaisedAlert, ...]:
    """The alerts in an untrusted document, oldest first; invalid ones are left out. Never raises."""
    entries = (json_object(body) or {}).get("alerts")
    latest = objects(entries[-MOST:], MOST) if isinstance(entries, list) else []
    found = (read_object(RaisedAlert, entry, UNSTAMPED, title="") for entry in latest)
    return tuple({each.id: each for each in found if each and each.id and (each.title or each.text)}.values())
