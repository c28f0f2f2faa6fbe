"""A certificate authority of one's own, and a server on 127.0.0.1 that it vouches for."""

from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


def write_authority(folder: Path) -> Path:
    """Writes ``ca.pem``, and ``server.pem`` with the server's certificate, the authority's and the server's key."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("a lab's own authority", None, ca_key.public_key(), ca_key)
    server = _certificate("store", ca.subject, key.public_key(), ca_key)
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(ca.public_bytes(PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(PEM) + ca.public_bytes(PEM) + private)
    return folder


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
