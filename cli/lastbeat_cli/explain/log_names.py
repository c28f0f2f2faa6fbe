"""Names of logs: which files of a folder are logs, and which rank wrote a log."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from lastbeat.model import runid
from lastbeat.model.text import counted
from lastbeat.watch.observe import log_files

MOST_FILES: Final = 4096
"""Most logs read from one folder: as many as a large run has ranks."""
# Endings of logs that training scripts, schedulers (job.o123) and launchers write.
_LOG = re.compile(r".+\.(?:log|txt|out|err|stdout|stderr|[oe]\d{1,12}(?:[.-]\d{1,8})?)(?:\.gz)?|stdout|stderr|log")
_OLDER_PART = re.compile(r".+\.(?:log|txt|out|err)(?:\.\d{1,4}|-\d{8}(?:-\d{1,10})?)(?:\.gz)?")
_NO_LOG = re.compile(r"requirements.*\.txt|readme.*|licen[cs]e.*|cmakelists\.txt|vocab\.txt|merges\.txt", re.IGNORECASE)
_RANK_ERROR = re.compile(r"(?:.*/)?ranks/(\d{1,6})\.error")
# torchrun --log-dir DIR writes DIR/none_x1y2/attempt_0/3/stderr.log: the folder is the local rank.
_TORCHRUN = re.compile(r"(?P<base>.*/|)attempt_(?P<attempt>\d{1,6})/(?P<rank>\d{1,6})/(?:stdout|stderr)\.log")


def rank_of(path: str) -> int | None:
    """The rank in a path such as ``rank3.log``, ``train-rank_12.out.gz`` or ``attempt_0/3/stderr.log``, or None."""
    if found := _TORCHRUN.fullmatch(path):
        return int(found["rank"])
    if found := _RANK_ERROR.fullmatch(path):
        return int(found[1])
    name = _last(path).removesuffix(".gz")
    # A bare number is a rank only in a run's own folder; elsewhere it is more likely a job id.
    return None if name.split(".", 1)[0].isdecimal() else log_files.rank_of(name)


def chosen(paths: Iterable[str], note: Callable[[str], None]) -> list[str]:
    """The logs among ``paths``, which are relative to one folder. In a run's own folder the error files of its ranks
    and its ``_error`` count as logs. Calls ``note`` with what is left out."""
    paths = list(paths)
    newest = _newest_attempts(paths)
    if older := len(paths) - len(newest):
        note(f"{counted(older, 'log')} of earlier attempts left out: name what is to be read")
    if older := sum(_OLDER_PART.fullmatch(_last(path)) is not None and not _is_log(path) for path in newest):
        note(f"{counted(older, 'older part')} of rotated logs left out: name what is to be read")
    logs = sorted(filter(_is_log, newest), key=_natural)
    if len(logs) > MOST_FILES:
        note(f"there are {len(logs):,} logs; the first {MOST_FILES:,} by name are read")
    return logs[:MOST_FILES]


def _is_log(path: str) -> bool:
    if path in {runid.ERROR, runid.STACKS}:
        # Stacks are in lastbeat's own format, and are not output of training.
        return path == runid.ERROR
    name = _last(path)
    named = _LOG.fullmatch(name) is not None and not _NO_LOG.fullmatch(name)
    hidden = any(part.startswith(".") for part in path.split("/"))
    return (named and not hidden) or _RANK_ERROR.fullmatch(path) is not None


def _newest_attempts(paths: list[str]) -> list[str]:
    """``paths`` without the logs of torchrun's earlier attempts, which ended for reasons of their own."""
    matches = {path: match for path in paths if (match := _TORCHRUN.fullmatch(path)) is not None}
    last: dict[str, int] = {}
    for match in matches.values():
        last[match["base"]] = max(last.get(match["base"], 0), int(match["attempt"]))
    return [
        path for path in paths if (match := matches.get(path)) is None or int(match["attempt"]) == last[match["base"]]
    ]


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _natural(text: str) -> list[tuple[int, str]]:
    """A sort key that puts ``rank10`` after ``rank9``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,18})", text)]
