"""A directory as a fleet root: its address and its one setting. :mod:`lastbeat.stores.directory` is the store."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lastbeat.model.setting import Setting, SettingValues, switch
from lastbeat.stores.kind import DIRECTORY, FREE, Root, Traits

if TYPE_CHECKING:
    from lastbeat.stores.directory import DirectoryStore

NAME: Final = "A directory"
EXAMPLE: Final = "/path/of/a/directory"
TRAITS: Final = Traits(FREE, local=True)

FOLLOW_LINKS = Setting[bool](
    "LASTBEAT_FOLLOW_LINKS",
    switch,
    "on: follow links out of a directory root, and read files whoever owns them; only where every writer is trusted.",
    default="off",
    example="on",
)
SETTINGS: Final = (FOLLOW_LINKS,)


def parse(address: str) -> Root:
    """The whole of the text is a path. Raises ``ValueError`` with the end of a sentence."""
    return Root(DIRECTORY, str(absolute(address)))


def absolute(text: str) -> Path:
    """``text`` as an absolute path. Raises ``ValueError`` with the end of a sentence."""
    if "\0" in text:
        raise ValueError("contains a NUL character, which no path can")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with a home directory that nobody knows; write the whole path") from None


def secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """None."""
    return iter(())


def open_store(
    root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
) -> "DirectoryStore":
    """``training`` makes a directory that is not there on the first write, which for a watchdog is a fault; and it
    writes where its user's links lead, for it can do no more there than its user may."""
    from lastbeat.stores.directory import DirectoryStore  # noqa: PLC0415 - only the chosen adapter is loaded

    return DirectoryStore(root.path, create=training, trusting=training or values[FOLLOW_LINKS])


def credentials(values: SettingValues, environ: Mapping[str, str]) -> str:
    """Nothing: a directory needs none."""
    return ""


def endpoint(values: SettingValues, environ: Mapping[str, str]) -> str:
    """None."""
    return ""


def console_link(root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
    """None: a path is no link."""
    return None
