"""The settings of a sweep: see ``settings_table`` for what a parser is."""

import re
from collections.abc import Callable

from lastbeat.model.setting import Setting
from lastbeat.settings_table import number, shown


def _count(name: str, least: int, example: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < least:
            raise ValueError(f"{name}={shown(text)} is not a whole number from {least} on; use for example {example}")
        return int(text)

    return parse


def _ping(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text, re.ASCII):
        raise ValueError("LASTBEAT_PING_URL is not a web address; use for example https://hc-ping.com/your-uuid")
    return text.rstrip("/")


def _queue(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s?#@]+/[^\s?#]+", text, re.ASCII):
        raise ValueError(
            f"LASTBEAT_QUEUE_URL={shown(text)} is not a queue's address; "
            "use for example https://sqs.us-east-1.amazonaws.com/123456789012/lastbeat"
        )
    return text


def _webhook_from(text: str) -> str:
    place, _, name = text.partition(":")
    allowed = {"ssm": r"(?:arn:[\w:-]+/|/)?[\w./-]{1,1000}", "secretsmanager": r"[\w/+=.@:-]{1,2048}"}
    if place not in allowed or not re.fullmatch(allowed[place], name, re.ASCII):
        raise ValueError(
            f"LASTBEAT_SLACK_WEBHOOK_FROM={shown(text)} names no secret; "
            "use for example ssm:/lastbeat/slack-webhook or secretsmanager:lastbeat/slack-webhook"
        )
    return text


FLEET: tuple[Setting, ...] = (
    Setting(
        "LASTBEAT_INTERVAL_SECONDS",
        number("LASTBEAT_INTERVAL_SECONDS", "seconds", "60"),
        "60",
        "Seconds between two passes over the fleet.",
    ),
    Setting(
        "LASTBEAT_READ_MINUTES",
        number("LASTBEAT_READ_MINUTES", "minutes", "20"),
        "20",
        "A sweep reads heartbeats that only move on again after this many minutes at the latest; fewer cost more.",
    ),
    Setting(
        "LASTBEAT_DISCOVER_MINUTES",
        number("LASTBEAT_DISCOVER_MINUTES", "minutes", "15"),
        "15",
        "Minutes between two searches for new runs where searching in each pass costs more than watching.",
    ),
    Setting(
        "LASTBEAT_NEWS_HOURS",
        number("LASTBEAT_NEWS_HOURS", "hours", "24"),
        "24",
        "A run that a sweep first finds this many hours after it ended is history: nobody is told.",
    ),
    Setting(
        "LASTBEAT_GROUP_RUNS",
        _count("LASTBEAT_GROUP_RUNS", 2, 5),
        "5",
        "From so many runs on that time out together, one alert tells of all of them.",
    ),
    Setting(
        "LASTBEAT_GROUP_MINUTES",
        number("LASTBEAT_GROUP_MINUTES", "minutes", "5"),
        "5",
        "What times out within this many minutes is together; a group is told anew no sooner than after them.",
    ),
    Setting(
        "LASTBEAT_REPEAT_HOURS",
        number("LASTBEAT_REPEAT_HOURS", "hours", "4"),
        "",
        "A group that still is timed out is told again after this many hours; unset is off.",
    ),
    Setting(
        "LASTBEAT_FANOUT",
        _count("LASTBEAT_FANOUT", 1, 2000),
        "2000",
        "With more active runs than this the scheduled Lambda splits the fleet over LASTBEAT_QUEUE_URL.",
    ),
    Setting(
        "LASTBEAT_QUEUE_URL",
        _queue,
        "",
        "SQS queue that a large fleet is split over; unset is off.",
    ),
    Setting(
        "LASTBEAT_SLACK_WEBHOOK_FROM",
        _webhook_from,
        "",
        "Where the Lambda reads SLACK_WEBHOOK_URL: ssm:/name (Parameter Store) or secretsmanager:name-or-arn.",
    ),
    Setting(
        "LASTBEAT_PING_URL",
        _ping,
        "",
        "Address that each pass which could see pings, as healthchecks.io has them: /start, itself, /fail.",
        secret=True,
    ),
)
