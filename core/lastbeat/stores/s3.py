"""``s3://bucket/prefix``: Amazon S3, and every store that speaks its protocol."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from lastbeat.model.setting import Setting, SettingValues, shown, web_address
from lastbeat.stores.kind import S3_LIST, Remedies, Root, Traits
from lastbeat.stores.port import check_prefix

NAME: Final = "S3"
SCHEME: Final = "s3"
EXAMPLE: Final = "s3://bucket/prefix"
TRAITS: Final = Traits(S3_LIST)
ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
"""boto3's own variables, which are not settings of lastbeat."""
_SECRET_CHARS: Final = 16
"""Least characters of a secret that is masked. Real ones have 40; masking "test" of a local server would spoil run
ids."""

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
REMEDIES: Final = Remedies(
    place="bucket",
    endpoint="AWS_ENDPOINT_URL",
    login="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws sso login`",
    expired="check the credentials, or renew them with `aws sso login`",
    create="create the bucket, or correct MONITORING_ROOT or MONITORING_BUCKET",
    trust="give the certificate authority's file in AWS_CA_BUNDLE, or check the endpoint",
    allow={
        "reading": "s3:GetObject",
        "writing": "s3:PutObject",
        "listing": "s3:ListBucket",
        "deleting": "s3:DeleteObject",
    },
    no_place=frozenset({"NoSuchBucket"}),
    no_key=frozenset({"NoSuchKey", "NoSuchVersion"}),
    denied=_DENIED,
    # The wrong region answers with one of these, and names the right one only sometimes.
    elsewhere=frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}),
    region="MONITORING_REGION",
)


def bucket_name(text: str) -> str:
    """``text`` as a bucket's name. Raises ``ValueError``, whose text completes a sentence that begins with it."""
    if "/" in text:
        bare = text.rpartition("://")[2].partition("/")[0]
        raise ValueError(
            f"is an address and not a bucket's name: give the name alone ({shown(bare)}), or the whole address as the "
            "root (MONITORING_ROOT or --root)"
        )
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", text, re.ASCII) or ".." in text:
        raise ValueError(
            "is not a bucket's name: 3 to 63 characters of a-z 0-9 . - with a letter or digit at both ends"
        )
    return text


def _region(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9-]{1,40}", text, re.ASCII):
        raise ValueError("is not a region's name")
    return text


MONITORING_REGION = Setting[str](
    "MONITORING_REGION",
    _region,
    "AWS region of the bucket; AWS_REGION or AWS_DEFAULT_REGION stand in where it is not set.",
    default="us-east-1",
    example="us-east-1",
    option="--region",
    stands_in=("AWS_REGION", "AWS_DEFAULT_REGION"),
)
AWS_ENDPOINT_URL = Setting[str | None](
    "AWS_ENDPOINT_URL",
    web_address,
    "Address of an S3-compatible store; boto3's other variables are honoured as boto3 does, too.",
    example="http://localhost:9000",
)
SETTINGS: Final = (MONITORING_REGION, AWS_ENDPOINT_URL)


def parse(address: str) -> Root:
    """As :meth:`lastbeat.stores.registry.StoreModule.parse`."""
    bucket, _, rest = address.partition("/")
    if not bucket:
        raise ValueError("names no bucket")
    return Root(SCHEME, bucket_name(bucket), check_prefix(rest) or None)


def secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """As :meth:`lastbeat.stores.registry.StoreModule.secrets`."""
    texts = (environ.get(name, "").strip() for name in SECRETS)
    return (text for text in texts if len(text) >= _SECRET_CHARS)


def credentials(values: SettingValues, environ: Mapping[str, str]) -> str:
    """Empty, because boto3 finds the credentials itself."""
    return ""


def endpoint(values: SettingValues, environ: Mapping[str, str]) -> str:
    """As :meth:`lastbeat.stores.registry.StoreModule.endpoint`."""
    return next((name for name in ENDPOINTS if environ.get(name, "").strip()), "")


def console_link(root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
    """As :meth:`lastbeat.stores.registry.StoreModule.console_link`."""
    if endpoint(values, environ):
        return None
    region = values[MONITORING_REGION]
    # AWS has three partitions, each with a console of its own.
    others = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
    host = next((own for start, own in others.items() if region.startswith(start)), "console.aws.amazon.com")
    folder = quote(f"{root.prefix}/{run_id}/".lstrip("/"), safe="")
    return f"https://{host}/s3/buckets/{root.place}?region={region}&prefix={folder}"
