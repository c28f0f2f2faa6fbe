"""``doctor`` and ``test-alert`` on a directory and a webhook, and the help of it all."""

import json
import os
from pathlib import Path

import pytest

from lastbeat import __version__
from support.cli import LASTBEAT, MONITOR, RunFolder, call
from support.http_sink import Answer, closed_port, http_sink

SECRET = "hush-hush-hush"


def test_a_test_alert_arrives_marked_as_one(tmp_path: Path) -> None:
    with http_sink() as sink:
        done = call(LASTBEAT, "test-alert", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
        assert done.returncode == 0
        assert done.stdout.startswith("ok ")
        assert SECRET not in done.stdout + done.stderr
        again = call(LASTBEAT, "test-alert", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
    assert [channel["ok"] for channel in json.loads(again.stdout)["channels"]] == [True]
    first, second = (json.loads(request.body) for request in sink.requests)
    assert first["event"] == "TEST"
    assert first["key"] != second["key"], "a receiver that drops repeats shows both"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            Answer(status=404), "nothing takes messages at that address; check LASTBEAT_WEBHOOK_URL", id="it is gone"
        ),
        pytest.param(Answer(status=503), "it should pass; alerts wait", id="it has trouble"),
    ],
)
def test_a_test_alert_that_is_not_taken_is_told_with_its_reason(tmp_path: Path, answer: Answer, told: str) -> None:
    with http_sink() as sink:
        sink.otherwise = answer
        done = call(LASTBEAT, "test-alert", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=f"{sink.url}/{SECRET}")
    assert done.returncode == 2
    assert done.stdout.startswith("fail  webhook (127.0.0.1")
    assert done.stdout.count("webhook (") == 1
    assert told in done.stdout
    assert done.stdout.count("\n") == 1
    assert SECRET not in done.stdout + done.stderr


def test_a_test_alert_for_nobody_says_so(tmp_path: Path) -> None:
    done = call(LASTBEAT, "test-alert", cwd=tmp_path)
    assert done.returncode == 3
    assert "No channel is set up" in done.stdout
    told = json.loads(call(LASTBEAT, "test-alert", "--json", cwd=tmp_path).stdout)
    assert told == {"schema": 1, "version": __version__, "channels": [], "data": {"channels": []}, "errors": []}


def test_the_doctor_is_content_with_a_folder_and_a_channel(tmp_path: Path) -> None:
    root = RunFolder(tmp_path / "training-runs").root
    with http_sink() as sink:
        done = call(LASTBEAT, "doctor", "--root", str(root), cwd=tmp_path, LASTBEAT_WEBHOOK_URL=sink.url)
        assert not sink.requests, "it bothers nobody"
    assert done.returncode == 0, done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert [path.name for path in root.rglob("*.json") if path.parent.name == "_watchdog"] == []


def test_the_doctor_sees_that_passes_leave_no_page(tmp_path: Path) -> None:
    root = tmp_path / "training-runs"
    RunFolder(root).metadata()

    def told(minutes: str) -> list[str]:
        done = call(LASTBEAT, "doctor", "--root", str(root), "--json", cwd=tmp_path, LASTBEAT_PAGE_MINUTES=minutes)
        return [check["word"] for check in json.loads(done.stdout)["checks"] if check["name"] == "page"]

    def sweep(minutes: str) -> None:
        call(LASTBEAT, "sweep", "--once", "--root", str(root), cwd=tmp_path, LASTBEAT_PAGE_MINUTES=minutes)

    assert (told("0"), told("5")) == ([], ["ok"]), "no pass was made yet"
    sweep("0")
    assert told("5") == ["warn"]
    sweep("5")
    assert told("5") == ["ok"]
    page = root / "_watchdog" / "index.html"
    then = page.stat().st_mtime - 1000
    os.utime(page, (then, then))
    assert (told("5"), told("50")) == (["warn"], ["ok"])


def test_the_doctor_names_what_does_not_work_and_the_remedy(tmp_path: Path) -> None:
    hook = f"http://127.0.0.1:{closed_port()}/{SECRET}"
    done = call(LASTBEAT, "doctor", "--root", "nope", "--json", cwd=tmp_path, LASTBEAT_WEBHOOK_URL=hook)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr
    failed = [check for check in json.loads(done.stdout)["checks"] if check["word"] == "fail"]
    assert [check["name"] for check in failed] == ["store", "channel"]
    assert "create it" in failed[0]["remedy"]
    assert failed[1]["detail"].count("webhook (") == 1
    assert failed[1]["remedy"].startswith("check the host and port in LASTBEAT_WEBHOOK_URL")


def test_the_doctor_tells_every_fault_of_the_settings(tmp_path: Path) -> None:
    done = call(LASTBEAT, "doctor", cwd=tmp_path, STALE_MINUTES="ten", ALERT_ON="loud")
    assert done.returncode == 3
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["fail", "settings:"]] * 2


def test_the_help_of_watch_has_every_promised_option_with_defaults_codes_and_an_example(tmp_path: Path) -> None:
    done = call(MONITOR, "--help", cwd=tmp_path)
    for option in (
        "--run-id ID", "--once", "--interval SECONDS", "--stale-minutes N", "--bucket B", "--region R",
        "--root URL-OR-DIR", "--slack-webhook U", "--sns-topic ARN", "--json", "--dry-run",
        "[60]", "[10]", "Exit status", "Example:",
    ):  # fmt: skip
        assert option in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
