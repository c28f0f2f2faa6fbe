"""What the demo calls a success, and how it shows a Slack message."""

import pytest
from rich.text import Text

from demo import slack
from demo.scene import Scene, Seen

SCENE = Scene("spirals", "a title", "FAILED")
GOOD = "Run spirals: FAILED"

FAULTS = [
    pytest.param(["RUNNING", "FAILED"], [GOOD], 0, id="the right verdict and one alert are a success"),
    pytest.param(["FAILED"], [GOOD], 0, id="a run that was over before the first look is one, too"),
    pytest.param(["RUNNING", "TIMED_OUT"], [GOOD], 1, id="another verdict is a fault"),
    pytest.param(["RUNNING", "TIMED_OUT", "FAILED"], [GOOD], 1, id="a wrong verdict on the way is a fault"),
    pytest.param([], [], 2, id="silence is two faults"),
    pytest.param(["RUNNING", "FAILED"], [GOOD, GOOD], 1, id="two alerts are a fault"),
    pytest.param(["RUNNING", "FAILED"], ["Run other: FAILED"], 1, id="an alert about another run is a fault"),
]


@pytest.mark.parametrize(("verdicts", "alerts", "count"), FAULTS)
def test_what_counts_as_a_success(verdicts: list[str], alerts: list[str], count: int) -> None:
    assert len(list(Seen(SCENE, verdicts, alerts).faults())) == count


MARKUP = [
    pytest.param("a *bold* word", "a bold word", id="bold"),
    pytest.param("2 &lt; 3 &amp;&amp; 4 &gt; 3", "2 < 3 && 4 > 3", id="escaped characters are only text"),
    pytest.param("see <https://example.com/a|the run>", "see the run", id="a link shows its label"),
    pytest.param("```\nlast *line* <x>\n```", "last *line* <x>", id="a code block shows what it holds"),
    pytest.param("2 * 3 * 4 = `24`", "2 * 3 * 4 = 24", id="inline code"),
]


@pytest.mark.parametrize(("text", "shown"), MARKUP)
def test_slack_markup(text: str, shown: str) -> None:
    rendered = slack.mrkdwn(text)
    assert isinstance(rendered, Text)
    assert rendered.plain == shown


def test_all_text_of_a_message_is_found() -> None:
    message = {
        "text": "fallback",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "a header"}},
            {"type": "section", "fields": [{"type": "mrkdwn", "text": "a field"}]},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "a footnote"}]},
        ],
    }
    assert slack.plain(message).splitlines() == ["fallback", "a header", "a field", "a footnote"]
