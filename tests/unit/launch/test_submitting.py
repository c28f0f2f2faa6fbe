"""A submission of which no clear answer came: nobody says that the job does not run, and its id finds it again."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from lastbeat.launch.ray import NotSubmittedError, UncertainError, submit_job_with_resume


class Dashboard(ThreadingHTTPServer):
    """It takes jobs as Ray's does; ``cut``: it hears the next submissions, and hangs up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.cut = 0
        self.late: list[dict[str, Any]] = []
        """What it has heard, and will carry out later."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def catch_up(self) -> None:
        """Carry out what was heard."""
        for each in self.late:
            self.jobs[each["submission_id"]] = {**each, "status": "RUNNING"}


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.cut:
            self.server.cut -= 1
            self.server.late.append(asked)
            self.close_connection = True
            return
        name = asked["submission_id"]
        if name in self.server.jobs:
            self._answer(500, f"ValueError: Job with submission_id {name} already exists. Please use a different one.")
            return
        self.server.jobs[name] = {**asked, "status": "RUNNING"}
        self._answer(200, json.dumps({"submission_id": name}))

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        found = self.server.jobs.get(name)
        self._answer(
            404 if found is None else 200, f"Job {name} does not exist" if found is None else json.dumps(found)
        )

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the server gives it
        pass


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    server = Dashboard()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


TRAIN = {"entrypoint": "python train.py"}


def uncertain(dashboard: Dashboard, **more: str) -> str:
    """The id of a job of which nobody knows."""
    dashboard.cut = 1
    with pytest.raises(UncertainError) as caught:
        submit_job_with_resume(dashboard.address, None, {**TRAIN, **more})
    assert caught.value.submission_id in str(caught.value)
    return caught.value.submission_id


@pytest.mark.parametrize("late", [False, True], ids=["it was lost", "it was only late"])
def test_who_submits_again_with_the_id_has_one_job(dashboard: Dashboard, late: bool) -> None:
    job = uncertain(dashboard)
    if late:
        dashboard.catch_up()

    assert submit_job_with_resume(dashboard.address, None, {**TRAIN, "submission_id": job}) == job
    assert list(dashboard.jobs) == [job]


def test_one_that_was_carried_out_at_once_is_known(dashboard: Dashboard) -> None:
    dashboard.jobs["train"] = {"status": "RUNNING", "submission_id": "train", **TRAIN}
    dashboard.cut = 1

    assert submit_job_with_resume(dashboard.address, None, {**TRAIN, "submission_id": "train"}) == "train"


def test_an_id_that_is_another_jobs_is_refused(dashboard: Dashboard) -> None:
    job = uncertain(dashboard)
    dashboard.catch_up()

    with pytest.raises(NotSubmittedError, match="already exists"):
        submit_job_with_resume(dashboard.address, None, {"entrypoint": "python other.py", "submission_id": job})
