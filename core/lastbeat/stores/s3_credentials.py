"""Finds credentials in boto3's order, and loads botocore only where the environment holds no keys."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from lastbeat import stores

if TYPE_CHECKING:
    from obstore.store import S3Credential

Provider = Callable[[], "S3Credential"]


def credential_provider(env: Mapping[str, str], url: str) -> Provider:
    """The provider of credentials for obstore. Keys in the environment outrank any profile, as in boto3, and need no
    import. botocore finds all else (profiles, SSO, web identity, containers, instance roles).

    Raises :class:`DeniedError` if there are none.
    """
    fixed = keys_in(env)
    if fixed is not None:
        access, secret, token = fixed
        return lambda: credential(access, secret, token, None)
    return stores.s3_profiles.provider(env, url)


def keys_in(env: Mapping[str, str]) -> tuple[str, str, str | None] | None:
    """Access key, secret key and session token from the environment, or None if it has none."""
    access, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    token = env.get("AWS_SESSION_TOKEN") or env.get("AWS_SECURITY_TOKEN")
    return (access, secret, token or None) if access and secret else None


def credential(access: str, secret: str, token: str | None, expires_at: datetime | None) -> "S3Credential":
    """Keys as obstore takes them; ``expires_at`` is None for keys that stay."""
    return {"access_key_id": access, "secret_access_key": secret, "token": token, "expires_at": expires_at}
