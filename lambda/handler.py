"""``handler(event, context)``: the watchdog as an AWS Lambda function. What stays warm between two events is here."""

import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
# In the zip everything lies beside this file, where the runtime looks; in a checkout lastbeat lies in core/.
sys.path[:0] = [str(each) for each in (_HERE.parent / "core", _HERE) if each.is_dir() and str(each) not in sys.path]

from lastbeat.model.document import clean  # noqa: E402 - only now it can be found
from lastbeat_lambda import events, telling, work  # noqa: E402
from lastbeat_lambda.warm import Warm  # noqa: E402

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
