"""Names in the environment and in ``.env`` that are nearly the name of a setting.

The environment is full of other programs' names, so that a name has to look like one of ours there, word by word. In
``.env`` a little less is enough. A name that begins with LASTBEAT_ is ours however it goes on.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from lastbeat import model

_PREFIX: Final = "LASTBEAT_"
_NO_SETTINGS: Final = frozenset({"LASTBEAT_RESTART_COUNT"})
"""Variables that schedulers' scripts set for training, like SLURM_RESTART_COUNT."""
_PROVIDERS: Final = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_")
"""Prefixes of cloud providers' variables, most of which lastbeat does not know."""
_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
"""boto3's own names, which people write into ``.env``, too."""
_ENDINGS: Final = frozenset({"ARN", "DIR", "ID", "NAME", "PATH", "URI", "URL"})
"""Last words of a name that people add or leave out."""
_COMMON: Final = frozenset({"GROUPS", "LOG_LEVEL", "LOG_FILE"})
"""Names that other programs' settings in the same ``.env`` have, too."""
_SHORT: Final = {"MIN": "MINUTES", "MINS": "MINUTES", "SEC": "SECONDS", "SECS": "SECONDS"}
_UNITS: Final = ("MINUTES", "SECONDS", "HOURS")


def misspelt(
    process: Iterable[str],
    dotenv: Iterable[str],
    known: Collection[str],
    given: Collection[str],
    *,
    all_known: bool,
    now: Mapping[str, str],
) -> Iterator[str]:
    """Yield a sentence for each name in the environment of the ``process`` or in ``.env`` that is no setting but was
    meant as one.

    ``known`` are the names of all settings and of their stand-ins; ``given`` are those that have a value: beside
    ``SLACK_WEBHOOK_URL``, a variable ``SLACK_WEBHOOK`` serves another program. Without ``all_known``, a name has to be
    near a known one word by word. ``now`` has what an old name is called today.
    """
    names = _Names(known, all_known=all_known)
    in_file = frozenset(dotenv)
    beside_ours = any(name in known and not name.startswith(_PROVIDERS) for name in in_file)
    for name in sorted(in_file.union(process)):
        if name in known or name in _NO_SETTINGS:
            continue
        own = name.upper().startswith(_PREFIX)
        meant = names.meant(name, in_file=name in in_file, beside_ours=beside_ours)
        if meant is None and not (own and all_known):
            continue
        if meant in given and not own:
            continue
        where = " (in .env)" if name in in_file else ""
        hint = f"; did you mean {now.get(meant, meant)}?" if meant else ""
        yield f"{name[:100]}{where} is no setting of lastbeat{hint}"


class _Names:
    """The names of all settings, and the comparison of a variable's name with them."""

    def __init__(self, known: Collection[str], *, all_known: bool) -> None:
        self._known = known
        self._all_known = all_known
        self._ours = dict.fromkeys(sorted(name for name in known if not name.startswith(_PROVIDERS)))
        self._theirs = sorted({*_CREDENTIALS, *(name for name in known if name.startswith(_PROVIDERS))})
        self._joined = {name.replace("_", ""): name for name in self._ours}
        self._families = {name.partition("_")[0] for name in self._ours}

    def meant(self, name: str, *, in_file: bool, beside_ours: bool) -> str | None:
        """The setting that ``name`` was probably meant as."""
        name = name.upper()[:100]
        if name in self._ours:
            return name
        if same := self._joined.get(name.replace("_", "")):
            return same
        if name.startswith(_PREFIX):
            return self._with_prefix(name)
        forgotten = _PREFIX + name
        first = name.partition("_")[0]
        if any(_alike(first, family) for family in self._families):
            near = self._near(name, self._ours)
            if forgotten in self._known and (near or first in self._families):
                return forgotten
            if near is None and in_file:
                near = _close(name, self._ours, 0.9)
            if near:
                return near
        if not in_file or name in self._theirs:
            return None
        if forgotten in self._known and beside_ours and name not in _COMMON:
            return forgotten
        return self._near(name, self._theirs)

    def _with_prefix(self, name: str) -> str | None:
        """The setting meant by a ``name`` that begins with LASTBEAT_; the setting itself may not."""
        bare = name.removeprefix(_PREFIX)
        start, _, unit = name.rpartition("_")
        others = [f"{start}_{other}" for other in _UNITS if unit in _UNITS]
        for same in [bare, f"MONITORING_{bare}", *others]:
            if same in self._ours:
                return same
        near = self._near(name, self._ours) or self._near(bare, self._ours)
        if near or not self._all_known:
            return near
        return _close(name, self._ours, 0.75) or _close(bare, self._ours, 0.75)

    def _near(self, name: str, candidates: Iterable[str]) -> str | None:
        """The first candidate that has the same words but for a typo, or one word of :data:`_ENDINGS` more or less."""
        words = name.split("_")
        for candidate in candidates:
            theirs = candidate.split("_")
            if len(words) == len(theirs) + 1 and words[-1] in _ENDINGS:
                pairs = zip(words[:-1], theirs, strict=True)
            elif len(words) == len(theirs) - 1 >= 2 and theirs[-1] in _ENDINGS:
                pairs = zip(words, theirs[:-1], strict=True)
            elif len(words) == len(theirs):
                pairs = zip(words, theirs, strict=True)
            else:
                continue
            if all(_alike(*pair) for pair in pairs):
                return candidate
        return None


def _close(name: str, candidates: Iterable[str], cutoff: float) -> str | None:
    return next(iter(model.text.near_names(name, candidates, cutoff=cutoff)), None)


def _alike(word: str, right: str) -> bool:
    """Whether ``word`` is ``right`` but for a typo: two in a long word, one in a short one."""
    if word == right or _SHORT.get(word) == right:
        return True
    most = 2 if len(right) >= 6 else 1 if len(right) >= 3 else 0
    if abs(len(word) - len(right)) > most or len(set(right).difference(word)) > most:
        return False
    return _typos(word, right) <= most


def _typos(word: str, right: str) -> int:
    """Letters to add, remove, replace or swap with their neighbour."""
    before: list[int] = []
    above = list(range(len(right) + 1))
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, wanted in enumerate(right, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == right[j - 2] and word[i - 2] == wanted:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]
