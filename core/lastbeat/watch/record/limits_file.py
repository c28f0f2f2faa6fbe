"""All faults in a fleet's limits that were written by hand, each with its line.

This imports pydantic and PyYAML, which would slow down every pass: only commands that show limits or check the set-up
import it.
"""

import math
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import UNSAID, Document, HandwrittenModel, Place
from lastbeat.model.codec import DamagedError
from lastbeat.model.file_fault import FileFault
from lastbeat.model.limits import FIXED, LEARNED, LIMITS, MOST_MINUTES
from lastbeat.model.silence import check_glob
from lastbeat.model.text import nearest
from lastbeat.model.times import parse_time
from lastbeat.stores.port import Store
from lastbeat.watch.record.fleet_document import LIMIT_BYTES
from lastbeat.watch.record.limits import MOST, parse

_ENTRY: Final = ("limits",)


def _minutes(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return inner(value)
    raise ValueError("has to be a number of minutes, as 20")


def _time(value: str | float) -> str | float:
    if parse_time(value) is None:
        raise ValueError("is not a time; write for example 2026-01-01T12:00:00Z")
    return value


Minutes = Annotated[float, Field(gt=0, le=MOST_MINUTES), WrapValidator(_minutes)]
MinutesOrNone = Annotated[float, Field(ge=0, le=MOST_MINUTES), WrapValidator(_minutes)]
Word = Annotated[str, WithJsonSchema({"enum": [LEARNED, FIXED]})]
When = Annotated[str | float, AfterValidator(_time)]
RunGlob = Annotated[str, AfterValidator(check_glob)]


class EntryOfLimits(HandwrittenModel):
    """Limits of the runs that a glob covers. A limit that is left out comes from a wider glob, else from the watcher's
    settings."""

    # A newer version may add keys, so unknown ones are allowed, and reported apart from faults.
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    runs: RunGlob
    """A glob over run ids, `*` for every run; each glob stands here once."""
    stale_minutes: Minutes | None = None
    """Silence for longer than this is TIMED_OUT."""
    stale: Word | None = None
    """learned: TIMED_OUT sooner, where the run's own beats show that it is no more."""
    stall_minutes: MinutesOrNone | None = None
    """No new step for this long is a warning, for twice as long TIMED_OUT; 0: no limit."""
    start_minutes: MinutesOrNone | None = None
    """How long a run may take to its first heartbeat."""
    by: str = UNSAID
    """Who set it."""
    at: When | None = None
    """When it was set."""


class FileOfLimits(HandwrittenModel):
    """The limits of a fleet, kept as _watchdog/limits.json beside the runs."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    limits: Annotated[list[EntryOfLimits], Field(max_length=MOST)]


def faults_of(store: Store) -> tuple[list[FileFault], list[FileFault]]:
    """The faults of the document, and its unknown keys, which are misspelt or a newer version's. Raises
    :class:`StoreError` if it cannot be read, or was written by a newer version."""
    blob = store.read(LIMITS, LIMIT_BYTES)
    if blob is None:
        return [], []
    try:
        value = parse(blob)
    except DamagedError as fault:
        return [FileFault(LIMITS, 0, str(fault))], []
    # For the line numbers. What YAML reads differently from JSON, such as a tab, is no fault of the document.
    read = handwritten.read(blob.body.decode("utf-8-sig"), LIMITS, [])
    document = Document(LIMITS, value, read.lines if read is not None else {})
    faults: list[FileFault] = []
    handwritten.checked(FileOfLimits, document, faults)
    return [*faults, *_twice(document)], list(_unknown(document))


def _twice(document: Document) -> list[FileFault]:
    seen, found = set[str](), []
    for index, entry in enumerate(_entries(document.value)):
        glob = str(entry.get("runs"))
        if glob in seen:
            what = f"the glob {glob[:60]!r} stands there twice; put what both say into one"
            found.append(FileFault(LIMITS, document.line(*_ENTRY, index), what))
        seen.add(glob)
    return found


def _unknown(document: Document) -> list[FileFault]:
    known = tuple(EntryOfLimits.model_fields)
    found = [_strange(document, (key,), ("schema", "limits")) for key in document.value if key != "limits"]
    for index, entry in enumerate(_entries(document.value)):
        found += [_strange(document, (*_ENTRY, index, key), known) for key in entry if key not in known]
        word = entry.get("stale")
        if isinstance(word, str) and word not in {LEARNED, FIXED}:
            what = f"stale: {word[:60]!r} is ignored{nearest(word, (LEARNED, FIXED))}"
            found.append(
                FileFault(LIMITS, document.line(*_ENTRY, index, "stale"), f"{what}; take {LEARNED} or {FIXED}")
            )
    return found


def _strange(document: Document, place: Place, known: tuple[str, ...]) -> FileFault:
    key = str(place[-1])
    near = nearest(key, known) or f"; there are: {', '.join(known)}"
    return FileFault(LIMITS, document.key_line(*place), f"unknown key {key[:60]!r}, which is ignored{near}")


def _entries(value: Any) -> list[dict[str, Any]]:
    limits = value.get("limits") if isinstance(value, dict) else None
    return [entry if isinstance(entry, dict) else {} for entry in limits] if isinstance(limits, list) else []
