"""The catalogue that LASTBEAT_SIGNALS names.

This setting alone takes time: a catalogue other than the default is loaded once, to validate it and to learn its
limits. The default one has none and is loaded only when there is text to read.
"""

import hashlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from lastbeat.explain import signals
from lastbeat.model.policy import Policy
from lastbeat.settings.table import DEFAULT_CATALOGUE

if TYPE_CHECKING:
    from lastbeat.model.signal import Catalogue


@cache
def catalogue(text: str) -> "Catalogue":
    """The catalogue that LASTBEAT_SIGNALS names. Raises ``ValueError`` with a fault a line."""
    return signals.loading.load_setting(text, signals.loading.read_file)


def noticing(text: str, names: frozenset[str]) -> "Catalogue":
    """The same catalogue; it reports every line of the signals ``names``."""
    return catalogue(text)._replace(noticed=names) if names else catalogue(text)


def stamp(text: str) -> str:
    """Identifies the signals: the setting, and for files a digest of their content."""
    if text == DEFAULT_CATALOGUE:
        return text
    return f"{text} {hashlib.sha256(repr(catalogue(text).signals).encode()).hexdigest()[:16]}"


def limited(policy: Policy, text: str) -> Policy:
    """``policy`` with the catalogue's limits. Raises as :func:`catalogue`."""
    if text == DEFAULT_CATALOGUE:
        return policy
    found = catalogue(text)
    return replace(policy, inactivity_s=found.inactivity_s, absences=found.absences, poll_s=found.poll_s)
