"""A certificate that nobody vouches for is refused; one of a trusted authority is taken."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.slack import Slack
from lastbeat.alerts.webhook import Webhook
from support.certificates import write_authority
from support.http_sink import HttpSink, http_sink
from support.messages import FAILED


@dataclass(frozen=True)
class Secured:
    sink: HttpSink
    authority: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = write_authority(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    with http_sink(context) as sink:
        yield Secured(sink, folder / "ca.pem")


@pytest.mark.parametrize("ask", [pytest.param("send", id="sending"), pytest.param("check", id="checking")])
@pytest.mark.parametrize("channel", [Slack, Webhook])
def test_an_unknown_authority_is_refused(secured: Secured, channel: type[Slack | Webhook], ask: str) -> None:
    before = len(secured.sink.requests)
    hook = channel(secured.sink.url + "/services/T/B/X")
    with pytest.raises(DeliveryError, match="the server's certificate was refused: self") as caught:
        hook.send(FAILED) if ask == "send" else hook.check()
    assert caught.value.retryable
    assert len(secured.sink.requests) == before


@pytest.mark.parametrize("channel", [Slack, Webhook])
def test_an_authority_of_the_users_own_is_trusted(
    secured: Secured, channel: type[Slack | Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(secured.authority))
    hook = channel(secured.sink.url + "/services/T/B/X")
    hook.send(FAILED)
    assert "answer" in hook.check()


def test_a_server_that_speaks_no_tls_is_told_as_such() -> None:
    with http_sink() as sink, pytest.raises(DeliveryError, match="TLS") as caught:
        Slack(sink.url.replace("http:", "https:") + "/services/T/B/X").send(FAILED)
    assert caught.value.retryable
