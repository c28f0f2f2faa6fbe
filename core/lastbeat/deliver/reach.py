"""Whether a web hook's host answers at all, found out without sending it anything."""

import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH, select_proxy

from lastbeat.deliver.http import in_words
from lastbeat.deliver.port import DeliveryError
from lastbeat.deliver.weburl import HttpTimeouts


def reach(url: str, *, to: str, limits: HttpTimeouts) -> str:
    """Resolve, connect and shake hands with the host of ``url``, send nothing, and say so in one line."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    with requests.Session() as session:
        seen = session.merge_environment_settings(url, {}, None, None, None)
    if select_proxy(url, seen["proxies"]):
        return f"{to}: not checked, because it is reached through a proxy"
    outcome = _connect(parts.hostname or "", parts.port or (443 if secure else 80), secure, seen["verify"], limits)
    if outcome is not None:
        raise DeliveryError(f"{to}: {outcome}", retryable=True)
    return f"{to}: the host answers; nothing was sent"


def _connect(host: str, port: int, secure: bool, verify: object, limits: HttpTimeouts) -> str | None:
    """None when it worked, else in words why it did not."""
    try:
        with socket.create_connection((host, port), timeout=limits.connect_s) as plain:
            if secure:
                with _tls(verify).wrap_socket(plain, server_hostname=host):
                    pass
    except (OSError, UnicodeError) as error:
        return in_words(error, limits)
    return None


def _tls(verify: object) -> ssl.SSLContext:
    """The authorities that requests would trust: certifi's, or what REQUESTS_CA_BUNDLE says."""
    bundle = Path(verify) if isinstance(verify, str) else Path(DEFAULT_CA_BUNDLE_PATH)
    if bundle.is_dir():
        return ssl.create_default_context(capath=bundle)
    return ssl.create_default_context(cafile=bundle)
