"""Secrets by their shape: what training may have printed and no alert may repeat."""

import re

MASK = "***"

# Each begins with a literal that hardly any text holds by chance, so ordinary log lines cost next to nothing.
_SHAPES = (
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    r"\bsk-[A-Za-z0-9_-]{20,200}",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]+",
    r"\beyJ[A-Za-z0-9_-]{10,500}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{1,1000}",
)
# What follows a name that announces a secret; the name stays readable.
_NAMED = (
    r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(\b[a-z0-9_]{0,40}(?:secret|password|passwd|token|api_?key|access_key)[a-z0-9_]{0,20}[\"']?\s?[=:]\s?[\"']?)"
    # Counts of tokens are no secrets.
    r"(?![0-9.,e+]+(?:[\s|]|$))[^\s\"',;&]{8,}"
)


def mask_tokens(text: str) -> str:
    """``text`` with cloud keys, API tokens, webhook addresses and bearer headers replaced by ``***``."""
    text = re.sub("|".join(_SHAPES), MASK, text)
    return re.sub(_NAMED, lambda match: (match[1] or match[2]) + MASK, text, flags=re.IGNORECASE)
