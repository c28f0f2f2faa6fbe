"""The two doors to the page and to what Slack asks, in process: the dashboard's application, and the function at its
address."""

import hashlib
import hmac
import io
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from lastbeat import settings
from lastbeat.alerts.slack_blocks import head
from lastbeat.model.alert import Message
from lastbeat.stores.counting import Tally
from lastbeat.views.served.answer import Response, refusal
from lastbeat.views.served.configured import served
from lastbeat.views.served.door import Door
from lastbeat_lambda.fleet_page import FleetPage
from support.dashboard_app import ask
from support.web_events import content, web

OPERATE: Final = "a-token-that-may-operate"
VIEW: Final = "a-token-that-only-views"
SECRET: Final = "8f742231b10e8888abcd99baac85a5aa"
CHANNEL: Final = "C0123456789"
ENVIRON: Final = {
    "LASTBEAT_DASHBOARD_TOKEN": f"operate:{OPERATE} view:{VIEW}",
    "SLACK_BOT_TOKEN": f"xoxb-123456789012-123456789012-abcdefABCDEF {SECRET}",
    "SLACK_CHANNEL": CHANNEL,
}
HOST: Final = "abc.lambda-url.us-east-1.on.aws"
PAGE: Final = {"content_type": "application/json", "x_lastbeat": "page", "sec_fetch_site": "same-origin"}
"""The headers of a change that the page sends."""


@dataclass
class Told:
    """An answer of either door."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Served:
    """One door to the fleet at ``root``, opened as ``environ`` says."""

    def __init__(self, kind: str, root: Path, environ: dict[str, str] | None = None) -> None:
        known = settings.load(environ={"MONITORING_ROOT": str(root), **(environ or ENVIRON)}, directory=root)
        self.asked = Tally()
        if kind == "function":
            self._page: FleetPage | None = FleetPage(known, self.asked)
            return
        self._page = None
        tokens = known[settings.table.DASHBOARD_TOKEN]
        assert tokens is not None
        door = Door(local=False, token=tokens.operate or None, view_token=tokens.view or None)
        self._app, _ = served(known, door, 30.0, self.asked, metrics=_none)

    def ask(self, path: str, query: str = "", *, method: str = "GET", body: str = "", **headers: str) -> Told:
        if self._page is not None:
            got = self._page.answer(web(path, query, method=method, body=body, **headers), None)
            return Told(got["statusCode"], got["headers"] | {"set-cookie": "".join(got["cookies"])}, content(got))
        environ = {
            "HTTP_HOST": HOST,
            "REMOTE_ADDR": "192.0.2.7",
            "CONTENT_LENGTH": str(len(body.encode())),
            "CONTENT_TYPE": headers.pop("content_type", ""),
            "wsgi.input": io.BytesIO(body.encode()),
        }
        got_here = ask(self._app, path, query, method, environ, **headers)
        named = {name.lower(): value for name, value in got_here.headers.items()}
        return Told(got_here.status, named, got_here.content.decode())

    def cookie(self, token: str = OPERATE) -> str:
        return self.ask("/", f"token={token}").headers["set-cookie"].partition(";")[0]

    def change(self, token: str = OPERATE, /, **asked: object) -> Told:
        """What becomes of a change that the page sends, in a browser that ``token`` let in."""
        return self.ask("/api/changes", method="POST", body=json.dumps(asked), cookie=self.cookie(token), **PAGE)

    def slack(self, text: str, *, at: float | None = None, secret: str = SECRET) -> Told:
        """The answer to ``/lastbeat TEXT``."""
        form = {"command": "/lastbeat", "text": text, "user_name": "ana", "channel_id": CHANNEL}
        body, headers = slack_request(form, at=at, secret=secret)
        return self.ask("/slack", method="POST", body=body, **headers)

    def press(self, action: str, value: str, *, at: float | None = None) -> Told:
        """The answer to a press of a button of an alert."""
        body, headers = slack_request({"payload": json.dumps(pressed(action, value))}, at=at)
        return self.ask("/slack", method="POST", body=body, **headers)


def slack_request(
    form: dict[str, str], *, at: float | str | None = None, secret: str = SECRET
) -> tuple[str, dict[str, str]]:
    """Body and headers of a request that Slack sends now, or at ``at``."""
    body, when = urlencode(form), at if isinstance(at, str) else str(int(at or time.time()))
    signed = hmac.new(secret.encode(), f"v0:{when}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"x_slack_request_timestamp": when, "x_slack_signature": f"v0={signed}"}
    return body, headers | {"content_type": "application/x-www-form-urlencoded"}


def pressed(action: str, value: str, message: Message | None = None, **changed: Any) -> dict[str, Any]:
    """What Slack sends of a press of the button ``action``, but for what is ``changed`` of it."""
    shown = head(message, buttons=True)["blocks"] if message is not None else []
    return {
        "type": "block_actions",
        "user": {"id": "U1", "username": "ana"},
        "channel": {"id": CHANNEL, "name": "privategroup"},
        "response_url": "https://hooks.slack.com/actions/T1/2/x",
        "message": {"text": "FAILED", "blocks": shown},
        "actions": [{"action_id": f"lastbeat-{action}", "value": value}],
        **changed,
    }


def _none(_accept: str) -> Response:
    return refusal("404 Not Found", "There are no metrics here.", data=True)
