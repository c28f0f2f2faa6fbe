"""A dashboard of Ray's that is not there, is something else, or answers what none should: over real HTTP."""

import json
import socket
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lastbeat.alerts.weburl import HttpTimeouts
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError, NotLaunchedError, TooLongError
from lastbeat.jobs.launchers.ray import jobs as ray_jobs
from lastbeat.jobs.launchers.ray import launcher as ray
from lastbeat.jobs.launchers.ray.jobs import RayJobs
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.model.job import GpuUse, JobSpec, JobState
from support.http_sink import Answer, HttpSink, http_sink
from support.row_by_row import labelled
from support.waiting import LIMIT_S

SINCE = datetime(2026, 5, 14, tzinfo=timezone.utc)
LIMITS = HttpTimeouts(connect_s=2.0, read_s=0.5, total_s=1.0)
SPEC = JobSpec(("python", "train.py"), "")
SESSION = "session_2026-11-23_02-02-32_498636_21537"
OLDER = "session_2026-11-22_23-59-59_000001_7"
YOUNGER = "session_2026-11-23_02-02-33_000000_7"
JOB = f"llama-r0-0123456789@{SESSION}"
NOT_THERE = Answer(404, b"Job llama-r0-0123456789 does not exist")
PAGE = b"<!DOCTYPE html><html><title>Sign in</title>"


@pytest.fixture
def sink() -> Iterator[HttpSink]:
    with http_sink() as found:
        yield found


def asking(url: str, **environment: str) -> RayLauncher:
    return RayLauncher(RayJobs(ray_jobs.address(url, "--ray-address"), environment, LIMITS))


def told(**fields: Any) -> Answer:
    return Answer(200, json.dumps(fields).encode())


def version(session: str) -> Answer:
    return told(version="4", ray_version="2.60.0", session_name=session)


NO_ANSWERS = [
    ("a redirect to a login", Answer(302, b"", {"Location": "https://login.example/"}), "answered 302"),
    ("the page of a login", Answer(200, PAGE), "no JSON"),
    ("a server that is no dashboard", Answer(404, b"404: Not Found"), "answered 404"),
    ("a token is missing", Answer(401, b"Unauthorized: Missing authentication token"), "RAY_AUTH_TOKEN"),
    ("a proxy forbids it", Answer(403, b"no"), "RAY_JOB_HEADERS"),
    ("an error of Ray's", Answer(500, b"Traceback:\nValueError: \x1b[31mred\nlast"), "answered 500: last"),
    ("JSON of another kind", Answer(200, b"[1]"), "not answer as Ray does"),
    ("JSON without a bottom", Answer(200, b"{" * 100_000), "no JSON"),
    ("a connection that breaks", Answer(reset=True), "broke"),
    ("an answer that never begins", Answer(trickle=True), "within 1 s"),
    ("an answer that never ends", Answer(endless=True), ""),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), labelled(NO_ANSWERS))
def test_nothing_follows_from(sink: HttpSink, answer: Answer, why: str) -> None:
    sink.otherwise = answer
    launcher = asking(sink.url)
    report = launcher.state(JOB)
    assert report.state is JobState.UNKNOWN
    assert why in report.reason
    assert report.reason.isprintable()
    with pytest.raises(LauncherError):
        launcher.output(JOB, 1000)
    with pytest.raises(LauncherError) as fault:
        launcher.submit(SPEC, "llama-r0", SINCE)
    assert len(fault.value.told) < 1000


def test_a_dashboard_that_is_not_there_is_unknown_and_what_was_not_sent_was_not_launched() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        report = asking(url).state(JOB)
        assert (report.state, "refused" in report.reason, url in report.reason) == (JobState.UNKNOWN, True, True)
        with pytest.raises(NotLaunchedError, match="refused"):
            RayJobs(ray_jobs.address(url, ""), {}, LIMITS).submit({})


SUBMISSIONS = [
    pytest.param(Answer(400, b"TypeError: entrypoint must be a string"), JobRefusedError, id="what Ray refuses"),
    pytest.param(Answer(401, b""), NotLaunchedError, id="nobody was let in"),
    pytest.param(Answer(500, b"No available agent to submit job"), LauncherError, id="an error on the way"),
    pytest.param(Answer(reset=True), LauncherError, id="the answer is lost"),
    pytest.param(Answer(delay_s=3.0), LauncherError, id="there is no answer in time"),
    pytest.param(Answer(200, b"ok"), LauncherError, id="an answer that says nothing"),
]


@pytest.mark.parametrize(("answer", "kind"), SUBMISSIONS)
def test_whether_a_job_was_submitted(sink: HttpSink, answer: Answer, kind: type[LauncherError]) -> None:
    sink.otherwise = answer
    with pytest.raises(LauncherError) as fault:
        RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS).submit({"entrypoint": "true"})
    assert type(fault.value) is kind


def test_a_job_that_its_own_session_does_not_know_is_gone(sink: HttpSink) -> None:
    sink.script.extend([NOT_THERE, version(SESSION)])
    assert asking(sink.url).state(JOB).state is JobState.GONE


def test_what_a_younger_session_does_not_know_is_unknown_for_ten_minutes_and_then_gone(sink: HttpSink) -> None:
    now = [1000.0]
    launcher = RayLauncher(RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS), clock=lambda: now[0])
    for at, state in ((0.0, "UNKNOWN"), (300.0, "UNKNOWN"), (599.0, "UNKNOWN"), (600.0, "GONE")):
        now[0] = 1000.0 + at
        sink.script.extend([NOT_THERE, version(YOUNGER)])
        report = launcher.state(JOB)
        assert report.state.value == state
        assert "started again without its history" in report.reason


def test_what_an_older_cluster_does_not_know_is_another_ones_for_ever(sink: HttpSink) -> None:
    now = [0.0]
    launcher = RayLauncher(RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS), clock=lambda: now[0])
    for _ in range(3):
        now[0] += ray.LATE_S
        sink.script.extend([NOT_THERE, version(OLDER)])
        report = launcher.state(JOB)
        assert (report.state, "another cluster answers" in report.reason) == (JobState.UNKNOWN, True)


def test_after_a_cluster_was_started_again_nobody_knows_for_ten_minutes_what_it_ran(sink: HttpSink) -> None:
    now = [0.0]
    launcher = RayLauncher(RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS), clock=lambda: now[0])
    nothing = Answer(200, b"[]")
    sink.script.extend([version(SESSION), NOT_THERE, nothing])
    assert launcher.find("llama-r1", SINCE) is None
    sink.script.extend([version(YOUNGER), NOT_THERE, nothing])
    with pytest.raises(LauncherError, match="was started again"):
        launcher.find("llama-r1", SINCE)
    now[0] = ray.LATE_S
    sink.script.extend([version(YOUNGER), NOT_THERE, nothing])
    assert launcher.find("llama-r1", SINCE) is None


def test_a_job_is_found_by_its_name_whatever_its_id_is(sink: HttpSink) -> None:
    at = SINCE + timedelta(hours=1)
    rows: list[dict[str, object]] = [
        {"submission_id": "other", "metadata": {"lastbeat_name": "llama-r1"}, "start_time": at.timestamp() * 1000},
        {"submission_id": "older", "metadata": {"lastbeat_name": "llama-r0"}, "start_time": 1},
        {"submission_id": None, "metadata": None, "start_time": None},
        {"submission_id": "mine", "metadata": {"lastbeat_name": "llama-r0"}, "start_time": at.timestamp() * 1000},
    ]
    sink.script.extend([version(SESSION), NOT_THERE, Answer(200, json.dumps(rows).encode())])
    assert asking(sink.url).find("llama-r0", SINCE) == f"mine@{SESSION}"


def test_a_cluster_that_remembers_more_than_can_be_listed_is_asked_by_ids_alone(sink: HttpSink) -> None:
    sink.script.extend([version(SESSION), NOT_THERE, Answer(200, b"[" + b" " * (33 << 20) + b"]")])
    patient = HttpTimeouts(connect_s=LIMIT_S, read_s=LIMIT_S, total_s=LIMIT_S)
    launcher = RayLauncher(RayJobs(ray_jobs.address(sink.url, ""), {}, patient))
    assert launcher.find("llama-r0", SINCE) is None


LOGS = [
    pytest.param(50_000, 20, id="many short lines"),
    pytest.param(40, 60_000, id="a few very long ones"),
]


@pytest.mark.parametrize(("count", "width"), LOGS)
def test_of_a_log_about_as_much_is_read_as_is_wanted(sink: HttpSink, count: int, width: int) -> None:
    rows = [f"{number:>{width - 1}}\n".encode() for number in range(count)]
    most, moved = 100_000, 0

    def heard() -> None:
        nonlocal moved
        path = sink.requests[-1].path
        if "/logs/" not in path:
            sink.otherwise = told(status="RUNNING", driver_node_id="abc")
            return
        (lines,) = parse_qs(urlsplit(path).query)["lines"]
        text = b"".join(rows[-int(lines) :])
        moved += min(len(text), 2 * most)
        sink.otherwise = Answer(200, text)

    sink.heard = heard
    launcher = asking(sink.url)
    for _ in range(2):
        moved = 0
        text = launcher.output(JOB, most) or b""
        assert b"".join(rows).endswith(text)
        assert len(text) >= min(most // 2, len(b"".join(rows)))
    assert moved <= 2 * most, "the second time one call is enough"


# Who asks

SECRETS = [
    ("headers of a proxy", {"RAY_JOB_HEADERS": '{"X-Proxy": "hush-hush-1"}'}, "x-proxy", "hush-hush-1"),
    ("headers go before Ray's token", {"RAY_JOB_HEADERS": '{"authorization": "Bearer hush-hush-1"}',
     "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "b"}, "authorization", "Bearer hush-hush-1"),
    ("token", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "hush-hush-1"}, "authorization", "Bearer hush-hush-1"),
    ("no token where Ray would send none", {"RAY_AUTH_TOKEN": "hush-hush-1"}, "authorization", None),
]  # fmt: skip


@pytest.mark.parametrize(("environment", "header", "value"), labelled(SECRETS))
def test_who_asks_is_said_by_the_environment_and_never_told(
    sink: HttpSink, environment: dict[str, str], header: str, value: str | None
) -> None:
    sink.otherwise = Answer(403, b"hush-hush-1 is not allowed here")
    launcher = asking(sink.url, **environment)
    report = launcher.state(JOB)
    assert sink.requests[0].headers.get(header) == value
    assert value is None or "hush" not in report.reason
    assert "hush" not in launcher.place()


def test_a_token_is_read_from_its_file_at_each_call(sink: HttpSink, tmp_path: Path) -> None:
    file = tmp_path / "token"
    launcher = asking(sink.url, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(file))
    assert "cannot be read" in launcher.state(JOB).reason
    for token in ("one-token", "another-token"):
        file.write_text(f"{token}\n", encoding="utf-8")
        launcher.state(JOB)
        assert sink.requests[-1].headers["authorization"] == f"Bearer {token}"
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("at-home", encoding="utf-8")
    asking(sink.url, RAY_AUTH_MODE="token", HOME=str(tmp_path)).state(JOB)
    assert sink.requests[-1].headers["authorization"] == "Bearer at-home"


def test_who_logs_in_by_the_address_is_not_told(sink: HttpSink) -> None:
    launcher = asking(sink.url.replace("://", "://ada:hush-hush-1@"))
    sink.otherwise = Answer(401, b"hush-hush-1")
    report = launcher.state(JOB)
    assert sink.requests[0].headers["authorization"].startswith("Basic ")
    assert "hush" not in report.reason + launcher.place()
    assert "ada" not in launcher.place()


@pytest.mark.parametrize("headers", ["{", '{"a": 1}', '{"a": "b\\r\\nc: d"}'])
def test_headers_that_are_none_are_told_and_not_quoted(sink: HttpSink, headers: str) -> None:
    report = asking(sink.url, RAY_JOB_HEADERS=headers).state(JOB)
    assert (report.state, "RAY_JOB_HEADERS" in report.reason) == (JobState.UNKNOWN, True)
    assert not sink.requests


# Where it is

ADDRESSES = [
    pytest.param("http://head:8265", "http://head:8265", id="as Ray writes it"),
    pytest.param("HTTPS://Head/ray/", "https://head/ray", id="behind a proxy, in a folder"),
    pytest.param("http://ada:secret@head:8265", "http://head:8265", id="with a login"),
]
NO_ADDRESSES = ["auto", "http://", "http://head:0", "http://he ad", "ftp://head", "http://h?a=b"]


@pytest.mark.parametrize(("text", "url"), ADDRESSES)
def test_an_address_is(text: str, url: str) -> None:
    assert ray_jobs.address(text, "--ray-address").url == url


@pytest.mark.parametrize("text", [*NO_ADDRESSES, "ada:secret@head:8265", "ray://ada:secret@head"])
def test_what_is_no_address_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(JobRefusedError, match="--ray-address") as refused:
        ray_jobs.address(text, "--ray-address")
    assert "http://HOST:8265" in refused.value.told
    assert "secret" not in refused.value.told


WHERE = [
    ("nobody says", (), "", {}, "http://127.0.0.1:8265"),
    ("the environment", (), "", {"RAY_ADDRESS": "http://a:1"}, "http://a:1"),
    ("Ray's own order", (), "", {"RAY_ADDRESS": "http://a:1", "RAY_API_SERVER_ADDRESS": "http://b:1"}, "http://b:1"),
    ("where it was begun", (), "http://c:1 uid 0", {"RAY_ADDRESS": "http://a:1"}, "http://c:1"),
    ("an option", ("--ray-address=http://d:1",), "", {"RAY_ADDRESS": "ray://a:1"}, "http://d:1"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "place", "environment", "url"), labelled(WHERE))
def test_the_dashboard_is_the_one_that(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: tuple[str, ...],
    place: str,
    environment: dict[str, str],
    url: str,
) -> None:
    for name in ray_jobs.ADDRESSES:
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    assert ray.launcher(tmp_path, options, place).place().startswith(f"{url} uid ")


def test_of_jobs_in_another_place_nothing_is_told(sink: HttpSink, tmp_path: Path) -> None:
    launcher = ray.launcher(tmp_path, [f"--ray-address={sink.url}"], "http://elsewhere:8265 uid 0")
    report = launcher.state(JOB)
    assert (report.state, "http://elsewhere:8265" in report.reason) == (JobState.UNKNOWN, True)
    assert not sink.requests


# Many jobs

MANY = [f"llama-r{number}-0123456789@{SESSION}" for number in range(200)]


def listed(jobs: Sequence[str], status: str = "SUCCEEDED") -> Answer:
    rows: list[dict[str, Any]] = [{"submission_id": job.partition("@")[0], "status": status} for job in jobs]
    return Answer(200, json.dumps([{"type": "DRIVER", "submission_id": None, "status": status}, *rows]).encode())


def test_one_list_answers_for_200_jobs_as_each_one_by_itself(sink: HttpSink) -> None:
    sink.otherwise = listed(MANY)
    launcher = asking(sink.url)

    found = launcher.states(MANY)

    assert [each.path for each in sink.requests] == ["/api/jobs/"]
    sink.otherwise = told(status="SUCCEEDED", submission_id="llama-r7-0123456789")
    assert list(found) == MANY
    assert found[MANY[7]] == launcher.state(MANY[7])


def test_a_job_that_the_list_does_not_have_is_asked_about_by_itself(sink: HttpSink) -> None:
    sink.otherwise = listed(MANY[1:])

    assert list(asking(sink.url).states([*MANY, "no id"])) == MANY[1:]


def test_a_few_jobs_are_asked_about_each_by_itself(sink: HttpSink) -> None:
    assert asking(sink.url).states(MANY[: ray.FEW]) == {}
    assert not sink.requests


def test_of_no_job_anything_is_known_while_the_dashboard_does_not_list_them(sink: HttpSink) -> None:
    sink.otherwise = Answer(500, b"Traceback")

    found = asking(sink.url).states(MANY)

    assert list(found) == MANY
    assert {each.state for each in found.values()} == {JobState.UNKNOWN}
    assert "answered 500" in found[MANY[0]].reason


class LongMemory(RayJobs):
    """A dashboard that remembers more jobs than are read."""

    def jobs(self) -> list[dict[str, Any]]:
        raise TooLongError("it answered with more than 32 MiB")


def test_where_the_list_is_too_long_each_job_is_asked_about_by_itself(sink: HttpSink) -> None:
    assert RayLauncher(LongMemory(ray_jobs.address(sink.url, ""), {}, LIMITS)).states(MANY) == {}


# GPUs

COUNTS = [
    pytest.param({"usage": {"CPU": [0.0, 4.0], "GPU": [1.5, 2.0]}}, "", (1.5, 2.0), id="some are given out"),
    pytest.param({"usage": {"CPU": [0.0, 4.0]}}, "", (0.0, 0.0), id="there are none"),
    pytest.param({}, "ResourceUsage: 0.0/4.0 CPU, 3.0/8.0 GPU", (3.0, 8.0), id="the newer autoscaler's text"),
    pytest.param({}, "", None, id="it does not tell"),
    pytest.param({"usage": {"GPU": ["x", None]}}, "", None, id="it tells nonsense"),
]


@pytest.mark.parametrize(("report", "text", "use"), COUNTS)
def test_gpus_that_are_given_out(
    sink: HttpSink, report: dict[str, Any], text: str, use: tuple[float, float] | None
) -> None:
    sink.otherwise = told(data={"clusterStatus": {"loadMetricsReport": report}, "autoscalingStatus": text})
    found = RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS).resources()
    assert (None if found is None else (found.gpus_used, found.gpus_available)) == use


def test_gpus_are_counted_now_and_then_and_only_for_a_job_that_runs(sink: HttpSink) -> None:
    now = [0.0]
    launcher = RayLauncher(RayJobs(ray_jobs.address(sink.url, ""), {}, LIMITS), clock=lambda: now[0])
    sink.otherwise = told(status="RUNNING", data={"clusterStatus": {"loadMetricsReport": {"usage": {"GPU": [1, 2]}}}})
    for _ in range(59):
        assert launcher.state(JOB).gpus == GpuUse(1.0, 2.0)
        now[0] += 1.0
    asked = [each.path for each in sink.requests].count("/api/cluster_status")
    assert asked == 2
    sink.otherwise = told(status="PENDING")
    now[0] += 60.0
    assert launcher.state(JOB).gpus is None
    assert [each.path for each in sink.requests].count("/api/cluster_status") == asked
