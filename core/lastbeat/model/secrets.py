"""Masks secrets wherever text leaves: logs, errors, alerts.

:class:`Redactor` masks the secrets of settings. :func:`mask_tokens` masks what has the form of a secret, which training
may have printed.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

from lastbeat.model.pattern import Pattern

MASK = "***"

_ACCESS_KEY = Pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")
# Each begins with a literal that rarely occurs by chance, so ordinary log lines cost next to nothing.
_SHAPES = (
    _ACCESS_KEY.text,
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


SHORTEST = 8
"""Anything shorter is no real secret, and masking it would garble ordinary words."""


class Redactor:
    """Callable: text → the same text with every secret masked.

    A secret URL is masked as a whole, and so are its identifying parts where they stand alone: path with query, as
    written and percent-encoded as HTTP libraries log it, the last path segment if it is long enough for a token, and
    the password. AWS access key ids are always masked.
    """

    __slots__ = ("_pattern",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        parts = {part for secret in secrets if secret.strip() for part in _parts(secret.strip())}
        # The longest first, or a part would be masked and leave the rest of the whole behind.
        ordered = sorted(parts, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        return _ACCESS_KEY.sub(MASK, text)

    def __repr__(self) -> str:
        return "Redactor(…)"


def _parts(secret: str) -> Iterator[str]:
    if len(secret) < SHORTEST:
        return
    yield secret
    try:
        url = urlsplit(secret)
    except ValueError:  # No URL, so there is nothing but the whole.
        return
    if not url.scheme or not url.netloc:
        return
    path = url.path + (f"?{url.query}" if url.query else "")
    token = url.path.rstrip("/").rpartition("/")[2]
    # Anything shorter would mask ordinary words.
    candidates = [(path, 5), (url.path.rstrip("/"), 5), (token, 16), (url.query, 16), (url.password or "", 4)]
    for part, least in candidates:
        if len(part) >= least:
            yield part
            yield quote(part, safe="!#$%&'()*+,/:;=?@[]~")
            yield unquote(part)
