"""Requests of Slack's: whether Slack signed them, and what a slash command or a button asks for. Pure.

Slack signs ``v0:TIME:BODY`` with the app's signing secret, and sends time and signature as headers.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from lastbeat.model.data import dataclass
from lastbeat.model.text import fit, one_line

AGE_S: Final = 300.0
"""Oldest request that is answered, in seconds; it may be as far in the future."""
_FIELDS: Final = 30
_BLOCKS: Final = 49
"""Slack takes 50 blocks."""
_HOOK: Final = re.compile(r"https://hooks\.slack(?:-gov)?\.com/[\x21-\x7e]{1,500}")
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


@dataclass(frozen=True, slots=True)
class SlackPress(SlackCommand):
    """A button of an alert was pressed. Its words are the action, the run, its attempt and its status."""

    answer_to: str
    """Where the message can be updated."""
    message: Mapping[str, Any]
    """The message with the button."""

    def updated(self, said: str) -> dict[str, object]:
        """The message without the button, and with what was done."""
        blocks: list[dict[str, Any]] = []
        for block in self.message["blocks"]:
            if block.get("type") == "actions":
                kept = [each for each in block["elements"] if each.get("action_id") != f"lastbeat-{self.words[0]}"]
                block = {**block, "elements": kept} if kept else None  # noqa: PLW2901 - the same block
            blocks += [block] if block is not None else []
        done = {"type": "context", "elements": [{"type": "plain_text", "text": said, "emoji": False}]}
        text = str(self.message.get("text") or said)
        return {"replace_original": True, "text": text, "blocks": [*blocks[:_BLOCKS], done]}


def verified(secret: str, timestamp: str, signature: str, body: bytes, now_s: float) -> SlackCommand:
    """The command, or the press of a button, in a request that Slack has signed. ``now_s`` is this machine's time.

    Raises :class:`NotSlackError`."""
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
    key = hashlib.sha256(signature.encode()).hexdigest()[:32]
    if "payload" in form:
        return _press(form["payload"][0], key)
    given = {name: one_line(values[0])[:_WORDS] for name, values in form.items()}
    user = fit(given.get("user_name") or given.get("user_id") or "a member", 60)
    channels = frozenset(filter(None, (given.get("channel_id"), given.get("channel_name"))))
    return SlackCommand(tuple(given.get("text", "").split()), f"{user}, in Slack", channels, key)


def _press(payload: str, key: str) -> SlackPress:
    """The press in Slack's document. Raises :class:`NotSlackError` if it is none."""
    try:
        given = json.loads(payload)
        (action,) = given["actions"]
        name, message = str(action["action_id"]), given["message"]
        words = (name.removeprefix("lastbeat-"), *str(action["value"])[:_WORDS].split())
        user = str(given["user"].get("username") or given["user"]["id"])
        channels = frozenset(str(given["channel"][each]) for each in ("id", "name") if each in given["channel"])
        answer_to = str(given["response_url"])
        whole = all(isinstance(each, dict) for each in message["blocks"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NotSlackError("it is no press of a button") from None
    if not (name.startswith("lastbeat-") and whole and _HOOK.fullmatch(answer_to)):
        raise NotSlackError("it is no press of a button of lastbeat's")
    return SlackPress(words, f"{fit(one_line(user), 60)}, in Slack", channels, key, answer_to, message)
