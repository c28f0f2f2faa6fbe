"""The registry of all kinds of stores. A new one needs a module of facts, an adapter, and a line here."""

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, cast

from lastbeat.model.setting import Setting, SettingValues
from lastbeat.stores.kind import DIRECTORY, UNKNOWN, Prices, Root, Traits
from lastbeat.stores.port import Store

KINDS: Final[dict[str, tuple[str, str]]] = {
    "s3": ("lastbeat.stores.s3", "lastbeat.stores.s3_store"),
    "gs": ("lastbeat.stores.gs", "lastbeat.stores.gs_store"),
    "az": ("lastbeat.stores.az", "lastbeat.stores.az_store"),
    DIRECTORY: ("lastbeat.stores.local", "lastbeat.stores.directory"),
}
"""Scheme of the address → the module of its facts, and its adapter, which loads the client library."""


class StoreModule(Protocol):
    """The interface of the facts of a store, which need no client library."""

    NAME: str
    """Name of the kind for display."""
    EXAMPLE: str
    """An example of an address."""
    SETTINGS: tuple[Setting[Any], ...]
    TRAITS: Traits

    def parse(self, address: str) -> Root:
        """The root for ``address``, which follows the scheme. Raises ``ValueError``, whose text completes a sentence
        that begins with the address."""
        ...

    def secrets(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Secrets in ``environ`` for such a store that are not the value of a setting."""
        ...

    def credentials(self, values: SettingValues, environ: Mapping[str, str]) -> str:
        """The credentials for ``doctor``, in words that follow "accepted", or ""."""
        ...

    def endpoint(self, values: SettingValues, environ: Mapping[str, str]) -> str:
        """The variable that leads to another store than the provider's own, or ""."""
        ...

    def console_link(self, root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
        """The address of a run's folder in its provider's console, or None if there is no such page."""
        ...


class StoreAdapter(Protocol):
    """The interface of a store's adapter."""

    def open_store(
        self, root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
    ) -> Store:
        """The store, without retries and before any request. Raises ``ValueError`` for settings that only the adapter
        can check, and :class:`StoreError` if something necessary is missing."""
        ...


def module(scheme: str) -> StoreModule:
    """The facts of the stores of ``scheme``. Raises ``KeyError`` for one that is not in KINDS."""
    return cast("StoreModule", importlib.import_module(KINDS[scheme][0]))


def open_store(root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False) -> Store:
    """The store of ``root``, by its adapter; see :meth:`StoreAdapter.open_store`. Loads the client library."""
    adapter = cast("StoreAdapter", importlib.import_module(KINDS[root.scheme][1]))
    return adapter.open_store(root, values, environ, training=training)


def of(root: Root) -> StoreModule:
    """The facts of ``root``'s kind."""
    return module(root.scheme)


def settings() -> tuple[Setting[Any], ...]:
    """The settings of every store, in the order of KINDS."""
    return tuple(setting for scheme in KINDS for setting in module(scheme).SETTINGS)


def secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """All secrets in ``environ`` for stores that are not the value of a setting."""
    return tuple(text for scheme in KINDS for text in module(scheme).secrets(environ))


def parse(text: str) -> Root:
    """The fleet root for a user's ``text``. Raises ``ValueError``, whose text completes a sentence that begins with
    it."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?", text)
    name = scheme[1].lower() if scheme else ""
    if scheme and name in KINDS and name != DIRECTORY:
        if not scheme[2]:
            raise ValueError("lacks its slashes")
        return module(name).parse(text[scheme.end() :])
    if scheme and scheme[2]:
        raise ValueError(f"is neither {', '.join(examples()[:-1])} nor a directory")
    return module(DIRECTORY).parse(text)


def prices(url: str) -> Prices:
    """The prices of the store at ``url``; unknown ones for a store that is not in the registry."""
    scheme, found, _ = url.partition("://")
    name = scheme if found else DIRECTORY
    return module(name).TRAITS.prices if name in KINDS else UNKNOWN


def is_address(text: str) -> bool:
    """Whether ``text`` begins with the scheme of a store."""
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.lower() in KINDS and scheme != DIRECTORY


def examples() -> tuple[str, ...]:
    """An example of an address of each kind, a directory's last."""
    return tuple(module(scheme).EXAMPLE for scheme in KINDS)


def beginnings() -> str:
    """How the addresses of all kinds but directories begin, for help: ``s3://, gs:// or az://``. Loads no kind."""
    *others, last = (f"{scheme}://" for scheme in KINDS if scheme != DIRECTORY)
    return f"{', '.join(others)} or {last}"
