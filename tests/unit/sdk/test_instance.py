"""Which machine it is, whatever its metadata service does, and that a cloud is about to take it away: training is asked
to stop, whatever else the service does."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lastbeat.training.sdk.instance import (
    AzureNotices,
    Ec2Notices,
    GceNotices,
    Instance,
    InstanceSearch,
    NoticeSource,
    NoticeWatch,
    cloud_instance,
    local_instance,
    notice_source,
)
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from support.cloud import MACHINE, CloudService, FakeCloud, fake_cloud
from support.http_sink import closed_port
from support.memory import MemoryStore
from support.reporting import environment, start
from support.waiting import LIMIT_S, until

HOST = Instance("host-1")
TREE = {
    "/latest/meta-data/instance-id": "i-0abc123def4567890",
    "/latest/meta-data/placement/availability-zone": "us-east-1b",
    "/latest/meta-data/instance-type": "p5.48xlarge",
}
FULL = Instance("i-0abc123def4567890", "us-east-1b", "p5.48xlarge", "host-1")
TASK = {
    "TaskARN": "arn:aws:ecs:us-west-2:111122223333:task/my-cluster/158d1c8083dd49d6b527399fd6414f5c",
    "AvailabilityZone": "us-west-2d",
}


def stall(request: CloudService) -> None:
    request.connection.recv(1)


def drip(request: CloudService) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        request.wfile.write(b"x")
        time.sleep(0.02)


def reset(request: CloudService) -> None:
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


def garble(request: CloudService) -> None:
    request.wfile.write(b"\x00\xff no HTTP at all\r\n\r\n")


def say(body: str, status: int = 200) -> Callable[[CloudService], None]:
    def answer(request: CloudService) -> None:
        request.close_connection = False
        request.answer(body, status)

    return answer


def asked(address: str, expected: Instance, more: Mapping[str, str] | None = None) -> Instance:
    """What is found within a short limit; within a longer one, should this machine be too busy for the short one."""
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": address, **(more or {})}
    found = HOST
    for limit_s in (0.4, 4.0, 20.0):
        found = cloud_instance(environ, HOST, limit_s=limit_s)
        if found == expected:
            break
    return found


def test_ec2_tells_id_zone_and_type(cloud: FakeCloud) -> None:
    assert asked(cloud.address, FULL) == FULL
    assert asked(cloud.address + "/", FULL) == FULL


ID, ZONE, PUT = *list(TREE)[:2], "/latest/api/token"


@pytest.mark.parametrize(
    ("path", "odd", "found"),
    [
        pytest.param(PUT, stall, HOST, id="no token ever comes, as in a container one hop too far"),
        pytest.param(PUT, reset, HOST, id="it resets"),
        pytest.param(PUT, drip, HOST, id="it drips"),
        pytest.param(PUT, garble, HOST, id="it speaks no HTTP"),
        pytest.param(PUT, say("a\r\nX-Evil: 1"), HOST, id="a token that would be a header"),
        pytest.param(ID, stall, HOST, id="it stalls after the token"),
        pytest.param(ID, say("<html>proxy login</html>"), HOST, id="somebody else answers"),
        pytest.param(ID, say("i-1", 302), HOST, id="a redirection"),
        pytest.param(ZONE, stall, Instance(FULL.id, host="host-1"), id="it stalls after the id"),
        pytest.param(ZONE, say("no", 404), Instance(FULL.id, None, FULL.type, "host-1"), id="it knows no zone"),
    ],
)
def test_a_service_that_misbehaves_costs_neither_time_nor_more_than_it_took(
    cloud: FakeCloud, path: str, odd: Callable[[CloudService], None], found: Instance
) -> None:
    cloud.odd[path] = odd
    assert asked(cloud.address, found) == found


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("", id="no owner is named and this is no EC2"),
        pytest.param("http://127.0.0.1:{closed}", id="nobody listens"),
        pytest.param("https://127.0.0.1:{closed}", id="not over http"),
        pytest.param("127.0.0.1", id="no address"),
        pytest.param("file:///etc/passwd", id="a file"),
    ],
)
def test_without_a_service_the_host_stands(address: str, tmp_path: Path) -> None:
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": address.format(closed=closed_port())}
    assert cloud_instance(environ, HOST, sys=tmp_path) == HOST


def test_a_service_that_is_switched_off_is_not_asked(cloud: FakeCloud) -> None:
    assert asked(cloud.address, HOST, {"AWS_EC2_METADATA_DISABLED": "True"}) == HOST


def test_ecs_is_asked_first_and_passed_over_where_it_says_nothing_useful(cloud: FakeCloud) -> None:
    agent = {"ECS_CONTAINER_METADATA_URI_V4": f"{cloud.address}/v4/123"}
    task = Instance("my-cluster/158d1c8083dd49d6b527399fd6414f5c", "us-west-2d", host="host-1")
    assert asked(cloud.address, task, agent) == task
    cloud.answers["/v4/123/task"] = "{}"
    assert asked(cloud.address, FULL, agent) == FULL


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({}, "host-1", id="the host name"),
        pytest.param({"SLURMD_NODENAME": "gpu-17", "SLURM_JOB_ID": "4711"}, "gpu-17", id="Slurm's node"),
        pytest.param({"SLURM_JOB_ID": "4711"}, "slurm-job-4711", id="Slurm's job where it names no node"),
        pytest.param({"POD_NAME": "train-0", "HOSTNAME": "x"}, "train-0", id="a pod that was told its name"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0-abc"}, "train-0-abc", id="a pod"),
        pytest.param({"HOSTNAME": "shell-name"}, "host-1", id="HOSTNAME elsewhere is the shell's affair"),
        pytest.param({"SLURMD_NODENAME": "a\nb"}, "host-1", id="nonsense"),
    ],
)
def test_what_is_known_without_asking(environ: dict[str, str], found: str, tmp_path: Path) -> None:
    assert local_instance(environ, "host-1", tmp_path / "none") == Instance(found)


def test_a_pod_is_known_by_its_service_account(tmp_path: Path) -> None:
    assert local_instance({"HOSTNAME": "train-0-abc"}, "host-1", tmp_path) == Instance("train-0-abc")


def test_a_machine_without_a_name_is_unknown(tmp_path: Path) -> None:
    assert local_instance({}, "", tmp_path / "none") == Instance("unknown")


KEY = "run/metadata.json"


def metadata(store: MemoryStore) -> dict[str, Any]:
    until(lambda: KEY in store.held)
    found: dict[str, Any] = json.loads(store.held[KEY].body)
    return found


def test_the_first_heartbeat_does_not_wait_for_the_cloud() -> None:
    store, asked, answer = MemoryStore(), threading.Event(), threading.Event()

    def ask() -> Instance:
        asked.set()
        answer.wait(30)
        return Instance("i-0abc", "us-east-1b", "p5.48xlarge", "host-1")

    run = Run("run", Reporter(lambda: environment(store, "host-1", beat_s=0.05, tasks=[InstanceSearch(ask)])))
    asked.wait(30)
    first = metadata(store)
    assert first["instance_id"] == "host-1"
    assert "zone" not in first
    answer.set()
    run.complete()
    last = metadata(store)
    told = (last["instance_id"], last["zone"], last["instance_type"], last["host"])
    assert told == ("i-0abc", "us-east-1b", "p5.48xlarge", "host-1")


SPOT = "/latest/meta-data/spot/instance-action"
GOOGLE = "/computeMetadata/v1/instance/preempted"
AZURE = "/metadata/scheduledevents"
AT = "2026-08-01T10:00:00Z"
SOURCES: dict[str, Callable[[str], NoticeSource]] = {"ec2": Ec2Notices, "gce": GceNotices, "azure": AzureNotices}


def events(**fields: object) -> str:
    event = {"EventType": "Preempt", "Resources": [MACHINE], "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT", **fields}
    return json.dumps({"Events": [event]})


@pytest.fixture
def cloud() -> Iterator[FakeCloud]:
    with fake_cloud() as running:
        running.answers |= {**TREE, "/v4/123/task": json.dumps(TASK)}
        yield running


def source(cloud: FakeCloud, kind: str) -> NoticeSource:
    return SOURCES[kind](cloud.address)


NOTICES = [
    pytest.param("ec2", SPOT, json.dumps({"action": "terminate", "time": AT}),
                 f"EC2 is about to terminate this spot instance at {AT}", id="a spot interruption"),
    pytest.param("ec2", SPOT, '{"action": "hibernate"}', "EC2 is about to hibernate this spot instance", id="no time"),
    pytest.param("ec2", SPOT, '{"action": "stop", "time": "\\n\\u001b[31mnow"}',
                 "EC2 is about to stop this spot instance", id="a hostile time"),
    pytest.param("gce", GOOGLE, "TRUE\n", "Google Cloud is about to preempt this machine", id="a preemption"),
    pytest.param("azure", AZURE, events(), "Azure is about to preempt this machine at Mon, 19 Sep 2016 18:29:47 GMT",
                 id="a scheduled event"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "body", "told"), NOTICES)
def test_a_notice(cloud: FakeCloud, kind: str, path: str, body: str, told: str) -> None:
    asking = source(cloud, kind)
    assert asking.ask(LIMIT_S) is None
    cloud.answers[path] = body
    assert asking.ask(LIMIT_S) == told


NONE = [
    pytest.param("ec2", SPOT, '{"action": "dance"}', id="an action that does not exist"),
    pytest.param("azure", AZURE, events(Resources=["gpu-18"]), id="another machine's"),
    pytest.param("azure", AZURE, events(EventType="Freeze"), id="a pause of seconds"),
]


@pytest.mark.parametrize(("kind", "path", "body"), NONE)
def test_what_is_no_notice(cloud: FakeCloud, kind: str, path: str, body: str) -> None:
    cloud.answers[path] = body
    assert source(cloud, kind).ask(LIMIT_S) is None


BROKEN = [
    pytest.param("ec2", SPOT, "{" * 5000, id="no JSON"),
    pytest.param("gce", GOOGLE, "<html>login</html>", id="a portal's page"),
    pytest.param("azure", AZURE, None, id="nothing there"),
    pytest.param("gce", GOOGLE, "TRUE" + " " * 100_000, id="too much of it"),
]


@pytest.mark.parametrize(("kind", "path", "body"), BROKEN)
def test_an_answer_that_says_nothing_is_no_notice(
    cloud: FakeCloud, kind: str, path: str, body: str | bytes | None
) -> None:
    cloud.answers[path] = body
    with pytest.raises((OSError, ValueError)):
        source(cloud, kind).ask(LIMIT_S)


def test_a_token_that_is_none_any_more_is_asked_for_anew(cloud: FakeCloud) -> None:
    asking = Ec2Notices(cloud.address)
    assert asking.ask(LIMIT_S) is asking.ask(LIMIT_S) is None
    assert cloud.asked.count("token") == 1
    cloud.token, cloud.answers[SPOT] = "another", '{"action": "stop"}'
    with pytest.raises(ValueError, match="token"):
        asking.ask(LIMIT_S)
    assert asking.ask(LIMIT_S) == "EC2 is about to stop this spot instance"


def test_training_is_asked_once_a_notice_comes(cloud: FakeCloud) -> None:
    run = Run("run-1", None)
    NoticeWatch(Ec2Notices(cloud.address), every_s=0.01).begin(start(run))
    until(lambda: cloud.asked.count(SPOT) > 5)
    assert not run.should_stop
    cloud.answers[SPOT] = json.dumps({"action": "terminate", "time": AT})
    until(lambda: run.should_stop)
    assert run.stop_wanted == f"EC2 is about to terminate this spot instance at {AT}"


def test_where_nobody_answers_nobody_is_asked_for_long() -> None:
    class Nobody:
        asked = 0

        def ask(self, limit_s: float) -> str | None:
            self.asked += 1
            return Ec2Notices(f"http://127.0.0.1:{closed_port()}").ask(limit_s)

    nobody = Nobody()
    watch = NoticeWatch(nobody, every_s=0.0)
    watch._watch(Run("run-1", None))
    assert nobody.asked == 3


def test_a_service_that_fails_for_a_while_is_asked_again(cloud: FakeCloud) -> None:
    run = Run("run-1", None)
    NoticeWatch(GceNotices(cloud.address), every_s=0.01).begin(start(run))
    until(lambda: cloud.asked.count(GOOGLE) > 2)
    cloud.answers[GOOGLE] = None
    since = len(cloud.asked)
    until(lambda: len(cloud.asked) > since + 6)
    cloud.answers[GOOGLE] = "TRUE"
    until(lambda: run.should_stop)


MACHINES = [
    pytest.param({}, {}, None, id="a machine of no cloud"),
    pytest.param({}, {"sys_vendor": "Amazon EC2"}, Ec2Notices(), id="EC2"),
    pytest.param({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[::1]:7"}, {}, Ec2Notices("http://[::1]:7"), id="named"),
    pytest.param({}, {"product_name": "Google Compute Engine"}, GceNotices(), id="Google"),
    pytest.param({"GCE_METADATA_HOST": "127.0.0.1:7"}, {}, GceNotices("http://127.0.0.1:7"), id="Google's, named"),
    pytest.param({}, {"chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n"}, AzureNotices(), id="Azure"),
]


@pytest.mark.parametrize(("environ", "files", "source"), MACHINES)
def test_whom_it_asks(
    tmp_path: Path, environ: dict[str, str], files: dict[str, str], source: NoticeSource | None
) -> None:
    folder = tmp_path / "devices/virtual/dmi/id"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    assert notice_source(environ, tmp_path) == source
