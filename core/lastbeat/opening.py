"""Settings → the stores that they name. An adapter is imported only when it is chosen."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from lastbeat.settings import Settings, SettingsError
from lastbeat.settings.table import DASHBOARD_URL
from lastbeat.stores import registry
from lastbeat.stores.port import Store

if TYPE_CHECKING:
    from lastbeat.stores.counting import Tally


def root_url(settings: Settings) -> str:
    """The fleet root as users write it."""
    return settings.root.url


def store(settings: Settings, *, tally: "Tally | None" = None) -> Store:
    """The store of the fleet root, with bounded retries. Sends no request yet.

    ``tally`` counts what is asked of it, each attempt on its own.

    Raises :class:`SettingsError` or :class:`StoreError` for what cannot be understood of a provider's own settings.
    """
    from lastbeat.stores.retrying import RetryingStore  # noqa: PLC0415 - together with what it wraps

    bare = bare_store(settings)
    if tally is not None:
        from lastbeat.stores.counting import CountingStore  # noqa: PLC0415 - only a sweep counts

        bare = CountingStore(bare, tally)
    return RetryingStore(bare)


def bare_store(settings: Settings, *, training: bool = False) -> Store:
    """The same without retries. ``training`` is for what reports itself, not for a watchdog: a directory that is not
    there is made by the first write."""
    kind = registry.of(settings.root)
    try:
        return kind.open_store(settings.root, settings.values, settings.environ, training=training)
    except ValueError as fault:
        # What only the adapter can judge: boto3's own variables, and its files.
        raise SettingsError([str(fault)]) from None


def state(settings: Settings) -> Store | None:
    """The state directory: for records if the fleet root cannot be written to, and for how far logs were read. The
    first write creates it, readable for its user alone: it holds unmasked log lines."""
    if settings.state_dir is None:
        return None
    from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - only where there is one

    return DirectoryStore(settings.state_dir, create=True, private=True, trusting=True)


def run_link(settings: Settings, run_id: str) -> str | None:
    """Where people look at the run: its page below LASTBEAT_DASHBOARD_URL, else its folder where the store's provider
    shows it. None: there is no such page."""
    dashboard = settings[DASHBOARD_URL]
    if dashboard is not None:
        # A page that passes write is a file, a dashboard a folder.
        slash = "" if dashboard.endswith((".html", "/")) else "/"
        return f"{dashboard}{slash}#/runs/{quote(run_id, safe='')}"
    return console_link(settings, run_id)


def console_link(settings: Settings, run_id: str) -> str | None:
    """The run's folder where the store's provider shows it. None: there is no such page."""
    return registry.of(settings.root).console_link(settings.root, settings.values, settings.environ, run_id)
