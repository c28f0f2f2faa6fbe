"""A real scrape of a real process, read by Prometheus' own parser."""

import math
import time
from collections.abc import Callable
from http.client import HTTPConnection

from prometheus_client.parser import text_string_to_metric_families

from support.waiting import LIMIT_S

Scraped = dict[str, float]
"""Metric and the values of its labels but the fleet's, in the order of their names: ``run_step run-1``."""


def scrape(port: int, **headers: str) -> tuple[int, str, str]:
    """Status, content type and body of ``/metrics``."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/metrics", headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def values(text: str) -> Scraped:
    """What an exposition in plain form says."""
    found: Scraped = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            labels = [value for name, value in sorted(each.labels.items()) if name != "fleet" and value]
            name = " ".join((each.name.removeprefix("lastbeat_"), *labels))
            assert name not in found, f"{name} is there twice"
            found[name] = each.value
    return found


def until(port: int, seen: Callable[[Scraped], bool], **headers: str) -> Scraped:
    """The metrics, as soon as they are as ``seen`` wants them."""
    end = time.monotonic() + LIMIT_S
    while True:
        status, _, body = scrape(port, **headers)
        assert status == 200, body
        found = values(body)
        if seen(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.05)


def is_nan(value: float | None) -> bool:
    return value is not None and math.isnan(value)
