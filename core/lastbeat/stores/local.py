"""The address and the one setting of a directory as a fleet root. The store is :mod:`lastbeat.stores.directory`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lastbeat.model.setting import Setting, SettingValues, switch
from lastbeat.stores.kind import DIRECTORY, FREE, Root, Traits

NAME: Final = "A directory"
EXAMPLE: Final = "/path/of/a/directory"
TRAITS: Final = Traits(FREE, local=True)

FOLLOW_LINKS = Setting[bool](
    "LASTBEAT_FOLLOW_LINKS",
    switch,
    "on: follow links out of a directory root, and read files of any owner; only where every writer is trusted.",
    default="off",
    example="on",
)
SETTINGS: Final = (FOLLOW_LINKS,)


def parse(address: str) -> Root:
    """The whole text as a path. Raises ``ValueError``, whose text completes a sentence that begins with the address."""
    return Root(DIRECTORY, str(absolute(address)))


def absolute(text: str) -> Path:
    """``text`` as an absolute path. Raises ``ValueError``, whose text completes a sentence that begins with the
    path."""
    if "\0" in text:
        raise ValueError("contains a NUL character, which no path can")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with an unknown home directory; write the whole path") from None


def secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """No secrets: a directory needs none."""
    return iter(())


def credentials(values: SettingValues, environ: Mapping[str, str]) -> str:
    """Empty, because a directory needs no credentials."""
    return ""


def endpoint(values: SettingValues, environ: Mapping[str, str]) -> str:
    """Empty, because a directory has no endpoint."""
    return ""


def console_link(root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
    """None, because a path is not a link."""
    return None
