"""``.env.example``, the tables of docs/settings.md and one of docs/stores.md, made from the settings."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from lastbeat.alerts import registry
from lastbeat.model.setting import Setting
from lastbeat.settings import table
from lastbeat.stores import registry as stores
from support.checkout import ROOT

EXAMPLE = ROOT / ".env.example"
PAGE = ROOT / "docs" / "settings.md"
STORES = ROOT / "docs" / "stores.md"
BEGIN, END = "<!-- begin: variables of the clouds -->\n", "<!-- end: variables of the clouds -->"
_OURS = ("LASTBEAT_", "MONITORING_")
_WIDTH = 112
_EXAMPLE_HEAD = """\
# Every setting of lastbeat, with its default. Copy this file to .env in the folder that you call lastbeat from,
# and fill in what you need: a blank value is an unset one. Arguments and the environment outrank the file.
"""
_EXAMPLE_CLOUDS = """\
# The clouds' own variables, as their libraries and tools call them. boto3's others (AWS_PROFILE, AWS_ACCESS_KEY_ID
# and so on) can stand here, too.
"""
_PAGE_HEAD = """\
# Settings

For people who set lastbeat up. It reads arguments, then the environment, then `.env` in the current folder;
`.env.example` is such a file, with every default. Blank is unset. All faults are reported at once.

Some settings are lists: `LASTBEAT_GROUPS=runs:3,repeat_hours:4`. Parts that a list leaves out keep their defaults.
Variables of earlier versions are still read, and a hint in the log says what each is now. The clouds' own variables,
for addresses and credentials, are in [stores.md](stores.md#the-clouds-own-variables).
"""


def groups() -> dict[str, tuple[Setting[object], ...]]:
    """Heading → lastbeat's own settings, in their order."""
    (where, places), *others = table.SUBJECTS.items()
    of_stores = [each for each in stores.settings() if each.name.startswith(_OURS)]
    return {where: (*places, *of_stores), **dict(others), "Channels": registry.settings()}


def clouds() -> dict[str, tuple[Setting[object], ...]]:
    """Store → the variables of its provider's own libraries and tools that lastbeat reads."""
    kinds = [stores.module(scheme) for scheme in stores.KINDS]
    found = {kind.NAME: tuple(each for each in kind.SETTINGS if not each.name.startswith(_OURS)) for kind in kinds}
    return {name: settings for name, settings in found.items() if settings}


def example() -> str:
    """The text of ``.env.example``."""
    ours, theirs = ([_block(each) for group in kind.values() for each in group] for kind in (groups(), clouds()))
    return "\n\n".join([_EXAMPLE_HEAD.rstrip("\n"), *ours, _EXAMPLE_CLOUDS.rstrip("\n"), *theirs]) + "\n"


def page() -> str:
    """The text of docs/settings.md."""
    return "\n".join([_PAGE_HEAD, *(line for name, settings in groups().items() for line in _table(name, settings))])


def filled(text: str) -> str:
    """``text`` of docs/stores.md with the table of the clouds' own variables as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [f"| {store} | `{each.name}` | {_told(each)} |" for store, group in clouds().items() for each in group]
    return before + BEGIN + "\n".join(["| store | variable | what it is |", "|---|---|---|", *rows, ""]) + END + after


def _block(setting: Setting[object]) -> str:
    lines = textwrap.wrap(setting.help, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    return "\n".join([*lines, f"{setting.name}={setting.default}"])


def _table(heading: str, settings: tuple[Setting[object], ...]) -> Iterator[str]:
    yield from (f"## {heading}", "", "| variable | default | what it is |", "|---|---|---|")
    for each in settings:
        default = f"`{each.default}`" if each.default else ""
        yield f"| `{each.name}` | {default} | {_told(each)} |"
    yield ""


def _told(setting: Setting[object]) -> str:
    told = [setting.help, *([f"On the command line `{setting.option}`."] if setting.option else [])]
    told += [f"For example `{setting.example}`."] if setting.example and setting.example != setting.default else []
    told += ["A secret: never shown, and masked wherever it turns up."] if setting.secret else []
    return " ".join(told).replace("|", "\\|")


def written() -> dict[Path, str]:
    """Each file → its text."""
    return {EXAMPLE: example(), PAGE: page(), STORES: filled(STORES.read_text(encoding="utf-8"))}
