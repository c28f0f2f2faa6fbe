"""What a launcher promises, whichever it is."""

import os
from datetime import datetime, timedelta, timezone

import pytest

from contract.launchers.conftest import SINCE, WHATEVER_IT_KEEPS, Place
from lastbeat.explain.launchers.traits import launcher_traits
from lastbeat.model.job import JobState
from support.waiting import text_in, until


@WHATEVER_IT_KEEPS
def test_a_job_may_inherit_another_environment_than_that_of_whoever_starts_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if launcher_traits(place.launcher.kind).remote:
        pytest.skip("its jobs run where whoever starts them is not, and inherit nothing")
    inherited = {**os.environ, "BEGUN": "with this"}
    monkeypatch.setenv("MINE", "alone")
    script = 'echo "$BEGUN, $OWN, ${MINE-nothing of mine}"'
    job = place.launcher.submit(place.spec(script, environment={"OWN": "1"}, inherited=inherited), place.name(0), SINCE)
    place.ended(job)
    assert place.output(job) == "with this, 1, nothing of mine\n"


def test_a_job_runs_and_succeeds(place: Place) -> None:
    spec = place.spec('echo "$GREETING from $PWD"', environment={"GREETING": "hello $(nobody) 'quoted'"})
    job = place.launcher.submit(spec, place.name(0), SINCE)
    report = place.ended(job)
    assert (report.state, report.exit_code) == (JobState.SUCCEEDED, 0)
    assert place.output(job) == f"hello $(nobody) 'quoted' from {place.folder}\n"
    assert report.nodes
    assert report.started_at is not None
    assert report.ended_at is not None
    assert report.started_at <= report.ended_at


@WHATEVER_IT_KEEPS
def test_its_place_has_one_name_whoever_asks(place: Place) -> None:
    assert place.launcher.place() == place.again().place()
    own = f" uid {os.getuid()}"
    # Whoever may run something in a cluster is its user there, whoever that is here.
    assert place.launcher.place().endswith(own) is (place.launcher.kind not in {"kubernetes", "ray-pod"})
    assert len(place.launcher.place()) > len(own)


def test_how_a_job_failed_is_known(place: Place) -> None:
    job = place.launcher.submit(place.spec("exit 7"), place.name(0), SINCE)
    report = place.ended(job)
    assert (report.state, report.exit_code) == (JobState.FAILED, 7)
    assert place.again().find(place.name(0), SINCE) == job, "it is found after its end, too"
    report = place.ended(place.launcher.submit(place.spec("kill -9 $$"), place.name(1), SINCE))
    assert (report.state, report.signal) == (JobState.FAILED, 9)


@WHATEVER_IT_KEEPS
def test_a_job_that_runs_is_found_by_its_name_by_anybody(place: Place) -> None:
    assert place.launcher.find(place.name(0), SINCE) is None
    job = place.launcher.submit(place.spec("sleep 300"), place.name(0), SINCE)
    assert place.launcher.find(place.name(0), SINCE) == job
    place.in_state(job, JobState.RUNNING)
    assert place.again().find(place.name(0), SINCE) == job
    assert place.again().state(job).state is JobState.RUNNING
    assert place.launcher.find(place.name(1), SINCE) is None
    assert place.launcher.find(place.name(0)[:-3], SINCE) is None


def test_a_job_is_cancelled_with_all_that_it_started(place: Place) -> None:
    beat = place.folder / "beat"
    spec = place.spec(f"trap '' TERM HUP; while :; do date +%N > {beat}; sleep 0.1; done")
    job = place.launcher.submit(spec, place.name(0), SINCE)
    place.in_state(job, JobState.RUNNING)
    place.launcher.cancel(job)
    report = place.ended(job)
    assert report.state is JobState.CANCELLED
    last = beat.read_bytes() if beat.exists() else b""
    place.again().cancel(job)  # of a job that has ended: nothing
    assert place.again().state(job).state is JobState.CANCELLED
    assert (beat.read_bytes() if beat.exists() else b"") == last


@WHATEVER_IT_KEEPS
def test_a_name_is_used_once(place: Place) -> None:
    name = "..x@y:z=1+2" + "a" * 150 + place.name(0)
    log = place.folder / "log"
    spec = place.spec(f"echo begun >> {log}; sleep 300")
    job = place.launcher.submit(spec, name, SINCE)
    assert place.again().submit(spec, name, SINCE) == job
    place.in_state(job, JobState.RUNNING)
    assert text_in(log) == "begun\n"


@WHATEVER_IT_KEEPS
def test_hostile_arguments_reach_the_program_as_they_are(place: Place) -> None:
    words = ("$(touch evil)", "`touch evil`", "a b", "'", '"', "\\", "*", "; touch evil", "", "ü", "#x", "-n", "%j")
    spec = place.running(("printf", "%s\\n", *words))
    job = place.launcher.submit(spec, place.name(0), SINCE)
    place.ended(job)
    assert place.output(job) == "".join(f"{word}\n" for word in words)
    assert not (place.folder / "evil").exists()


def test_a_job_that_ends_well_when_it_is_told_to_end_was_cancelled(place: Place) -> None:
    mark = place.folder / "ready"
    spec = place.spec(f"trap 'exit 0' TERM; touch {mark}; sleep 300 & wait")
    job = place.launcher.submit(spec, place.name(0), SINCE)
    until(mark.exists, bool)
    place.launcher.cancel(job)
    assert place.ended(job).state is JobState.CANCELLED


def test_a_job_that_there_never_was_is_gone_where_the_launcher_can_know(place: Place) -> None:
    # A cluster knows all of its jobs; a machine knows nothing of those of another one.
    known = {"local": JobState.UNKNOWN}.get(place.launcher.kind, JobState.GONE)
    assert place.launcher.state("4294967").state is known


def test_a_job_of_the_same_name_that_is_older_is_another_runs(place: Place) -> None:
    first = place.launcher.submit(place.spec("exit 3"), place.name(0), SINCE)
    place.ended(first)
    later = datetime.now(timezone.utc) + timedelta(seconds=1)
    until(lambda: datetime.now(timezone.utc), lambda now: now > later)
    assert place.launcher.find(place.name(0), later) is None
    second = place.launcher.submit(place.spec("exit 4"), place.name(0), later)
    assert place.ended(second).exit_code == 4
    assert place.again().find(place.name(0), later) == second
