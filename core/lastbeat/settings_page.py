"""The settings of the page that people look at: see ``settings_table`` for what a parser is."""

import re
from typing import Final

from lastbeat.model.setting import Setting
from lastbeat.settings_table import number

SHORTEST_TOKEN: Final = 16
"""Characters that a token has at least: what anybody on the network may try must not be guessed."""


def _token(text: str) -> str:
    # It stands in an address and in a header, as it is.
    if not re.fullmatch(rf"[A-Za-z0-9._~-]{{{SHORTEST_TOKEN},200}}", text, re.ASCII):
        raise ValueError(
            f"LASTBEAT_DASHBOARD_TOKEN is no token: {SHORTEST_TOKEN} to 200 characters of A-Z a-z 0-9 . _ ~ -; "
            "use for example what 'openssl rand -hex 24' prints"
        )
    return text


PAGE: tuple[Setting, ...] = (
    Setting(
        "LASTBEAT_PAGE_MINUTES",
        number("LASTBEAT_PAGE_MINUTES", "minutes", "5", zero=True),
        "0",
        "A pass writes _watchdog/index.html, a page of the whole fleet, at most every so many minutes; 0 is off.",
    ),
    Setting(
        "LASTBEAT_DASHBOARD_TOKEN",
        _token,
        "",
        "What opens lastbeat dashboard to others; with --host it is made anew each time where it is not set.",
        secret=True,
    ),
)
