"""Alerts raised by training, with ``run.alert`` or ``lastbeat.alert``, in one small document beside the run.

Training needs no channel and no secret of one: watchers read the document, and send its alerts from their outbox.
"""

import json
from collections.abc import Sequence
from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.numbers import whole
from lastbeat.model.text import clean, fit, one_line

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

    id: str
    """Identifies the alert, even if the document is lost or rewritten."""
    title: str
    text: str = ""
    level: str = LEVELS[0]
    at: str = ""
    """When, by training's clock, as ISO 8601: for people."""
    rank: int | None = None
    attempt: int | None = None

    @property
    def line(self) -> str:
        """All that it says, in one line."""
        said = ": ".join(part for part in (one_line(self.title), one_line(self.text)) if part)
        return f"{said} (rank {self.rank})" if self.rank else said


def encode_alerts(run_id: str, alerts: Sequence[RaisedAlert]) -> bytes:
    """The document with the latest alerts."""
    entries = [
        {
            "id": each.id,
            "at": each.at,
            "level": each.level,
            "title": fit(each.title, TITLE_LIMIT),
            "text": fit(each.text, TEXT_LIMIT),
            "rank": each.rank,
            "attempt": each.attempt,
        }
        for each in alerts[-MOST:]
    ]
    known = [{name: value for name, value in entry.items() if value not in {None, ""}} for entry in entries]
    return json.dumps({"run_id": run_id, "alerts": known}, ensure_ascii=False).encode("utf-8", "replace")


def read_alerts(body: bytes) -> tuple[RaisedAlert, ...]:
    """The alerts in an untrusted document, oldest first; invalid ones are left out. Never raises."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return ()
    entries = document.get("alerts") if isinstance(document, dict) else None
    found = [_alert(entry) for entry in entries[-MOST:]] if isinstance(entries, list) else []
    return tuple({each.id: each for each in found if each is not None}.values())


def _alert(entry: object) -> RaisedAlert | None:
    if not isinstance(entry, dict):
        return None
    name, level = _text(entry.get("id"), _ID_LIMIT), entry.get("level")
    title, text = _text(entry.get("title"), TITLE_LIMIT), _text(entry.get("text"), TEXT_LIMIT)
    if not name or not (title or text):
        return None
    level = level if isinstance(level, str) and level in LEVELS else LEVELS[0]
    at = _text(entry.get("at"), _ID_LIMIT)
    return RaisedAlert(name, title, text, level, at, whole(entry.get("rank")), whole(entry.get("attempt")))


def _text(value: object, limit: int) -> str:
    return fit(clean(value).strip(), limit) if isinstance(value, str) else ""
