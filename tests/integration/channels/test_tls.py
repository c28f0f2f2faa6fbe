"""A certificate that nobody vouches for is refused; one of a trusted authority is taken."""

import ipaddress
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.slack import Slack
from lastbeat.alerts.webhook import Webhook
from support.http_sink import HttpSink, http_sink
from support.messages import FAILED


@dataclass(frozen=True)
class Secured:
    sink: HttpSink
    authority: Path


def certificate(folder: Path) -> Path:
    """A certificate of 127.0.0.1 that signed itself, with its key, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    path = certificate(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with http_sink(context) as sink:
        yield Secured(sink, path)


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
