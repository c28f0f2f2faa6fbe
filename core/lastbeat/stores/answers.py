"""Turns an object store's answer into an error: one short line, advice, and no secrets.

The client library gives its errors as text with the request's address and the server's XML, and neither belongs into
an alert or a log. Only the status, the error code and the region are taken from it.
"""

import re

from lastbeat.model.pattern import Pattern
from lastbeat.stores.endpoint import was_kept
from lastbeat.stores.kind import Remedies
from lastbeat.stores.port import DeniedError, MissingStoreError, StoreError, UnreachableError

_STATUS = Pattern(r"status code: (\d{3})")
_CODE = Pattern(r"<Code>([A-Za-z0-9.]{1,60})</Code>")
_REGION = Pattern(r"<Region>([a-z0-9-]{1,40})</Region>")
_ENDPOINT_REGION = Pattern(r"<Endpoint>[^<]{0,200}?s3[.-]([a-z]{2}-[a-z0-9-]{3,30})\.amazonaws")
_TOKEN = Pattern(r"[Ee]rror performing token request|TokenRequest \{|GET https?://(169\.254\.169\.254|metadata\.)")
_BATCH = Pattern(r"Bulk delete request failed.{0,2000}?\(code: (\d{3})\)", re.DOTALL)
_PROVIDER = Pattern(r"credential provider: \w+: ([^\n]{1,300})")

_BUSY = {
    "SlowDown": "the store asks to slow down",
    "Throttling": "the store asks to slow down",
    "RequestTimeout": "the store gave up waiting for the request",
    "OperationAborted": "the bucket is being created or deleted",
    "ServerBusy": "the store asks to slow down",
    "OperationTimedOut": "the store gave up waiting for the request",
}


def status_of(text: str) -> int | None:
    """The HTTP status within the text of a client error."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def code_of(text: str) -> str | None:
    """The store's error code within the text of a client error."""
    found = _CODE.search(text)
    return found[1] if found else None


def explain(error: Exception, url: str, doing: str, remedies: Remedies) -> StoreError:
    """The error to raise for ``error``, which the client raised while ``doing`` (``reading run-1/_error``)."""
    text = str(error)
    status, code = status_of(text), code_of(text)
    if found := _PROVIDER.search(text):
        return DeniedError(f"{url}: {found[1]}", remedies.expired)
    if _TOKEN.search(text):
        return _without_token(status, url, doing, remedies)
    if was_kept(text):
        return sent_on(url, remedies)
    if found := _BATCH.search(text):
        status = int(found[1])
    if status is None:
        return _without_answer(text, url, doing, remedies)
    region = _REGION.search(text) or _ENDPOINT_REGION.search(text)
    return from_answer(status, code, region[1] if region else None, url, doing, remedies)


def from_answer(
    status: int, code: str | None, region: str | None, url: str, doing: str, remedies: Remedies
) -> StoreError:
    """The error for an answer with this HTTP status, error code and region (if it named one)."""
    said = f"{status} {code}" if code else str(status)
    if code in remedies.no_place:
        return MissingStoreError(f"{url}: there is no such {remedies.place}", remedies.create)
    if code in remedies.elsewhere or (remedies.region and status in {301, 307, 308}):
        return elsewhere(url, region, remedies)
    if status in {301, 302, 303, 307, 308}:
        return sent_on(url, remedies)
    if code is not None and code in remedies.denied:
        what, advice = remedies.denied[code]
        return DeniedError(f"{url}: {what} ({said})", advice)
    if status in {401, 403}:
        permission = remedies.allow.get(doing.split(" ", 1)[0], remedies.allow["deleting"])
        return DeniedError(f"{url}: access denied when {doing} ({said})", f"give these credentials {permission} there")
    if code in _BUSY or status in {408, 429} or status >= 500:
        why = _BUSY.get(code or "", "the store has trouble")
        return UnreachableError(f"{url}: {why} when {doing} ({said})", "it should pass; try again in a moment")
    if status == 404:
        return StoreError(
            f"{url}: answered {said} when {doing}, which is not how an object store speaks",
            f"check the endpoint ({remedies.endpoint})",
        )
    return StoreError(f"{url}: answered {said} when {doing}", "check the endpoint and the permissions")


def elsewhere(url: str, region: str | None, remedies: Remedies) -> MissingStoreError:
    """The error for a bucket in another region, which is ``region`` if that is known."""
    if region:
        return MissingStoreError(f"{url}: the bucket lies in region {region}", f"set {remedies.region}={region}")
    return MissingStoreError(
        f"{url}: the bucket lies in another region", f"set {remedies.region} to the bucket's own region"
    )


def sent_on(url: str, remedies: Remedies) -> StoreError:
    """The error for a redirect to another host. lastbeat does not follow it, because the request carries
    credentials."""
    names = f"{remedies.endpoint} or {remedies.region}" if remedies.region else remedies.endpoint
    return StoreError(
        f"{url}: the endpoint sends requests on to another host, which lastbeat does not follow",
        f"correct {names}: name the host that holds the {remedies.place}",
    )


def _without_token(status: int | None, url: str, doing: str, remedies: Remedies) -> StoreError:
    """The error for an issuer of credentials that issued none. Leaves out the answer's text, which may hold a token."""
    if status is None or status in {408, 429} or status >= 500:
        said = f"answered {status}" if status else "could not be reached"
        return UnreachableError(f"{url}: what issues this machine's credentials {said} when {doing}", remedies.login)
    return DeniedError(f"{url}: no credentials were issued for this machine ({status}) when {doing}", remedies.login)


def _without_answer(text: str, url: str, doing: str, remedies: Remedies) -> StoreError:
    if "InvalidCertificate" in text:
        return StoreError(f"{url}: the server's certificate is not trusted", remedies.trust)
    if "redirect without LOCATION" in text and remedies.region:
        return elsewhere(url, None, remedies)
    host = re.search(r"https?://([^/\s?\"]+)", text)
    network = f"check the network and the endpoint{f' {host[1]}' if host else ''} ({remedies.endpoint})"
    if "dns error" in text:
        return UnreachableError(f"{url}: the name of the store's host cannot be resolved when {doing}", network)
    if "kind: Timeout" in text or "TimedOut" in text:
        return UnreachableError(f"{url}: no answer in time when {doing}", network)
    if "HTTP error" in text:
        return UnreachableError(f"{url}: no connection, or it broke, when {doing}", network)
    return StoreError(
        f"{url}: an answer that is not how an object store speaks, when {doing}",
        f"check the endpoint ({remedies.endpoint})",
    )
