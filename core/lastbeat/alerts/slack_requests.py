"""Requests of Slack's: whether Slack signed them, and what a slash command asks for. Pure.

Slack signs ``v0:TIME:BODY`` with the app's signing secret, and sends time and signature as headers.
"""

import hashlib
import hmac
from typing import Final
from urllib.parse import parse_qs

from lastbeat.model.data import dataclass
from lastbeat.model.text import fit, one_line

AGE_S: Final = 300.0
"""Oldest request that is answered, in seconds; it may be as far in the future."""
_FIELDS: Final = 30
_WORDS: Final = 500
"""Longest text of a command, in characters."""


class NotSlackError(ValueError):
    """Slack did not send the request, or not just now; ``str()`` says how that shows."""


@dataclass(frozen=True, slots=True)
class SlackCommand:
    """``/lastbeat WORDS``."""

    words: tuple[str, ...]
    by: str
    """The user, for records."""
    channels: frozenset[str]
    """Id and name of the channel in which it was typed."""
    key: str
    """The same for the same request, and for no other."""


def verified(secret: str, timestamp: str, signature: str, body: bytes, now_s: float) -> SlackCommand:
    """The command in a request that Slack has signed. ``now_s`` is this machine's time. Raises
    :class:`NotSlackError`."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise NotSlackError("it does not say when it was sent")
    signed = hmac.new(secret.encode(), b"v0:%b:%b" % (timestamp.encode(), body), "sha256").hexdigest()
    if not secret or not hmac.compare_digest(f"v0={signed}".encode(), signature.encode("utf-8", "replace")):
        raise NotSlackError("its signature is wrong")
    if abs(now_s - int(timestamp)) > AGE_S:
        raise NotSlackError(f"it was sent more than {AGE_S / 60:g} minutes ago, or this machine's clock is wrong")
    try:
        form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=_FIELDS)
    except ValueError:
        raise NotSlackError("it has too many fields") from None
    given = {name: one_line(values[0])[:_WORDS] for name, values in form.items()}
    user = fit(given.get("user_name") or given.get("user_id") or "somebody", 60)
    channels = frozenset(filter(None, (given.get("channel_id"), given.get("channel_name"))))
    key = hashlib.sha256(signature.encode()).hexdigest()[:32]
    return SlackCommand(tuple(given.get("text", "").split()), f"{user}, in Slack", channels, key)
