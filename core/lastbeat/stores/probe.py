"""One small unsigned request, to learn a server's time and the region of a bucket."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Probe:
    """``time_s`` is the server's time when the answer came, in seconds since the epoch, and ``region`` where the
    bucket lies; None for what the server did not say."""

    time_s: float | None
    region: str | None


def probe(endpoint: str, bucket: str, *, timeout_s: float = 3.0, ca_bundle: str | None = None) -> Probe | None:
    """Ask ``endpoint`` about ``bucket``. Any answer serves, a refusal too; None when there is none.

    Returns after about ``timeout_s`` at the latest, also when the answer drips in.
    """
    answers: list[Probe | None] = []
    # The library's own limit is one between two bytes; only somebody who does not wait for it can keep to a total.
    asking = threading.Thread(
        target=lambda: answers.append(_ask(endpoint, bucket, timeout_s, ca_bundle)), name="lastbeat-probe", daemon=True
    )
    asking.start()
    asking.join(timeout_s)
    return answers[0] if answers else None


def _ask(endpoint: str, bucket: str, timeout_s: float, ca_bundle: str | None) -> Probe | None:
    # 18 ms to import, and most processes that import this module never come here.
    import http.client  # noqa: PLC0415
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        parts = urlsplit(endpoint)
        if parts.scheme == "https":
            import ssl  # noqa: PLC0415

            context = ssl.create_default_context(cafile=ca_bundle)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.netloc, timeout=timeout_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        try:
            asked = time.monotonic()
            connection.request("HEAD", f"{parts.path.rstrip('/')}/{quote(bucket)}")
            answer = connection.getresponse()
            travel_s = time.monotonic() - asked
            date = answer.getheader("Date", "")
            region = answer.getheader("x-amz-bucket-region")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        _log.debug("the probe of %s failed: %s", endpoint, type(error).__name__)
        return None
    try:
        # Cut to whole seconds, by half a second on average, and then it travelled back.
        return Probe(parsedate_to_datetime(date).timestamp() + 0.5 + travel_s / 2, region)
    except (ValueError, TypeError):  # the latter on Python 3.10
        return Probe(None, region)


def goes_through_proxy(endpoint: str, env: Mapping[str, str]) -> bool:
    """Whether ``env`` sends requests to ``endpoint`` through a proxy, which the probe cannot use."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    excluded = (env.get("no_proxy") or env.get("NO_PROXY") or "").replace(" ", "").split(",")
    if any(e == "*" or (e and f".{host}".endswith(f".{e.lstrip('.')}")) for e in excluded):
        return False
    names = (f"{parts.scheme}_proxy", "all_proxy")
    return any(env.get(name) or env.get(name.upper()) for name in names)
