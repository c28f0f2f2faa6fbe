"""What an object store answered, in our words: one short line, what to do about it, and no secrets.

The client library gives its errors as text that holds the request's address and the server's XML, and neither
belongs into an alert or a log. Only the status, the error code and the region are taken out of it.
"""

import re

from lastbeat.stores.port import DeniedError, MissingStoreError, StoreError, UnreachableError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,60})</Code>")
_REGION = re.compile(r"<Region>([a-z0-9-]{1,40})</Region>")
_ENDPOINT_REGION = re.compile(r"<Endpoint>[^<]{0,200}?s3[.-]([a-z]{2}-[a-z0-9-]{3,30})\.amazonaws")
_PROVIDER = re.compile(r"credential provider: \w+: ([^\n]{1,300})")

_EXPIRED = "renew them: `aws sso login`, or a new session token"
_DENIED = {
    "ExpiredToken": ("the credentials have expired", _EXPIRED),
    "ExpiredTokenException": ("the credentials have expired", _EXPIRED),
    "TokenRefreshRequired": ("the credentials have expired", _EXPIRED),
    "InvalidToken": ("the session token is not valid", "renew the credentials, or unset AWS_SESSION_TOKEN"),
    "InvalidAccessKeyId": (
        "the access key is not known there",
        "check AWS_ACCESS_KEY_ID (or AWS_PROFILE), and that the endpoint is the one that issued it",
    ),
    "SignatureDoesNotMatch": (
        "the secret key does not fit the access key",
        "check AWS_SECRET_ACCESS_KEY: a missing character or a space at its end is enough",
    ),
    "RequestTimeTooSkewed": (
        "this machine's clock is off by more than the store accepts",
        "set this machine's clock, for example with `timedatectl set-ntp true`",
    ),
    "AccountProblem": ("the account is suspended", "ask the owner of the account"),
    "AllAccessDisabled": ("the bucket is disabled", "ask the owner of the bucket"),
}
# The wrong region answers with one of these, and names the right one only sometimes.
_ELSEWHERE = {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}
_BUSY = {
    "SlowDown": "the store asks to slow down",
    "Throttling": "the store asks to slow down",
    "RequestTimeout": "the store gave up waiting for the request",
    "OperationAborted": "the bucket is being created or deleted",
}
_PERMISSIONS = {"reading": "s3:GetObject", "writing": "s3:PutObject", "listing": "s3:ListBucket"}


def status_of(text: str) -> int | None:
    """The HTTP status within the text of a client error."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def code_of(text: str) -> str | None:
    """The store's error code within the text of a client error."""
    found = _CODE.search(text)
    return found[1] if found else None


def explain(error: Exception, url: str, doing: str) -> StoreError:
    """The error to raise for ``error``, which the client met while ``doing`` (``reading run-1/_error``)."""
    text = str(error)
    status, code = status_of(text), code_of(text)
    region = _REGION.search(text) or _ENDPOINT_REGION.search(text)
    if found := _PROVIDER.search(text):
        return DeniedError(f"{url}: {found[1]}", "check the credentials, or renew them with `aws sso login`")
    if status is None:
        return _without_answer(text, url, doing)
    return from_answer(status, code, region[1] if region else None, url, doing)


def from_answer(status: int, code: str | None, region: str | None, url: str, doing: str) -> StoreError:
    """The error for an answer with this HTTP status, error code and region (where it named one)."""
    said = f"{status} {code}" if code else str(status)
    if code == "NoSuchBucket":
        return MissingStoreError(
            f"{url}: there is no such bucket", "create the bucket, or correct MONITORING_ROOT or MONITORING_BUCKET"
        )
    if code in _ELSEWHERE or status in {301, 307, 308}:
        return elsewhere(url, region)
    if status in {302, 303}:
        return sent_on(url)
    if code in _DENIED:
        what, advice = _DENIED[code]
        return DeniedError(f"{url}: {what} ({said})", advice)
    if status in {401, 403}:
        permission = _PERMISSIONS.get(doing.split(" ", 1)[0], "s3:DeleteObject")
        return DeniedError(f"{url}: access denied when {doing} ({said})", f"give these credentials {permission} there")
    if code in _BUSY or status in {408, 429} or status >= 500:
        why = _BUSY.get(code or "", "the store has trouble")
        return UnreachableError(f"{url}: {why} when {doing} ({said})", "it should pass; try again in a moment")
    if status == 404:
        return StoreError(
            f"{url}: answered {said} when {doing}, which is not how an object store speaks",
            "check the endpoint (AWS_ENDPOINT_URL)",
        )
    return StoreError(f"{url}: answered {said} when {doing}", "check the endpoint and the permissions")


def elsewhere(url: str, region: str | None) -> MissingStoreError:
    """The bucket lies in another region; ``region`` is that one, where it is known."""
    if region:
        return MissingStoreError(f"{url}: the bucket lies in region {region}", f"set MONITORING_REGION={region}")
    return MissingStoreError(
        f"{url}: the bucket lies in another region", "set MONITORING_REGION to the bucket's own region"
    )


def sent_on(url: str) -> StoreError:
    """The endpoint names another host to ask, which is not asked: the request carries what opens the bucket."""
    return StoreError(
        f"{url}: the endpoint sends requests on to another host, which lastbeat does not follow",
        "correct AWS_ENDPOINT_URL or MONITORING_REGION: name the host that holds the bucket",
    )


def _without_answer(text: str, url: str, doing: str) -> StoreError:
    if "InvalidCertificate" in text:
        return StoreError(
            f"{url}: the server's certificate is not trusted",
            "give the certificate authority's file in AWS_CA_BUNDLE, or check the endpoint",
        )
    if "redirect without LOCATION" in text:
        return elsewhere(url, None)
    host = re.search(r"https?://([^/\s?\"]+)", text)
    network = f"check the network and the endpoint{f' {host[1]}' if host else ''} (AWS_ENDPOINT_URL)"
    if "dns error" in text:
        return UnreachableError(f"{url}: the name of the store's host cannot be resolved when {doing}", network)
    if "kind: Timeout" in text or "TimedOut" in text:
        return UnreachableError(f"{url}: no answer in time when {doing}", network)
    if "HTTP error" in text:
        return UnreachableError(f"{url}: no connection, or it broke, when {doing}", network)
    return StoreError(
        f"{url}: an answer that is not how an object store speaks, when {doing}",
        "check the endpoint (AWS_ENDPOINT_URL)",
    )
