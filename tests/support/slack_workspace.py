"""A small Slack: what a bot may post and edit through its API, on loopback."""

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from support.http_sink import Answer, HttpSink, Request, http_sink

CHANNEL = "C0123456789"


@dataclass
class Workspace:
    """``messages`` in the order in which they were posted, by their ``ts``. ``faults`` are answered first; an error
    word is one of Slack's own answers, None lets a call through."""

    url: str = ""
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    faults: deque[Answer | str | None] = field(default_factory=deque)
    scopes: str = "chat:write"

    @property
    def heads(self) -> list[str]:
        return [ts for ts, message in self.messages.items() if "thread_ts" not in message]

    def replies(self, head: str) -> list[dict[str, Any]]:
        return [message for message in self.messages.values() if message.get("thread_ts") == head]

    def answer(self, request: Request) -> Answer:
        method = request.path.rpartition("/")[2]
        self.calls.append(method)
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, Answer):
            return fault
        answered = {"ok": False, "error": fault} if fault else self._done(method, _arguments(request))
        return Answer(200, json.dumps(answered).encode(), {"x-oauth-scopes": self.scopes})

    def _done(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        if method == "auth.test":
            return {"ok": True, "team": "Example", "user": "lastbeat"}
        if method == "chat.update":
            if given["ts"] not in self.messages:
                return {"ok": False, "error": "message_not_found"}
            self.messages[given["ts"]].update(given)
            return {"ok": True, "channel": CHANNEL, "ts": given["ts"]}
        ts = f"1754327781.{len(self.calls):06d}"
        self.messages[ts] = given
        return {"ok": True, "channel": CHANNEL, "ts": ts}


@contextmanager
def workspace() -> Iterator[Workspace]:
    """Serve one on 127.0.0.1 while the block lasts."""
    with http_sink() as sink:
        made = Workspace(f"{sink.url}/api/")
        _answering(sink, made)
        yield made


def _answering(sink: HttpSink, made: Workspace) -> None:
    sink.answer = lambda: made.answer(sink.requests[-1])  # type: ignore[method-assign]


def _arguments(request: Request) -> dict[str, Any]:
    text = request.body.decode()
    if not text:
        return {}
    if request.headers.get("content-type", "").startswith("application/json"):
        given: dict[str, Any] = json.loads(text)
        return given
    return {name: values[0] for name, values in parse_qs(text).items()}
