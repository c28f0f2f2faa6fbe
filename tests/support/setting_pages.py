"""``.env.example`` and the tables of docs/settings.md, made from the settings.

    PYTHONPATH=core:cli:tests .venv/bin/python -m support.setting_pages

writes them anew; a test holds that they are in step.
"""

import textwrap
from collections.abc import Iterator

from lastbeat.alerts import registry
from lastbeat.model.setting import Setting
from lastbeat.settings import table
from lastbeat.stores import registry as stores
from support.checkout import ROOT

EXAMPLE = ROOT / ".env.example"
PAGE = ROOT / "docs" / "settings.md"
_WIDTH = 112
_EXAMPLE_HEAD = """\
# Every setting of lastbeat, with its default. Copy this file to .env in the folder that you call lastbeat from,
# and fill in what you need: a blank value is an unset one. Arguments and the environment outrank the file.
# boto3's own variables (AWS_PROFILE, AWS_ACCESS_KEY_ID and so on) can stand here too.
"""
_PAGE_HEAD = """\
# Settings

For people who set lastbeat up. It reads arguments, then the environment, then `.env` in the current folder;
`.env.example` is such a file, with every default. Blank is unset. All faults are reported at once.
"""


def groups() -> dict[str, tuple[Setting[object], ...]]:
    """Heading → settings, in their order."""
    where, *others = table.GROUPS.items()
    kinds = [stores.module(scheme) for scheme in stores.KINDS]
    return dict([where, *((kind.NAME, kind.SETTINGS) for kind in kinds), *others, ("Channels", registry.settings())])


def example() -> str:
    """The text of ``.env.example``."""
    blocks = [
        "\n".join([*textwrap.wrap(each.help, _WIDTH, initial_indent="# ", subsequent_indent="# "), _assigned(each)])
        for settings in groups().values()
        for each in settings
    ]
    return "\n\n".join([_EXAMPLE_HEAD.rstrip("\n"), *blocks]) + "\n"


def page() -> str:
    """The text of docs/settings.md."""
    return "\n".join([_PAGE_HEAD, *(line for name, settings in groups().items() for line in _table(name, settings))])


def _assigned(setting: Setting[object]) -> str:
    return f"{setting.name}={setting.default}"


def _table(heading: str, settings: tuple[Setting[object], ...]) -> Iterator[str]:
    yield from (f"## {heading}", "", "| variable | default | what it is |", "|---|---|---|")
    for each in settings:
        told = [each.help, *([f"On the command line `{each.option}`."] if each.option else [])]
        told += [f"For example `{each.example}`."] if each.example and each.example != each.default else []
        told += ["A secret: never shown, and masked wherever it turns up."] if each.secret else []
        default = f"`{each.default}`" if each.default else ""
        yield f"| `{each.name}` | {default} | {' '.join(told).replace('|', chr(92) + '|')} |"
    yield ""


if __name__ == "__main__":
    EXAMPLE.write_text(example(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
