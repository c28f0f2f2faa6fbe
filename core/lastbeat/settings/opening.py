"""Settings → the stores that they name."""

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lastbeat import stores
from lastbeat.settings import Settings, SettingsError
from lastbeat.settings.table import DASHBOARD_URL
from lastbeat.stores import registry
from lastbeat.stores.kind import DIRECTORY
from lastbeat.stores.local import FOLLOW_LINKS
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
    bare = bare_store(settings)
    return stores.retrying.RetryingStore(bare if tally is None else stores.counting.CountingStore(bare, tally))


def bare_store(settings: Settings, *, training: bool = False) -> Store:
    """The same without retries. ``training`` is for what reports itself, not for a watchdog: a directory that is not
    there is made by the first write."""
    try:
        return registry.open_store(settings.root, settings.values, settings.environ, training=training)
    except ValueError as fault:
        # What only the adapter can judge: boto3's own variables, and its files.
        raise SettingsError([str(fault)]) from None


def place(settings: Settings, address: str) -> Store:
    """The store at ``address`` (``s3://…``, ``gs://…``, ``az://…``, a directory), with the settings' credentials. For
    what a person names, so a directory's links are followed. Raises as :func:`store`."""
    try:
        root = registry.parse(address)
        values = settings.values.replaced(FOLLOW_LINKS, True) if root.scheme == DIRECTORY else settings.values
        return stores.retrying.RetryingStore(registry.open_store(root, values, settings.environ))
    except ValueError as fault:
        raise SettingsError([f"{address} {fault}"]) from None


def state(settings: Settings) -> Store | None:
    """The state directory: for records if the fleet root cannot be written to, and for how far logs were read. The
    first write creates it, readable for its user alone: it holds unmasked log lines."""
    if settings.state_dir is None:
        return None
    return stores.directory.DirectoryStore(settings.state_dir, create=True, private=True, trusting=True)


def state_dir(settings: Settings, *, writes: bool) -> Path:
    """Where jobs are remembered: the state directory. Raises :class:`SettingsError` where there is none, or where
    nothing could be written although something ``writes`` there."""
    directory = settings.state_dir
    if directory is None:
        raise SettingsError(["LASTBEAT_STATE_DIR is not set, and there is no home: jobs are remembered there"])
    if not writes:
        return directory
    # It is made when it is needed, so what counts until then is the nearest folder that exists.
    remedy = "jobs are remembered there: set LASTBEAT_STATE_DIR to a folder that you may write to"
    try:
        near = next(path for path in (directory, *directory.parents) if path.exists())
        if not near.is_dir():
            raise SettingsError([f"the state directory {directory} cannot be used: {near} is no folder; {remedy}"])
        if not os.access(near, os.W_OK | os.X_OK):
            raise SettingsError([f"the state directory {directory} cannot be written to; {remedy}"])
    except OSError as error:
        why = error.strerror or error
        raise SettingsError([f"the state directory {directory} cannot be used: {why}; {remedy}"]) from None
    return directory


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
