"""Which machine it is, whatever its metadata service does, and what metadata.json says of it meanwhile."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lastbeat.training.sdk.instance import Instance, cloud_instance, local_instance
from lastbeat.training.sdk.reporter import Reporter, RunEnvironment
from lastbeat.training.sdk.run import Run
from support.http_sink import closed_port
from support.memory import MemoryStore
from support.waiting import until

HOST = Instance("host-1")
TOKEN = "AQAEA-token=="
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
Odd = Callable[["Service"], bool]
"""Does something else than answer; whether it has."""


class Service(BaseHTTPRequestHandler):
    """EC2's metadata service, version 2, and the ECS agent's; both as ``server`` has them."""

    def answer(self, body: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        if self.server.odd(self):  # type: ignore[attr-defined]
            return
        if self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]:
            self.answer(TOKEN)
        else:
            self.answer("no", 404)

    def do_GET(self) -> None:
        if self.server.odd(self):  # type: ignore[attr-defined]
            return
        if self.path == "/v4/123/task":
            self.answer(json.dumps(TASK))
        elif self.headers["X-aws-ec2-metadata-token"] != TOKEN:
            self.answer("who are you", 401)
        else:
            found = TREE.get(self.path)
            self.answer(found or "not here", 200 if found else 404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Silent."""


class Kept(Service):
    protocol_version = "HTTP/1.1"


@contextmanager
def service(odd: Odd = lambda _: False, handler: type[Service] = Kept) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.odd = odd  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def on(path: str, act: Callable[[Service], None]) -> Odd:
    def odd(request: Service) -> bool:
        if request.path != path:
            return False
        request.close_connection = True
        with suppress(OSError):
            act(request)
        return True

    return odd


def stall(request: Service) -> None:
    request.connection.recv(1)


def drip(request: Service) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        request.wfile.write(b"x")
        time.sleep(0.02)


def reset(request: Service) -> None:
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


def garble(request: Service) -> None:
    request.wfile.write(b"\x00\xff no HTTP at all\r\n\r\n")


def say(body: str, status: int = 200) -> Callable[[Service], None]:
    def answer(request: Service) -> None:
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


@pytest.mark.parametrize("handler", [pytest.param(Kept, id="kept alive"), pytest.param(Service, id="closed each time")])
def test_ec2_tells_id_zone_and_type(handler: type[Service]) -> None:
    with service(handler=handler) as address:
        assert asked(address, FULL) == FULL
        assert asked(address + "/", FULL) == FULL


ID, ZONE, PUT = *list(TREE)[:2], "/latest/api/token"


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        pytest.param(on(PUT, stall), HOST, id="no token ever comes, as in a container one hop too far"),
        pytest.param(on(PUT, reset), HOST, id="it resets"),
        pytest.param(on(PUT, drip), HOST, id="it drips"),
        pytest.param(on(PUT, garble), HOST, id="it speaks no HTTP"),
        pytest.param(on(PUT, say("a\r\nX-Evil: 1")), HOST, id="a token that would be a header"),
        pytest.param(on(ID, stall), HOST, id="it stalls after the token"),
        pytest.param(on(ID, say("<html>proxy login</html>")), HOST, id="somebody else answers"),
        pytest.param(on(ID, say("i-1", 302)), HOST, id="a redirection"),
        pytest.param(on(ZONE, stall), Instance(FULL.id, host="host-1"), id="it stalls after the id"),
        pytest.param(on(ZONE, say("no", 404)), Instance(FULL.id, None, FULL.type, "host-1"), id="it knows no zone"),
    ],
)
def test_a_service_that_misbehaves_costs_neither_time_nor_more_than_it_took(odd: Odd, found: Instance) -> None:
    with service(odd) as address:
        assert asked(address, found) == found


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("", id="nobody is named and this is no EC2"),
        pytest.param("http://127.0.0.1:{closed}", id="nobody listens"),
        pytest.param("https://127.0.0.1:{closed}", id="not over http"),
        pytest.param("127.0.0.1", id="no address"),
        pytest.param("file:///etc/passwd", id="a file"),
    ],
)
def test_without_a_service_the_host_stands(address: str, tmp_path: Path) -> None:
    environ = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": address.format(closed=closed_port())}
    assert cloud_instance(environ, HOST, sys=tmp_path) == HOST


def test_a_service_that_is_switched_off_is_not_asked() -> None:
    with service() as address:
        assert asked(address, HOST, {"AWS_EC2_METADATA_DISABLED": "True"}) == HOST


def test_ecs_is_asked_first() -> None:
    task = Instance("my-cluster/158d1c8083dd49d6b527399fd6414f5c", "us-west-2d", host="host-1")
    with service() as address:
        assert asked(address, task, {"ECS_CONTAINER_METADATA_URI_V4": f"{address}/v4/123"}) == task


@pytest.mark.parametrize("body", [pytest.param("{}", id="no task")])
def test_an_ecs_agent_that_says_nothing_useful_is_passed_over(body: str) -> None:
    with service(on("/v4/123/task", say(body))) as address:
        assert asked(address, FULL, {"ECS_CONTAINER_METADATA_URI_V4": f"{address}/v4/123"}) == FULL


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

    run = Run("run", Reporter(lambda: RunEnvironment(store, "host-1", beat_s=0.05, find_instance=ask)))
    asked.wait(30)
    first = metadata(store)
    assert first["instance_id"] == "host-1"
    assert "zone" not in first
    answer.set()
    run.complete()
    last = metadata(store)
    told = (last["instance_id"], last["zone"], last["instance_type"], last["host"])
    assert told == ("i-0abc", "us-east-1b", "p5.48xlarge", "host-1")
