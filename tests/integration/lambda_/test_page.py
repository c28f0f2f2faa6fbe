"""The page of the fleet as the function leaves it in the bucket."""

import base64
import gzip
import json
import re
from typing import Any

from integration.lambda_.conftest import PREFIX, SCHEDULE, Deployed, message

KEY = f"{PREFIX}/_watchdog/index.html"


def page(deployed: Deployed) -> tuple[dict[str, Any], dict[str, Any]]:
    """What S3 says of the page, and what it has in it."""
    answer = deployed.s3.get_object(Bucket=deployed.bucket, Key=KEY)
    found = re.search(rb'id="data">([A-Za-z0-9+/=]+)</script>', answer["Body"].read())
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return answer, data


def names(deployed: Deployed) -> list[str]:
    listed = deployed.s3.list_objects_v2(Bucket=deployed.bucket, Prefix=f"{PREFIX}/_watchdog/")
    return [each["Key"].rpartition("/")[2] for each in listed.get("Contents", ())]


def test_a_pass_leaves_a_page_and_cold_ones_leave_it_alone_until_it_is_time(deployed: Deployed) -> None:
    deployed.beat("lives")
    deployed.put("fails", "_error", "ValueError: boom")
    deployed.start().invoke(SCHEDULE)
    assert "index.html" not in names(deployed), "nobody gets a page that was not asked for"
    first = deployed.start(LASTBEAT_PAGE_MINUTES="5").invoke(SCHEDULE)
    told, data = page(deployed)
    assert (told["ContentType"], told["CacheControl"]) == ("text/html; charset=utf-8", "no-cache")
    assert [(row["run_id"], row["status"]) for row in data["fleet"]["runs"]] == [
        ("fails", "FAILED"),
        ("lives", "RUNNING"),
    ]
    assert list(data["runs"]) == ["fails", "lives"]
    assert (data["fleet"]["live"], data["fleet"]["interval_s"]) == (False, 300)
    assert first["notes"] == []
    second = deployed.start(LASTBEAT_PAGE_MINUTES="5").invoke(SCHEDULE)
    assert page(deployed)[0]["LastModified"] == told["LastModified"]
    assert second["requests"]["LIST"] < first["requests"]["LIST"]


def test_of_a_split_fleet_the_first_part_alone_leaves_the_page_of_all_of_it(deployed: Deployed) -> None:
    for name in ("a", "b", "c"):
        deployed.beat(name)
    running = deployed.start(LASTBEAT_PAGE_MINUTES="5")
    running.invoke({"Records": [message("1", {"sweep": {"after": "a", "until": "b"}})]})
    running.invoke({"Records": [message("2", {"sweep": {"after": "b", "until": ""}})]})
    assert "index.html" not in names(deployed)
    running.invoke({"Records": [message("3", {"sweep": {"after": "", "until": "a"}})]})
    assert {row["run_id"] for row in page(deployed)[1]["fleet"]["runs"]} == {"a", "b", "c"}
