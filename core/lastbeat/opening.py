"""Settings → the stores that they name. An adapter is imported only when it is chosen."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from lastbeat.settings import Settings, SettingsError
from lastbeat.settings.table import FOLLOW_LINKS, DirectoryRoot
from lastbeat.stores.port import Store

if TYPE_CHECKING:
    from lastbeat.stores.counting import Tally

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


def root_url(settings: Settings) -> str:
    """The fleet root as users write it."""
    root = settings.root
    return str(root.path) if isinstance(root, DirectoryRoot) else f"s3://{root.bucket}/{root.prefix}".rstrip("/")


def store(settings: Settings, *, tally: "Tally | None" = None) -> Store:
    """The store of the fleet root, with bounded retries. Sends no request yet.

    ``tally`` counts what is asked of it, each attempt on its own.

    Raises :class:`SettingsError` or :class:`StoreError` for what cannot be understood of boto3's own settings.
    """
    from lastbeat.stores.retrying import RetryingStore  # noqa: PLC0415 - together with what it wraps

    bare = bare_store(settings)
    if tally is not None:
        from lastbeat.stores.counting import CountingStore  # noqa: PLC0415 - only a sweep counts

        bare = CountingStore(bare, tally)
    return RetryingStore(bare)


def bare_store(settings: Settings, *, training: bool = False) -> Store:
    """The same without retries. With ``training`` the first write creates a missing directory, which is a fault for a
    watchdog; and links are followed, since training can do no more than its user may."""
    root = settings.root
    if isinstance(root, DirectoryRoot):
        from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - only the chosen adapter is loaded

        return DirectoryStore(root.path, create=training, trusting=training or settings[FOLLOW_LINKS])
    from lastbeat.stores.s3 import s3_store  # noqa: PLC0415 - as above

    try:
        return s3_store(root_url(settings), settings.environ, region=settings.region)
    except ValueError as fault:
        # What only the adapter can judge: boto3's own variables, and its files.
        raise SettingsError([str(fault)]) from None


def state(settings: Settings) -> Store | None:
    """The state directory: for records if the fleet root cannot be written to, and for how far logs were read. The
    first write creates it, readable for its user alone: it holds unmasked log lines."""
    if settings.state_dir is None:
        return None
    from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - as above

    return DirectoryStore(settings.state_dir, create=True, private=True, trusting=True)


def console_link(settings: Settings, run_id: str) -> str | None:
    """The run's folder in the S3 console. None: the store has no such console."""
    root = settings.root
    if isinstance(root, DirectoryRoot) or any(settings.environ.get(name, "").strip() for name in _ENDPOINTS):
        return None
    # AWS has three partitions, each with a console of its own.
    others = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
    host = next((own for start, own in others.items() if settings.region.startswith(start)), "console.aws.amazon.com")
    folder = quote(f"{root.prefix}/{run_id}/".lstrip("/"), safe="")
    return f"https://{host}/s3/buckets/{root.bucket}?region={settings.region}&prefix={folder}"
