"""Credentials and settings of AWS profiles, SSO, web identity, containers and instance roles, found by botocore."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from lastbeat.stores.port import DeniedError, StoreError
from lastbeat.stores.s3_credentials import Provider, credential

if TYPE_CHECKING:
    from obstore.store import S3Credential

ASK_AGAIN_S = 60.0
"""Time in s that obstore may keep credentials which botocore renews some minutes before they expire."""

_ADVICE = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, run `aws sso login`, or give the machine a role"
)


def provider(env: Mapping[str, str], url: str) -> Provider:
    """The provider of a profile's, a container's or a machine's credentials. Raises :class:`DeniedError` if there are
    none."""

    def denied(error: Exception) -> DeniedError:
        # The type of the error is enough, and its text may hold an address with a token.
        return DeniedError(f"{url}: the AWS credentials could not be loaded ({type(error).__name__})", _ADVICE)

    try:
        held = session(env).get_credentials()
    except BotoCoreError as error:
        raise denied(error) from None
    if held is None:
        raise DeniedError(f"{url}: no AWS credentials were found", _ADVICE)
    renews = isinstance(held, RefreshableCredentials)

    def provide() -> "S3Credential":
        try:
            # Renews them first if they expire soon.
            frozen = held.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            raise denied(error) from None
        expires_at = datetime.now(timezone.utc) + timedelta(seconds=ASK_AGAIN_S) if renews else None
        return credential(frozen.access_key or "", frozen.secret_key or "", frozen.token, expires_at)

    provide()  # so that faulty credentials raise here, not on a thread of obstore's
    return provide


def session(env: Mapping[str, str]) -> Session:
    """A botocore session that uses ``env`` where that differs from this process's own environment."""
    made = Session()
    wanted = env.get("AWS_DEFAULT_PROFILE") or env.get("AWS_PROFILE") or None  # in botocore's order
    if wanted != made.get_config_variable("profile"):
        made = Session(profile=wanted)
    for variable, name in (("config_file", "AWS_CONFIG_FILE"), ("credentials_file", "AWS_SHARED_CREDENTIALS_FILE")):
        if env.get(name):
            made.set_config_variable(variable, env[name])
    return made


def profile_settings(env: Mapping[str, str]) -> dict[str, str | None]:
    """``endpoint`` and ``ca_bundle`` of the profile in use, whose ``services`` section outranks its own line.

    Raises :class:`StoreError` if the files or the profile cannot be understood.
    """
    made = session(env)
    try:
        profile: dict[str, Any] = made.get_scoped_config()
        services = made.full_config.get("services", {}).get(profile.get("services"), {})
    except BotoCoreError as error:
        raise StoreError(
            f"the AWS configuration could not be understood ({type(error).__name__})",
            "check AWS_PROFILE and the files ~/.aws/config and ~/.aws/credentials",
        ) from None
    endpoint = services.get("s3", {}).get("endpoint_url") or profile.get("endpoint_url")
    ignored = str(profile.get("ignore_configured_endpoint_urls", "")).lower() == "true"
    return {"endpoint": None if ignored else endpoint, "ca_bundle": profile.get("ca_bundle")}
