"""The page of the fleet at the function's own address (a Function URL), behind the token.

The application is that of ``lastbeat dashboard``; apig-wsgi turns events into WSGI, and answers into what Lambda
expects. Where there is a token to operate, the page acts, as that of the dashboard does; so do Slack's requests where
the app's signing secret is set.
"""

import time
from typing import Any, Final

from lastbeat.settings import Settings, own_log, table
from lastbeat.stores.counting import Tally
from lastbeat.views.served.answer import Response, refusal
from lastbeat.views.served.configured import served
from lastbeat.views.served.door import Door
from lastbeat.views.served.slack import LIMIT_S

INTERVAL_S: Final = 30.0
"""Time in s between two requests of an open page, and between two reads of the bucket."""
_LEAST_S: Final = 0.2
"""Least time in s for an answer to Slack, however late its request arrived here."""


class FleetPage:
    """Answers the web requests of one execution environment, which reads the fleet when it has to answer."""

    def __init__(self, settings: Settings, asked: Tally | None = None) -> None:
        """``asked`` counts the requests to the bucket."""
        token = settings[table.DASHBOARD_TOKEN]
        self._handler = None
        self._came_at = 0.0
        if token is None:
            return
        from apig_wsgi import make_lambda_handler  # noqa: PLC0415 - only functions with a page need it

        own_log.FORMAT.redactor = settings.redactor
        door = Door(local=False, token=token.operate or None, view_token=token.view or None, encrypted=True)
        app, _ = served(
            settings, door, INTERVAL_S, asked or Tally(), metrics=_nothing, by_request=True, left_s=self._left_s
        )
        self._handler = make_lambda_handler(app)

    def answer(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """The answer, with its body in base64 if that is compressed."""
        if self._handler is None:
            # Without a token there is no door, so there is no page either.
            return {"statusCode": 404, "headers": {"content-type": "text/plain"}, "body": "There is nothing here.\n"}
        self._came_at = _came_at(event)
        answer: dict[str, Any] = self._handler(event, context)
        return answer

    def _left_s(self) -> float:
        return left_s(self._came_at, time.time())


def left_s(came_at: float, now: float) -> float:
    """Time in s for the answer to a request of Slack's, which may have waited for this environment to start. A clock
    that runs behind gives no more time, one that runs ahead leaves some."""
    return min(LIMIT_S, max(_LEAST_S, LIMIT_S - (now - came_at)))


def _came_at(event: dict[str, Any]) -> float:
    """When AWS received the request, in s since the epoch."""
    told = event["requestContext"].get("timeEpoch")
    return told / 1000 if isinstance(told, int) else time.time()


def _nothing(_accept: str) -> Response:
    return refusal("404 Not Found", "There are no metrics here.", "CloudWatch has them.", data=True)
