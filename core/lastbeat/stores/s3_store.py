"""The store behind an ``s3://`` address: obstore's client, with region and endpoint found in boto3's way."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from obstore.store import ObjectStore as Backend
from obstore.store import S3Store

from lastbeat import stores
from lastbeat.model.data import dataclass
from lastbeat.model.pattern import Pattern
from lastbeat.model.setting import SettingValues, shown
from lastbeat.stores import answers
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.endpoint import EndpointAnswer, ask_endpoint, client_options, goes_through_proxy, was_kept
from lastbeat.stores.kind import Root
from lastbeat.stores.objects import Dialect, ObjectStore, Relisting
from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.stores.s3 import MONITORING_REGION, REMEDIES, TRAITS
from lastbeat.stores.s3_credentials import credential_provider

_AWS_REGION = Pattern(r"[a-z]{2,5}(-[a-z]+)+-\d{1,2}")
_TRUE = {"true", "1", "yes", "on"}


def open_store(root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False) -> ObjectStore:
    """As :meth:`lastbeat.stores.registry.StoreAdapter.open_store`."""
    return s3_store(root, environ, region=values[MONITORING_REGION])


@dataclass(frozen=True, slots=True)
class Place:
    """A fleet root on S3, and how to reach it. ``endpoint`` is a whole URL."""

    root: Root
    region: str
    endpoint: str
    ca_bundle: str | None
    connect_s: float
    request_s: float


def s3_store(
    root: Root, env: Mapping[str, str], *, region: str, connect_s: float = 3.0, request_s: float = 10.0
) -> ObjectStore:
    """The store for ``root``. Its client is connected at its first call.

    ``env`` are the environment variables that boto3 knows (``AWS_…``, proxies). ``connect_s`` limits the connection and
    ``request_s`` each whole request, in seconds. Raises ``ValueError`` for a malformed region or endpoint,
    and :class:`StoreError` if the AWS configuration files cannot be understood.
    """
    configured = _configured(env)
    given = _endpoint(env, configured.endpoint)
    if given is None and not _AWS_REGION.fullmatch(region):
        # Other stores may use any name for a region.
        raise ValueError(f"{MONITORING_REGION.name}={shown(region)} is no AWS region{_nearly(region)}")
    at = given or _aws_endpoint(env, region)
    ca_bundle = env.get("AWS_CA_BUNDLE") or configured.ca_bundle
    place = Place(root, region, at, ca_bundle, connect_s, request_s)

    def endpoint_answer() -> EndpointAnswer:
        # Only obstore supports a proxy. The endpoint's own answer is helpful, but not necessary.
        found = None
        if not goes_through_proxy(at, env):
            found = ask_endpoint(at, root.place, timeout_s=connect_s, ca_bundle=ca_bundle)
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

    return ObjectStore(
        lambda: _connect(place, env),
        url=place.root.url,
        clock=StoreClock(lambda: endpoint_answer().time_s, place.root.url),
        dialect=Dialect(TRAITS, REMEDIES),
        relisting=lambda: _relisting(place, env),
        explain=explain,
    )


def _relisting(place: Place, env: Mapping[str, str]) -> Relisting:
    """Lists through botocore, for a root with a key that obstore cannot represent."""
    return Relisting(
        partial(stores.s3_listing.list_page, place, env), partial(stores.s3_listing.list_folders, place, env)
    )


def _connect(place: Place, env: Mapping[str, str]) -> Backend:
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
        place.root.place,
        prefix=place.root.prefix or None,
        config=config,
        client_options=options,
        retry_config={"max_retries": 0},
        credential_provider=credential_provider(env, place.root.url),
    )


def _certificates(place: Place) -> bytes:
    try:
        return Path(place.ca_bundle or "").read_bytes()
    except OSError as error:
        raise StoreError(
            f"{place.root.url}: the certificates in {place.ca_bundle} cannot be read: {error.strerror}",
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
    return _Configured(**stores.s3_profiles.profile_settings(env))


def _speaks_of_endpoint(file: Path) -> bool:
    try:
        text = file.expanduser().read_text(encoding="utf-8", errors="replace")
    except (OSError, RuntimeError):
        return False  # no file, or no home directory: then boto3 finds nothing there either
    return "endpoint_url" in text or "ca_bundle" in text
