"""Secrets recognized by their form: training may have printed them, and no alert may repeat them."""

import re

from lastbeat.model.pattern import Pattern

MASK = "***"

# Each begins with a literal that rarely occurs by chance, so ordinary log lines cost next to nothing.
_SHAPES = (
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
    r"\bxapp-[A-Za-z0-9-]{10,}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\bsk-[A-Za-z0-9_-]{20,200}",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]+",
    r"\beyJ[A-Za-z0-9_-]{10,500}\.[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{1,1000}",
)
# Values after a name that announces a secret. The name stays readable.
_NAMED = (
    r"(\bbearer\s+|\bauthorization[\"']?\s?[=:]\s?[\"']?basic\s+|[?&]X-Amz-Signature=)[A-Za-z0-9._~+/=-]{8,}"
    # A password, or a token that stands for one, in the address of a repository or a proxy.
    r"|(\bhttps?://[^\s/:@]{0,100}:?)(?<=[:/])[^\s/:@]{8,200}(?=@)"
    r"|((?:secret|password|passwd|token|api_?key|access_key)[a-z0-9_]{0,20}[\"']?\s?[=:]\s?[\"']?)"
    # Counts of tokens are no secrets.
    r"(?![0-9.,e+]+(?:[\s|]|$))[^\s\"',;&]{8,}"
)
# Most lines hold none of these, and checking that is many times faster than the expressions.
_LITERALS = (
    "AKIA", "ASIA", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "AIza",
    "sk-", "hooks.slack.com/", "eyJ",
)  # fmt: skip
_ANNOUNCING = ("bearer", "basic", "signature", "://", "secret", "passw", "token", "key")
_SHAPE = Pattern("|".join(_SHAPES))
_NAME = Pattern(_NAMED, re.IGNORECASE)


def mask_tokens(text: str) -> str:
    """``text`` with cloud keys, API tokens, webhook addresses and bearer headers replaced by ``***``."""
    if any(literal in text for literal in _LITERALS):
        text = _SHAPE.sub(MASK, text)
    lowered = text.lower()
    if not any(word in lowered for word in _ANNOUNCING):
        return text
    return _NAME.sub(lambda match: next(filter(None, match.groups())) + MASK, text)


_NAMES = {"KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"}
"""Words in the names of variables whose values must not be shown."""


def is_secret(name: str, value: str) -> bool:
    """Whether the environment variable ``name`` looks as if its value were one."""
    return bool(_NAMES & set(name.upper().split("_"))) or mask_tokens(value) != value
