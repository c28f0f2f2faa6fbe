"""Masks secrets wherever text leaves: logs, errors, alerts."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote, urlsplit

from lastbeat.model.pattern import Pattern
from lastbeat.model.secrets import MASK

SHORTEST = 8
"""Anything shorter is no real secret, and masking it would garble ordinary words."""

_ACCESS_KEY = Pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")


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
