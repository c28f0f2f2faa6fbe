"""A store behind a certificate authority of one's own."""

import ssl
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from support.proxy import FaultProxy, run_proxy
from support.s3 import REGION, S3Server


def _certificate(
    subject: str, issuer: x509.Name | None, public: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .sign(signer, hashes.SHA256())
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``ca.pem``, and ``server.pem`` for a server on 127.0.0.1."""
    folder = tmp_path_factory.mktemp("läufe ca")
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("a lab's own authority", None, ca_key.public_key(), ca_key)
    server = _certificate("store", ca.subject, key.public_key(), ca_key)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(server.public_bytes(pem) + private)
    return folder


@pytest.fixture
def tls_proxy(s3_server: S3Server, authority: Path) -> Iterator[FaultProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem")
    with run_proxy(s3_server.url, context) as proxy:
        yield proxy


@pytest.mark.parametrize("configured", [False, True], ids=["from the environment", "from the profile"])
def test_a_trusted_authority_is_enough(
    s3_server: S3Server, tls_proxy: FaultProxy, authority: Path, tmp_path: Path, configured: bool
) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": tls_proxy.url}
    if configured:
        (tmp_path / "config").write_text(f"[default]\nca_bundle = {authority}/ca.pem\n", encoding="utf-8")
        env["AWS_CONFIG_FILE"] = str(tmp_path / "config")
    else:
        env["AWS_CA_BUNDLE"] = str(authority / "ca.pem")
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    assert store.write("run-1/x", b"1") == store.list("").entries[0].version
    assert abs(store.clock().timestamp() - time.time()) < 10
    assert tls_proxy.count("HEAD") == 1


def test_an_unknown_authority_is_not_trusted(s3_server: S3Server, tls_proxy: FaultProxy) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": tls_proxy.url}
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    with pytest.raises(StoreError, match="certificate is not trusted") as raised:
        store.list("")
    assert not isinstance(raised.value, UnreachableError)
    assert "AWS_CA_BUNDLE" in raised.value.advice
