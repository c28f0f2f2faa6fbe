"""The page of the fleet at the function's own address (a Function URL), behind the token.

The application is that of ``lastbeat dashboard``; apig-wsgi turns events into WSGI, and answers into what Lambda
expects. The page only shows: its function may not write.
"""

from typing import Any, Final

from lastbeat.settings import Settings, own_log, table
from lastbeat.stores.counting import Tally
from lastbeat.views.served.answer import Response, refusal
from lastbeat.views.served.configured import served
from lastbeat.views.served.door import Door

INTERVAL_S: Final = 30.0
"""Time in s between two requests of an open page, and between two reads of the bucket."""


class FleetPage:
    """Answers the web requests of one execution environment, which reads the fleet when it has to answer."""

    def __init__(self, settings: Settings) -> None:
        token = settings[table.DASHBOARD_TOKEN]
        self._handler = None
        if token is None:
            return
        from apig_wsgi import make_lambda_handler  # noqa: PLC0415 - only functions with a page need it

        own_log.FORMAT.redactor = settings.redactor
        door = Door(
            local=False, token=token.operate or None, view_token=token.view or None, encrypted=True, changes=False
        )
        app, _ = served(settings, door, INTERVAL_S, Tally(), metrics=_nothing, by_request=True)
        self._handler = make_lambda_handler(app)

    def answer(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """The answer, with its body in base64 if that is compressed."""
        if self._handler is None:
            # Without a token there is no door, so there is no page either.
            return {"statusCode": 404, "headers": {"content-type": "text/plain"}, "body": "There is nothing here.\n"}
        answer: dict[str, Any] = self._handler(event, context)
        return answer


def _nothing(_accept: str) -> Response:
    return refusal("404 Not Found", "There are no metrics here.", "CloudWatch has them.", data=True)
