"""Every kind of store there is: a new one is a module and a line here."""

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, cast

from lastbeat.model.setting import Setting, SettingValues
from lastbeat.stores.kind import DIRECTORY, UNKNOWN, Prices, Root, Traits
from lastbeat.stores.port import Store

KINDS: Final[dict[str, str]] = {
    "s3": "lastbeat.stores.s3",
    "gs": "lastbeat.stores.gs",
    "az": "lastbeat.stores.az",
    DIRECTORY: "lastbeat.stores.local",
}
"""Scheme of the address → module. Importing one loads neither a client library nor the adapter that uses it."""


class StoreModule(Protocol):
    """What a store's module offers."""

    NAME: str
    """As people are told of it."""
    EXAMPLE: str
    """An address."""
    SETTINGS: tuple[Setting[Any], ...]
    TRAITS: Traits

    def parse(self, address: str) -> Root:
        """What follows the scheme, as a root. Raises ``ValueError`` with the end of a sentence."""
        ...

    def secrets(self, environ: Mapping[str, str]) -> Iterator[str]:
        """Texts in ``environ`` that open such a store and stand in no setting of their own."""
        ...

    def open_store(
        self, root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
    ) -> Store:
        """The store, which asks nobody yet and does not try again. Raises ``ValueError`` for settings that only the
        adapter can judge, and :class:`StoreError` where something is missing that it cannot do without."""
        ...

    def credentials(self, values: SettingValues, environ: Mapping[str, str]) -> str:
        """For ``doctor``: what the store will be opened with, in words that follow "accepted"; "" says nothing."""
        ...

    def endpoint(self, values: SettingValues, environ: Mapping[str, str]) -> str:
        """The variable that leads to another store than the provider's own; "" where none does."""
        ...

    def console_link(self, root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
        """The folder of a run where its provider shows it; None where there is no such page."""
        ...


def module(scheme: str) -> StoreModule:
    """The module of the stores of ``scheme``; raises ``KeyError`` for one that is not in KINDS."""
    return cast("StoreModule", importlib.import_module(KINDS[scheme]))


def of(root: Root) -> StoreModule:
    """The module of ``root``'s kind."""
    return module(root.scheme)


def settings() -> tuple[Setting[Any], ...]:
    """The settings of every store, in the order of KINDS."""
    return tuple(setting for scheme in KINDS for setting in module(scheme).SETTINGS)


def secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every text in ``environ`` that opens a store and stands in no setting of its own."""
    return tuple(text for scheme in KINDS for text in module(scheme).secrets(environ))


def parse(text: str) -> Root:
    """A fleet root as people write it. Raises ``ValueError`` with the end of a sentence."""
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
    """What requests cost of the store at ``url``; of one that is in no registry nobody knows."""
    scheme, found, _ = url.partition("://")
    name = scheme if found else DIRECTORY
    return module(name).TRAITS.prices if name in KINDS else UNKNOWN


def is_address(text: str) -> bool:
    """Whether ``text`` is meant as the address of a store that has a scheme."""
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.lower() in KINDS and scheme != DIRECTORY


def examples() -> tuple[str, ...]:
    """An address of each kind, a directory's last."""
    return tuple(module(scheme).EXAMPLE for scheme in KINDS)
