"""``handler(event, context)``: the watchdog as an AWS Lambda function."""

import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
# In the zip everything lies beside this file, where the runtime finds it; in a checkout lastbeat lies in core/.
sys.path[:0] = [str(each) for each in (_HERE.parent / "core", _HERE) if each.is_dir() and str(each) not in sys.path]

from lastbeat.model.document import clean  # noqa: E402 - only now it can be found
from lastbeat_lambda import events, telemetry  # noqa: E402
from lastbeat_lambda.environment import ExecutionEnvironment, TimeLimit  # noqa: E402

_environment: ExecutionEnvironment | None = None


def handler(event: Any, context: Any) -> dict[str, object]:
    """Handle the event and return a JSON object; ``docs/deploy.md`` lists the events and answers.

    Raises for wrong settings and for an unreadable secret: such an invocation watches nothing, so it must count as an
    error of the function.
    """
    global _environment  # noqa: PLW0603 - Lambda keeps the module between two events
    with telemetry.invocation(context):
        if _environment is None or _environment.outdated():
            _environment = ExecutionEnvironment.made(earlier=_environment)
        if events.is_web_request(event):
            # Masked by the page itself: this would damage its compressed bytes.
            return _environment.answer_page(event, context)
        request = events.read(event, _environment.settings.root)
        answer = _environment.answer(request, TimeLimit.of(context))
        masked: dict[str, object] = telemetry.masked(clean(answer))
        return masked
