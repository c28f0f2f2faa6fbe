"""``s3://bucket/prefix``: finds its region and endpoint in boto3's way, and opens the store."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lastbeat.model.data import dataclass
from lastbeat.model.pattern import Pattern
from lastbeat.model.setting import Setting, SettingValues, shown, web_address
from lastbeat.stores.kind import S3_LIST, Remedies, Root, Traits
from lastbeat.stores.port import Page, StoreError, UnreachableError, check_key, check_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

    from lastbeat.stores.objects import ObjectStore

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

_AWS_REGION = Pattern(r"[a-z]{2,5}(-[a-z]+)+-\d{1,2}")
_URL = Pattern(r"s3://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,254})(?:/(?P<prefix>.*))?", re.DOTALL)
_TRUE = {"true", "1", "yes", "on"}

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


def open_store(
    root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
) -> "ObjectStore":
    """As :meth:`lastbeat.stores.registry.StoreModule.open_store`."""
    return s3_store(root.url, environ, region=values[MONITORING_REGION])


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


@dataclass(frozen=True, slots=True)
class Place:
    """A fleet root on S3. ``prefix`` has no slash at either end; ``endpoint`` is a whole URL."""

    bucket: str
    prefix: str
    region: str
    endpoint: str
    ca_bundle: str | None
    connect_s: float
    request_s: float

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_s3_url(url: str) -> tuple[str, str]:
    """``s3://bucket/prefix/`` → ``("bucket", "prefix")``. Raises ``ValueError`` that names the fault."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(f"{url[:120]!r} is no S3 address; use for example s3://my-bucket/training-runs")
    prefix = (found["prefix"] or "").strip("/")
    if prefix:
        try:
            check_key(prefix)
        except ValueError:
            raise ValueError(f"{url[:120]!r} has an empty, '.' or '..' part in its prefix; write it plainly") from None
        if any(ord(c) < 32 or ord(c) == 127 for c in prefix):
            raise ValueError(f"{url[:120]!r} has a control character in its prefix")
    return found["bucket"], prefix


def s3_store(
    url: str, env: Mapping[str, str], *, region: str, connect_s: float = 3.0, request_s: float = 10.0
) -> "ObjectStore":
    """The store for ``url``. Its client is imported and connected only at its first call.

    ``env`` are the environment variables that boto3 knows (``AWS_…``, proxies). ``connect_s`` limits the connection and
    ``request_s`` each whole request, in seconds. Raises ``ValueError`` for a malformed url or region, and
    :class:`StoreError` if the AWS configuration files cannot be understood.
    """
    # Reading settings alone must not load the client of a store.
    from lastbeat.stores import answers  # noqa: PLC0415
    from lastbeat.stores.clock import StoreClock  # noqa: PLC0415
    from lastbeat.stores.endpoint import EndpointAnswer, ask_endpoint, goes_through_proxy, was_kept  # noqa: PLC0415
    from lastbeat.stores.objects import Dialect, ObjectStore, Relisting  # noqa: PLC0415

    bucket, prefix = parse_s3_url(url)
    if not re.fullmatch(r"[a-z0-9-]{1,40}", region):
        raise ValueError(f"{region[:60]!r} is no AWS region; use for example us-east-1")
    configured = _configured(env)
    given = _endpoint(env, configured.endpoint)
    if given is None and not _AWS_REGION.fullmatch(region):
        # Other stores may use any name for a region.
        raise ValueError(f"{MONITORING_REGION.name}={shown(region)} is no AWS region{_nearly(region)}")
    at = given or _aws_endpoint(env, region)
    ca_bundle = env.get("AWS_CA_BUNDLE") or configured.ca_bundle
    place = Place(bucket, prefix, region, at, ca_bundle, connect_s, request_s)

    def endpoint_answer() -> EndpointAnswer:
        # Only obstore supports a proxy. The endpoint's own answer is helpful, but not necessary.
        found = None
        if not goes_through_proxy(at, env):
            found = ask_endpoint(at, bucket, timeout_s=connect_s, ca_bundle=ca_bundle)
        return found or EndpointAnswer()

    def explain(error: Exception, where: str, doing: str) -> StoreError:
        explained = answers.explain(error, where, doing, REMEDIES)
        sent_on = was_kept(str(error))
        if given is None and isinstance(explained, UnreachableError) and "dns error" in str(error):
            # AWS has a host name for the store of each existing region.
            remedy = f"check the network, and that there is a region {region} ({MONITORING_REGION.name})"
            return UnreachableError(str(explained), remedy)
        if not sent_on and str(explained) != str(answers.elsewhere(where, None, REMEDIES)):
            return explained
        # Only the headers of that answer name the region, and obstore does not pass them on.
        own = endpoint_answer().headers.get("x-amz-bucket-region")
        return (
            answers.sent_on(where, REMEDIES)
            if sent_on and own in {None, place.region}
            else answers.elsewhere(where, own, REMEDIES)
        )

    def relist(folder: str, start_after: str, limit: int) -> Page:
        from lastbeat.stores.s3_listing import list_page  # noqa: PLC0415 - loads boto3

        return list_page(place, env, folder, start_after, limit)

    def refolder() -> tuple[str, ...]:
        from lastbeat.stores.s3_listing import list_folders  # noqa: PLC0415 - as above

        return list_folders(place, env)

    return ObjectStore(
        lambda: _connect(place, env),
        url=place.url,
        clock=StoreClock(lambda: endpoint_answer().time_s, place.url),
        dialect=Dialect(TRAITS, REMEDIES),
        relisting=Relisting(relist, refolder),
        explain=explain,
    )


def _connect(place: Place, env: Mapping[str, str]) -> "Backend":
    # 25 ms together, which `--help` and the watcher of a directory need not wait for.
    from obstore.store import S3Store  # noqa: PLC0415

    from lastbeat.stores.endpoint import client_options  # noqa: PLC0415
    from lastbeat.stores.s3_credentials import credential_provider  # noqa: PLC0415

    options: Any = client_options(place.endpoint, env, connect_s=place.connect_s, request_s=place.request_s)
    if place.ca_bundle:
        options["root_certificate"] = _certificates(place)
    # obstore takes missing options from the environment, so all relevant ones are given.
    config: Any = {
        "region": place.region,
        "endpoint": place.endpoint,
        "virtual_hosted_style_request": False,
        "skip_signature": False,
    }
    if env.get("AWS_ENDPOINT_URL_S3"):
        config["aws_endpoint_url_s3"] = place.endpoint
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,
        client_options=options,
        retry_config={"max_retries": 0},
        credential_provider=credential_provider(env, place.url),
    )


def _certificates(place: Place) -> bytes:
    try:
        return Path(place.ca_bundle or "").read_bytes()
    except OSError as error:
        raise StoreError(
            f"{place.url}: the certificates in {place.ca_bundle} cannot be read: {error.strerror}",
            "correct AWS_CA_BUNDLE: it names a file of certificates in PEM format",
        ) from None


def _nearly(region: str) -> str:
    """A suggestion for a mistyped region: ``eu-west-1`` for ``eu-west1`` or ``eu-west-1a``."""
    bare = re.sub(r"(\d)[a-z]$", r"\1", region)
    bare = re.sub(r"(?<=[a-z])(?=\d+$)", "-", bare)
    return (
        f"; did you mean {bare}?" if bare != region and _AWS_REGION.fullmatch(bare) else "; use for example us-east-1"
    )


def _endpoint(env: Mapping[str, str], configured: str | None) -> str | None:
    """The endpoint in boto3's order: the environment, S3's own before the general one, then the profile."""
    if _is_true(env.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")):
        return None
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or configured
    if endpoint and not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", endpoint):
        raise ValueError(
            "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url is no web address;"
            " use for example http://127.0.0.1:9000"
        )
    return endpoint.rstrip("/") if endpoint else None


def _aws_endpoint(env: Mapping[str, str], region: str) -> str:
    name = "s3-fips" if _is_true(env.get("AWS_USE_FIPS_ENDPOINT")) else "s3"
    if _is_true(env.get("AWS_USE_DUALSTACK_ENDPOINT")):
        name += ".dualstack"
    return f"https://{name}.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() in _TRUE


@dataclass(frozen=True, slots=True)
class _Configured:
    endpoint: str | None = None
    ca_bundle: str | None = None


def _configured(env: Mapping[str, str]) -> _Configured:
    """The endpoint and certificates in the AWS configuration files. botocore, which reads them like boto3, takes 0.15 s
    to import, so it is used only if one of the files mentions either."""
    files = (
        env.get("AWS_CONFIG_FILE") or "~/.aws/config",
        env.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
    )
    if not any(_speaks_of_endpoint(Path(file)) for file in files):
        return _Configured()
    from lastbeat.stores.s3_credentials import profile_settings  # noqa: PLC0415 - loads botocore

    return _Configured(**profile_settings(env))


def _speaks_of_endpoint(file: Path) -> bool:
    try:
        text = file.expanduser().read_text(encoding="utf-8", errors="replace")
    except (OSError, RuntimeError):
        return False  # no file, or no home directory: then boto3 finds nothing there either
    return "endpoint_url" in text or "ca_bundle" in text
