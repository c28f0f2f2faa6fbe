"""A cloud says that it is about to take the machine away: training is asked to stop, whatever else the service does."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastbeat.training.sdk.instance import (
    AzureNotices,
    Ec2Notices,
    GceNotices,
    NoticeSource,
    NoticeWatch,
    notice_source,
)
from lastbeat.training.sdk.run import Run
from support.cloud import MACHINE, FakeCloud, fake_cloud
from support.http_sink import closed_port
from support.training import LIMIT_S, directory_site
from support.waiting import until

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
    NoticeWatch(Ec2Notices(cloud.address), every_s=0.01).start(run)
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
    NoticeWatch(GceNotices(cloud.address), every_s=0.01).start(run)
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


LOOKS = """\
import lastbeat, time
with lastbeat.run("run-1") as run:
    step = 0
    while not run.should_stop:
        step += 1
        run.step(step)
        time.sleep(0.01)
    run.preempted(step=step)
"""


@pytest.mark.parametrize("heard", [True, False])
def test_a_training_on_a_spot_instance(tmp_path: Path, cloud: FakeCloud, heard: bool) -> None:
    cloud.answers[SPOT] = json.dumps({"action": "terminate", "time": AT})
    site = directory_site(tmp_path)
    more = {} if heard else {"LASTBEAT_CLOUD_NOTICES": "off"}
    where = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud.address, "AWS_EC2_METADATA_DISABLED": "false"}
    with site.running(LOOKS, **where, **more) as process:
        if not heard:
            # Each beat could look for a notice.
            until(lambda: json.loads(site.read("progress.json") or "{}").get("step", 0), lambda step: step > 50)
            assert process.poll() is None
            assert SPOT not in cloud.asked
            return
        assert process.wait(LIMIT_S) == 0
    assert site.look()["reason"].endswith(f"; EC2 is about to terminate this spot instance at {AT}")
