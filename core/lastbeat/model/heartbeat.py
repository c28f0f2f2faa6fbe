"""A run's heartbeats as watchers read them: metadata.json, progress.json and ranks/{rank}.json.

They may be minimal, hand-made, broken or hostile. :class:`Heartbeat` declares the fields that watchers and commands
read, :mod:`lastbeat.views.heartbeats` those that people are shown besides, and :data:`OTHER_FIELDS` the rest.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from lastbeat.model.curve import Curve, read_curve
from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    AGE,
    AMOUNT,
    COUNT,
    FLAG,
    HEARTBEATS,
    MARK,
    MINUTES,
    NUMBER,
    OFFSET,
    PERSON,
    RANK,
    RUN_ID,
    SPAN,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
    WORD,
    DocumentField,
    FieldType,
    Reading,
    array_of,
    declared,
    document_field,
    object_of,
    objects,
    read_fields,
    read_object,
    unread,
)
from lastbeat.model.figures import FIGURES, Figures
from lastbeat.model.health import NODE_HEALTH, HealthCondition
from lastbeat.model.in_place import FIELD as IN_PLACE_FIELD
from lastbeat.model.in_place import IN_PLACE, InPlace
from lastbeat.model.json_values import number, whole
from lastbeat.model.rerun import FIELD as RERUN
from lastbeat.model.rerun import RerunReport, read_rerun
from lastbeat.model.runid import METADATA, PROGRESS
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.stragglers_told import StragglersTold, read_stragglers
from lastbeat.model.times import names_zone, parse_time

DOCUMENT_LIMIT_BYTES: Final = 256 * 1024
"""No more of a heartbeat is read."""
_MOST_SECTIONS: Final = 16
_LEAD: Final = timedelta(minutes=1)
"""An attempt may seem to begin this much later than its document was written."""
_POINT_ITEMS: Final = 3
"""A point of ``recent`` has at least a time, a step and a loss."""
_ALL: Final = (METADATA, PROGRESS, RANK)
_EACH_RANK: Final = (METADATA, RANK)
_OVER: Final = frozenset({"completed", "cancelled", "failed", "preempted"})
"""The status that the SDK writes into a last heartbeat, before the sentinel. A rank that failed has left an error."""


class StoredFile(Protocol):
    """A file as a store gave it, perhaps only the beginning of it."""

    @property
    def body(self) -> bytes:
        """What was read of it."""

    @property
    def size_bytes(self) -> int:
        """Size of the whole file."""

    @property
    def modified(self) -> datetime:
        """The store's ``LastModified``."""

    @property
    def version(self) -> str:
        """The store's token for this content (an ETag)."""


# Objects in a heartbeat.


@dataclass(frozen=True, slots=True)
class OpenSection:
    """A section that was open when the heartbeat was written. ``name`` is hostile text."""

    name: str | None = document_field("name", TEXT, "Left out: it is in none.", default=MISSING)
    """None: in no section."""
    open_s: float = document_field("open_s", AGE, "For how long, by its monotonic clock.", required=True)
    limit_s: float | None = document_field("limit_s", SPAN, "For how long it may be.")
    usual_s: float | None = document_field(
        "usual_s", SPAN, "How long it usually takes at most, where its limit was learned."
    )
    awaited_s: float | None = document_field(
        "awaited_s", SPAN, "How long other ranks may wait for it, where its limit is yet to be learned."
    )


@dataclass(frozen=True, slots=True)
class LeftSection:
    """A section that had ended when the heartbeat was written."""

    took_s: float = document_field("took_s", SPAN, "How long it lasted, by training's monotonic clock.", required=True)
    ago_s: float = document_field("ago_s", AGE, "How long it had been left by then.", default=MISSING)
    limit_s: float = document_field("limit_s", SPAN, "For how long it might last.", required=True)


def _sections(value: object, reading: Reading) -> tuple[OpenSection, ...]:
    found = (_section(each, reading) for each in objects(value, _MOST_SECTIONS))
    return tuple(each for each in found if each is not None)


def _section(value: Mapping[str, object], reading: Reading) -> OpenSection | None:
    """None where it is not understood: without a name it is no section, so one with a broken name is left out."""
    found = read_object(OpenSection, value, reading, name=None)
    return None if found is not None and found.name is None and "name" in value else found


def _left_sections(value: object, reading: Reading) -> tuple[LeftSection, ...]:
    # It may have been left at that very moment.
    found = (read_object(LeftSection, each, reading, ago_s=0.0) for each in objects(value, _MOST_SECTIONS))
    return tuple(each for each in found if each is not None)


_SECTIONS: Final = FieldType(_sections, array_of(object_of(declared(OpenSection).values())))
_LEFT_SECTIONS: Final = FieldType(
    _left_sections, array_of(object_of((DocumentField("name", TEXT), *declared(LeftSection).values())))
)


# The document.


@dataclass(frozen=True)
class Heartbeat:
    """One heartbeat document as it lay in the store. Texts in it are hostile."""

    modified: datetime
    """The store's ``LastModified``."""
    version: str
    """The store's token for this content (an ETag)."""
    own_time: datetime | None = None
    """The document's own timestamp, by the clock of the training instance."""
    zoned: bool = True
    """The timestamp names its zone or is an epoch number. Otherwise it was read as UTC."""
    fault: str | None = None
    """Why the document could not be parsed. It still counts as a heartbeat at ``modified``."""

    clock_offset_s: float | None = document_field(
        "clock_offset_s",
        OFFSET,
        "How far the store's clock is ahead of the clock of this document's times, in seconds; negative if it is "
        "behind. A reader that knows it does not take a wrong clock for an old document.",
    )
    beat_s: float | None = document_field("beat_seconds", SPAN, "How often this document is written.", files=_EACH_RANK)
    longest_gap_s: float | None = document_field(
        "longest_gap_s", SPAN, "The longest time between two of them so far in this attempt."
    )
    stale_s: float | None = document_field(
        "stale_minutes", MINUTES, "The run's own limit: a heartbeat older than this is stale."
    )
    stall_s: float | None = document_field(
        "stall_minutes", MINUTES, "The run's own limit: no new step for this long is a stall."
    )

    status: str | None = document_field(
        "status",
        WORD,
        "The status by training's own account, as running. The files _error and _complete decide about its end.",
        files=_EACH_RANK,
    )
    owner: str | None = document_field(
        "owner", PERSON, "Whose run it is: a name, an address or a chat handle.", label="owner"
    )
    team: str | None = document_field("team", PERSON, "The owner's team.", label="team")
    tags: tuple[str, ...] = document_field(
        "tags", TEXTS, "Short texts by which people find the run.", default=(), apart=True
    )
    notes: str | None = document_field("notes", TEXT, "What people should know of the run.", apart=True)
    steps_per_s: float | None = document_field(
        "steps_per_second", AMOUNT, "Over the last five minutes.", files=(PROGRESS,), apart=True
    )
    tokens_per_s: float | None = document_field(
        "tokens_per_second", AMOUNT, "Over the last five minutes.", files=(PROGRESS,), apart=True
    )
    phase: str | None = document_field(
        "phase",
        TEXT,
        "What training does: setup, train, validation, checkpoint, …",
        files=_ALL,
        apart=True,
        label="phase",
    )
    instance_id: str | None = document_field(
        "instance_id", TEXT, "The machine, as people look for it in a console or a queue.", apart=True, label="instance"
    )
    host: str | None = document_field("host", TEXT, "The name of the machine.", files=_EACH_RANK, label="host")
    zone: str | None = document_field("zone", TEXT, "The zone of the machine, in a cloud.", label="zone")
    instance_type: str | None = document_field(
        "instance_type", TEXT, "The kind of machine, as its cloud names it.", label="instance_type"
    )
    start_time: datetime | None = document_field(
        "start_time",
        TIME,
        "When this attempt began. A later one than before tells a new attempt.",
        files=HEARTBEATS,
        apart=True,
        label="started",
    )
    attempt: int | None = document_field(
        "attempt",
        WHOLE,
        "Which life of the run this is, from 1; a restart begins the next.",
        files=_ALL,
        apart=True,
        label="attempt",
    )
    thread_error: str | None = document_field(
        "thread_error",
        TEXT,
        "Name and message of the first exception that ended one of training's threads. It does not end the run, but "
        "may be why the run hangs or fails later.",
        files=_EACH_RANK,
        apart=True,
    )
    raised_at: datetime | None = document_field(
        "raised_at", TIME, "When it last wrote an alert of its own (`_alerts.json`)."
    )

    process: int | None = document_field("process", COUNT, "The number of the process that trains.")
    process_mark: str | None = document_field(
        "process_mark",
        MARK,
        "Which process that number means: the boot of its machine, the space of its number, and when it began.",
        files=_EACH_RANK,
    )
    wraps: bool = document_field("wraps", FLAG, "Whether lastbeat exec started it.", default=False)
    stop_s: float | None = document_field("stop_seconds", SPAN, "How often it looks for a request to end (`_stop`).")
    heeds_stop: bool = document_field(
        "heeds_stop", FLAG, "Whether it asks run.should_stop whether to end.", default=False
    )

    world_size: int | None = document_field(
        "world_size", WHOLE, "How many ranks distributed training has.", files=_EACH_RANK
    )
    rank_beat_s: float | None = document_field(
        "rank_beat_seconds", SPAN, "How often each of them writes ranks/{rank}.json."
    )
    rank_process: int | None = document_field("pid", COUNT, "The rank's process.", files=(RANK,))

    sections: tuple[OpenSection, ...] = document_field(
        "sections", _SECTIONS, "The sections that it is in now, or none of them.", default=(), files=_EACH_RANK
    )
    left_sections: tuple[LeftSection, ...] = document_field(
        "left_sections",
        _LEFT_SECTIONS,
        "The sections with a limit that it left lately: other ranks may have waited for it.",
        default=(),
    )
    stragglers: StragglersTold | None = document_field(
        "stragglers",
        FieldType(lambda value, reading: read_stragglers(value, reading.mask), {"type": "object"}),
        "Which of its ranks are slow.",
    )
    health: tuple[HealthCondition, ...] | None = document_field(
        "health", NODE_HEALTH, "How the node of rank 0 is, as it says."
    )
    in_place: InPlace | None = document_field(
        IN_PLACE_FIELD, IN_PLACE, "Whether lastbeat exec also ends it when it hangs, and starts it again."
    )
    rerun: RerunReport | None = document_field(
        RERUN,
        FieldType(lambda value, reading: read_rerun(value, reading.mask), {"type": "object"}),
        "What re-runs of its steps have shown.",
    )

    step: int | None = document_field("step", WHOLE, "The latest step.", files=_ALL, apart=True, label="step")
    total_steps: int | None = document_field(
        "total_steps", WHOLE, "How many steps training is to take.", files=HEARTBEATS, apart=True, label="total_steps"
    )
    loss: float | None = document_field("loss", NUMBER, "The loss of the latest step.", files=_ALL, apart=True)
    """May be NaN or infinite: the document said so."""
    not_finite_since: int | None = None
    """The step since which the loss has been NaN or infinite, as far as the document's latest points tell."""
    first_point: tuple[datetime, int] | None = None
    """The first of its points: time by the instance's clock, and step."""
    step_reached_at: datetime | None = None
    """When training reached ``step``, by the instance's clock. None: its newest points do not tell."""
    curve: Curve = Curve()
    """Its latest points."""

    @property
    def is_last(self) -> bool:
        """Whether training has ended and writes no other, as its ``status`` says."""
        return self.status in _OVER

    @property
    def figures(self) -> Figures:
        """What carriers of a run's progress pass on."""
        return Figures(*(getattr(self, each.name) for each in FIGURES))

    @property
    def stood_s(self) -> float:
        """Seconds since ``step`` was reached until this was written, by training's clock; 0 if unknown."""
        # Points are in Unix time. A naive own time may be local time, and their difference then says nothing.
        if self.step_reached_at is None or self.own_time is None or not self.zoned:
            return 0.0
        return max(0.0, (self.own_time - self.step_reached_at).total_seconds())


OWN_TIMES: Final = (
    DocumentField(
        "last_update",
        TIME,
        "The document's own time: ISO 8601 with Z or an offset (without one it is UTC), or an epoch number.",
        _ALL,
        apart=True,
    ),
    DocumentField("last_updated", TIME, "Another name of last_update.", HEARTBEATS, apart=True),
    DocumentField("timestamp", TIME, "Another name of last_update.", HEARTBEATS, apart=True),
)
"""The first one that is a time counts."""
OTHER_FIELDS: Final = (
    DocumentField("run_id", RUN_ID, "The name of the run, which is that of its folder.", _ALL, apart=True),
    DocumentField("phase_detail", TEXT, "More about the phase."),
    DocumentField(
        "begun",
        FLAG,
        "In a distributed training: rank 0 has deleted what the last attempt left behind, so every error is this "
        "one's.",
    ),
    DocumentField("stop_call", COUNT, "The call of run.all_should_stop at which all ranks stop, announced by rank 0."),
    DocumentField("stop_reason", TEXT, "Why they stop."),
    DocumentField("lastbeat", TEXT, "The version of lastbeat that wrote it."),
    DocumentField("rank", COUNT, "Its number, from 0.", (RANK,)),
    DocumentField("local_rank", COUNT, "Its number on its machine.", (RANK,)),
    DocumentField(
        "section_times",
        unread(array_of({"type": "object"})),
        "How long its sections took, where limits are learned.",
        (RANK,),
    ),
    DocumentField(
        "step_window",
        unread({"type": "object"}),
        "Its last five minutes of steps, where slow ranks are looked for.",
        (RANK,),
    ),
)
"""What no watcher judges by."""


def read_heartbeat(file: StoredFile, mask: Callable[[str], str] = mask_tokens) -> Heartbeat:
    """Parse a heartbeat document as far as possible. ``mask`` hides secrets in its text.

    Never raises: ``fault`` says what is wrong, and it still counts as a heartbeat at its ``LastModified``. Fields of an
    unexpected type are missing; unknown fields are ignored.
    """
    return heartbeat_of(parsed(file), file.version, Reading(file.modified, mask))


def heartbeat_of(
    document: Mapping[str, object] | str, version: str, reading: Reading, *, curve: bool = True
) -> Heartbeat:
    """The heartbeat that ``document`` is, with its ``curve`` or without; a text says why it is none."""
    modified = reading.modified
    if isinstance(document, str):
        return Heartbeat(modified, version, fault=document)
    times = ((each.name, reading.time(document.get(each.name))) for each in OWN_TIMES)
    own_key, own = next(((key, time) for key, time in times if time is not None), ("", None))
    known = read_fields(Heartbeat, document, reading)
    fault = _time_fault(document, reading)
    start = known.pop("start_time", None)
    if start is not None and start > (own or modified) + _LEAD:
        # It would make every sentinel look older than the attempt.
        fault, start = "its start_time is later than the document itself; write both times in UTC", None
    points = document.get("recent")
    points = points if isinstance(points, list) else []
    step, loss = known.get("step"), known.get("loss")
    return Heartbeat(
        modified=modified,
        version=version,
        own_time=own,
        zoned=names_zone(document.get(own_key)),
        fault=fault,
        start_time=start,
        not_finite_since=_not_finite_since(points, step, loss),
        first_point=_first_point(points, reading),
        step_reached_at=_step_reached_at(points, step, reading),
        curve=read_curve(document, reading, (own or modified).timestamp()) if curve else Curve(),
        **known,
    )


def parsed(file: StoredFile) -> dict[str, object] | str:
    """The document in ``file``, or a text that says why it is none."""
    if file.size_bytes > len(file.body):
        return f"it is {file.size_bytes:,} bytes long; a heartbeat of more than {len(file.body):,} is not read"
    if not file.body.strip():
        return "it is empty"
    try:
        document = json.loads(file.body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (byte {error.start})"
    except json.JSONDecodeError as error:
        return f"it is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
    except (ValueError, RecursionError):
        return "it is not JSON that can be read: a number or a nesting is too large"
    if not isinstance(document, dict):
        return f"it is a JSON {_json_type(document)} where an object belongs"
    return document


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "value")


def _time_fault(document: Mapping[str, object], reading: Reading) -> str | None:
    for key in (*(each.name for each in OWN_TIMES), "start_time"):
        value = document.get(key)
        if isinstance(value, str) and value.strip() and parse_time(value) is None:
            return f"its {key} {reading.mask(value)[:40]!r} is not a time; write for example 2025-08-04T17:16:21Z"
    return None


def _not_finite_since(points: list[Any], step: int | None, loss: float | None) -> int | None:
    """The first step of the points at the end whose loss is not finite; None if the loss itself is."""
    if loss is None or math.isfinite(loss):
        return None
    since = step
    for point in reversed(points):
        value = number(point[2]) if isinstance(point, list) and len(point) >= _POINT_ITEMS else None
        if value is None or math.isfinite(value):
            break
        since = whole(point[1])
    return since


def _first_point(points: list[Any], reading: Reading) -> tuple[datetime, int] | None:
    first = points[0] if points else None
    if not isinstance(first, list) or len(first) < _POINT_ITEMS - 1:
        return None
    at, step = reading.time(first[0]), whole(first[1])
    return None if at is None or step is None else (at, step)


def _step_reached_at(points: list[Any], step: int | None, reading: Reading) -> datetime | None:
    """The time of the earliest of the points at the end that have the document's own ``step``."""
    reached: datetime | None = None
    for point in reversed(points if step is not None else []):
        if not isinstance(point, list) or len(point) < _POINT_ITEMS - 1 or whole(point[1]) != step:
            break
        reached = reading.time(point[0]) or reached
    return reached
