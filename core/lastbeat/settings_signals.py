"""The settings of what is looked for in logs, and the catalogue that they name.

Of a watchdog's settings these alone can cost something: a catalogue other than the default one is loaded to be checked,
once, and to learn its limits. The default one has none, and is loaded when there is text to read.
"""

import hashlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from lastbeat.model.policy import Policy
from lastbeat.model.setting import Setting
from lastbeat.settings_table import shown

if TYPE_CHECKING:
    from lastbeat.model.signal import Catalogue

DEFAULT: Final = "default"
_MOST: Final = 64


def _names(text: str) -> str:
    """``text`` without what makes no difference. What it names is looked at by whoever needs it."""
    return ",".join(part.strip() for part in text.split(",") if part.strip()) or DEFAULT


def _places(text: str) -> tuple[str, ...]:
    places = tuple(part.strip() for part in text.split(",") if part.strip())
    if not places or "\0" in text:
        raise ValueError(f"LASTBEAT_LOGS={shown(text)} names no file; use for example /var/log/train/rank*.log")
    if len(places) > _MOST:
        raise ValueError(f"LASTBEAT_LOGS names {len(places)} files; {_MOST} are the most, use * for many")
    return places


SIGNALS: tuple[Setting, ...] = (
    Setting(
        "LASTBEAT_SIGNALS",
        _names,
        DEFAULT,
        "What is looked for in logs: built-in catalogues (lastbeat signals list) and YAML files, comma separated.",
    ),
    Setting(
        "LASTBEAT_LOGS",
        _places,
        "",
        "Log files of this machine that lastbeat watch reads, too, comma separated; * ? [] and Slurm's %j, %t are "
        "understood.",
    ),
)


@cache
def catalogue(text: str) -> "Catalogue":
    """The catalogue that LASTBEAT_SIGNALS names. Raises ``ValueError`` with a fault a line."""
    from lastbeat.signals import loading  # noqa: PLC0415 - only where there is text, or a catalogue to check

    return loading.load_setting(text, loading.read_file)


def stamp(text: str) -> str:
    """Says which signals those are: of files also what was in them."""
    if text == DEFAULT:
        return text
    return f"{text} {hashlib.sha256(repr(catalogue(text).signals).encode()).hexdigest()[:16]}"


def limited(policy: Policy, text: str) -> Policy:
    """``policy`` with the limits of the catalogue. Raises as :func:`catalogue`."""
    if text == DEFAULT:
        return policy
    found = catalogue(text)
    return replace(policy, inactivity_s=found.inactivity_s, absences=found.absences, poll_s=found.poll_s)
