"""What happens to the function when its host dies, when it runs twice, when its time is short, when it cannot see."""

import pytest

from integration.lambda_.conftest import SCHEDULE, Deployed, message
from support.proxy import FaultProxy, Stall, s3_error
from support.row_by_row import labelled
from support.waiting import until

LEFT_S = 15.0
"""What two requests that hang would exceed: each takes ten seconds."""


def test_an_invocation_that_is_killed_in_the_middle_loses_nothing_and_says_nothing_twice(
    deployed: Deployed, fault_proxy: FaultProxy
) -> None:
    names = [f"run-{number}" for number in range(5)]
    deployed.ended_under_watch(names)
    deployed.through(fault_proxy)
    # The third run's record never gets its answer: some runs are decided and told, others not, when the host dies.
    fault_proxy.inject(Stall(), method="PUT", contains="/run-2/_watchdog.json", times=1)
    dying = deployed.start()
    dying.begin(SCHEDULE)
    until(lambda: any(p.status == 0 and "/run-2/_watchdog.json" in p.target for p in fault_proxy.passed))
    dying.kill()
    following = deployed.start(LASTBEAT_SWEEP="lease_seconds:20")
    answer = following.invoke(SCHEDULE)
    assert answer["complete"]
    assert answer["statuses"] == {"SUCCEEDED": 5}
    # Nobody had decided on this one; on a busy machine a message may need a second pass.
    until(lambda: "run-2" in {run_id for run_id, _ in deployed.alerts()} or not following.invoke(SCHEDULE))
    assert [deployed.record(name)["status"] for name in names] == ["SUCCEEDED"] * 5
    told = deployed.alerts()
    # What the dead one had claimed and perhaps sent waits for the end of its lease in the record: late, and not lost.
    waiting = {name for name in names if deployed.record(name)["outbox"]}
    assert {run_id for run_id, _ in told} | waiting == set(names)
    assert len(told) == len(set(told))


def test_a_deadline_that_comes_too_early_ends_the_pass_and_the_next_goes_on(deployed: Deployed) -> None:
    names = [f"run-{number:02}" for number in range(12)]
    deployed.ended_under_watch(names)
    running = deployed.start()
    # Nothing can be done in this time, and that is what it says.
    assert running.invoke(SCHEDULE, left_s=0.001)["complete"] is False
    for _ in range(3):
        running.invoke(SCHEDULE, left_s=0.3)
    until(lambda: running.invoke(SCHEDULE)["statuses"] == {"SUCCEEDED": 12})
    # What a pass had claimed when its time ran out waits in the record for the end of its lease: late, and not lost.
    waiting = {name for name in names if deployed.record(name)["outbox"]}
    assert {run_id for run_id, _ in deployed.alerts()} | waiting == set(names)


@pytest.mark.parametrize(("method", "contains", "split"), labelled([
    ("everything", "", "", False),
    ("every write of the fleet's own files, perhaps to be split", "PUT", "_watchdog/", True),
]))  # fmt: skip
def test_a_pass_is_over_before_its_time_is_although_the_store_hangs(
    deployed: Deployed, fault_proxy: FaultProxy, method: str, contains: str, split: bool
) -> None:
    deployed.beat("run-1")
    deployed.through(fault_proxy)
    running = deployed.start() if split else deployed.start(LASTBEAT_QUEUE_URL="")
    # Loads all modules, which takes seconds on a busy machine, and writes none of the fleet's own files.
    running.invoke({"Records": [message("1", {"run_id": "run-1"})]})
    fault_proxy.inject(Stall(), method=method, contains=contains)
    asked = running.begin(SCHEDULE, left_s=LEFT_S)
    assert running.answer(asked)["complete"] is (method == "PUT")
    # The pass did not wait until the request was given up for good: Lambda would have killed it.
    until(lambda: fault_proxy.hanging)


def test_a_message_that_there_is_no_time_for_comes_back(deployed: Deployed) -> None:
    deployed.beat("run-1")
    answer = deployed.start().invoke({"Records": [message("1", {"run_id": "run-1"})]}, left_s=1.0)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}], "checked": []}


def test_a_store_that_cannot_be_reached_is_a_blind_pass_and_no_run_is_said_to_have_failed(
    deployed: Deployed, fault_proxy: FaultProxy
) -> None:
    deployed.beat("run-1")
    running = deployed.start(AWS_ENDPOINT_URL=fault_proxy.url)
    running.invoke(SCHEDULE)
    fault_proxy.inject(s3_error(403, "AccessDenied"))
    answer = running.invoke(SCHEDULE)
    assert "denied" in answer["blind"].lower()
    assert (answer["transitions"], answer["complete"]) == ([], False)
    seen = [each["PassesThatCouldSee"] for each in running.documents() if "PassesThatCouldSee" in each]
    assert seen == [[1.0], [0.0]]


def test_wrong_settings_are_an_error_of_the_function_and_named(deployed: Deployed) -> None:
    running = deployed.start(STALE_MINUTES="ten", ALERT_ON="everything")
    asked = running.begin(SCHEDULE)
    answer = running.answer(asked)
    assert asked.failed
    assert answer["errorType"] == "SettingsError"
    assert "STALE_MINUTES" in answer["errorMessage"]
    assert "ALERT_ON" in answer["errorMessage"]
