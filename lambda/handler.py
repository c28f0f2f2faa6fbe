"""``handler(event, context)``: the watchdog as an AWS Lambda function. What stays warm between two events is here."""

from typing import Any

from lastbeat.model.document import clean
from lastbeat_lambda import events, telling, work
from lastbeat_lambda.warm import Warm

_warm: Warm | None = None


def handler(event: Any, context: Any) -> dict[str, object]:
    """Do what the event asks for and answer with a JSON object; ``docs/deploy.md`` lists the events and answers.

    Raises for wrong settings and for a secret that cannot be read: such an invocation has watched nothing, and
    counts as an error of the function.
    """
    global _warm  # noqa: PLW0603 - what Lambda keeps between two events is the module
    with telling.invocation(context):
        if _warm is None or _warm.outdated():
            _warm = Warm.made(earlier=_warm)
        answer = work.answer(events.read(event, _warm.settings.root), _warm, work.Until.of(context))
        masked: dict[str, object] = telling.masked(clean(answer))
        return masked
