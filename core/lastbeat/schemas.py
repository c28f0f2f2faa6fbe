"""JSON Schema of the documents that others write or read: a run's heartbeats, its record, a catalogue, limits.

Of all but heartbeats the types in the code are the source, so they cannot say anything else. Of heartbeats, which
anybody may write, the models here say what lastbeat makes something of; it reads far worse documents than these.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from lastbeat.handwritten import UNSAID
from lastbeat.model.persisted import Persisted
from lastbeat.model.record import SCHEMA, Record
from lastbeat.record.fleet_document import SCHEMA as LIMITS_SCHEMA
from lastbeat.record.limits_file import FileOfLimits
from lastbeat.signals.catalogue_files import CatalogueFile

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")

_NUMBER: Final = {"anyOf": [{"type": "number"}, {"enum": list(_NOT_FINITE)}]}
"""JSON has no such numbers, so these three are written as text."""

Number = Annotated[float, WithJsonSchema(_NUMBER)]
RunId = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"^(?!\.{1,2}$)(?!_)[A-Za-z0-9._+=@:-]{1,200}$"})]
Time = str | float


class HeartbeatDocument(BaseModel):
    """What both heartbeats have. Every field is optional, and unknown ones are left alone."""

    model_config = ConfigDict(extra="allow")

    run_id: RunId = UNSAID
    phase: str = UNSAID
    """What training does: setup, train, validation, checkpoint, …"""
    last_update: Time = UNSAID
    """The document's own time: ISO 8601 with Z or an offset (without one it is UTC), or an epoch number."""
    last_updated: Time = UNSAID
    """The same."""
    timestamp: Time = UNSAID
    """The same."""
    start_time: Time = UNSAID
    """When this attempt began. A later one than before tells a new attempt."""
    attempt: int = UNSAID
    """Which life of the run this is, from 1; a restart begins the next."""
    step: int = UNSAID
    total_steps: int = UNSAID
    loss: Number = UNSAID


class GpuDocument(BaseModel):
    """One GPU that training sees."""

    name: str = UNSAID
    utilization: float = Field(default=UNSAID, ge=0, le=1)
    memory_used_bytes: int = UNSAID
    memory_total_bytes: int = UNSAID
    index: int = UNSAID
    """The driver's number for it."""
    uuid: str = UNSAID
    bus: str = UNSAID
    lost: bool = UNSAID
    """It has fallen off the bus, or has to be reset."""
    temperature_c: int = UNSAID
    power_w: float = UNSAID
    power_limit_w: float = UNSAID
    throttle: list[str] = UNSAID
    """Why it is slowed down, as far as that is trouble."""
    ecc_corrected: int = UNSAID
    """Memory errors since the driver was loaded."""
    ecc_uncorrected: int = UNSAID
    rows_remapped: int = UNSAID
    rows_pending: bool = UNSAID
    rows_failed: bool = UNSAID
    nvlink_errors: int = UNSAID
    processes: int = UNSAID
    xids: list[int] = UNSAID
    """Errors that the driver has reported since the last beat."""


class NodeConditionDocument(BaseModel):
    """Something about a node that is worth a warning."""

    name: str
    text: str
    since: Time = UNSAID


class NodeHistoryDocument(BaseModel):
    """The last hours of a node."""

    from_: float = Field(alias="from")
    """Unix time of the first value."""
    each_s: float = Field(gt=0)
    series: dict[str, list[float | None]]
    """Shares from 0 to 1, °C and W; all of one length."""


class NodeDiskDocument(BaseModel):
    """A file system that training writes to."""

    path: str
    free_bytes: int
    total_bytes: int
    free_inodes: int = UNSAID
    total_inodes: int = UNSAID
    read_only: bool = UNSAID


class NodeHealthDocument(BaseModel):
    """How the node of rank 0 is, as it says."""

    sampled_at: Time = UNSAID
    conditions: list[NodeConditionDocument]
    swap_used_bytes: int = UNSAID
    swap_total_bytes: int = UNSAID
    cpu_limit: float = UNSAID
    """What its cgroup may use, in cores."""
    cpu_throttled_s: float = UNSAID
    """How long that cgroup has had to wait because it had used that up."""
    disks: list[NodeDiskDocument] = UNSAID
    network_errors: dict[str, int] = UNSAID
    """Interface or InfiniBand port → errors since boot."""
    tcp_sent: int = UNSAID
    """Segments since boot."""
    tcp_retransmitted: int = UNSAID
    history: NodeHistoryDocument | None = UNSAID


class ResourcesDocument(BaseModel):
    """What training uses of its machine."""

    cpu: float = UNSAID
    """Cores in use."""
    rss_bytes: int = UNSAID
    memory_available_bytes: int = UNSAID
    memory_total_bytes: int = UNSAID
    gpus: list[GpuDocument] = UNSAID


class SectionDocument(BaseModel):
    """A section that training is in."""

    name: str = UNSAID
    """Left out: it is in none."""
    open_s: float = Field(ge=0)
    """For how long, by its monotonic clock."""
    limit_s: float = Field(default=UNSAID, gt=0)
    """For how long it may be."""


class InPlaceDocument(BaseModel):
    """That lastbeat exec ends training when it hangs, and starts it again in its place."""

    token: str
    """Identifies this start."""
    restarts: int = Field(ge=0)
    """How often it has been started again within its job."""
    left: int = Field(ge=0)
    """How often it still may be."""
    takes_s: float = Field(ge=0)
    """So long it may take from a hang to the next start: before, nobody else need do anything."""


class MetadataDocument(HeartbeatDocument):
    """metadata.json: a run's liveness heartbeat, written every so often by training."""

    status: str = UNSAID
    """What training says of itself, as running; what counts as its end are the files _error and _complete."""
    phase_detail: str = UNSAID
    instance_id: str = UNSAID
    """The machine, as people look for it in a console or a queue."""
    zone: str = UNSAID
    instance_type: str = UNSAID
    host: str = UNSAID
    process: int = UNSAID
    process_mark: str = UNSAID
    """Which process that number means: the boot of its machine, the space of its number, and when it began."""
    wraps: bool = UNSAID
    """Whether lastbeat exec started it."""
    in_place: InPlaceDocument = UNSAID
    """Whether it also ends it when it hangs, and starts it again."""
    stop_seconds: float = Field(default=UNSAID, gt=0)
    """How often it looks for a request to end (``_stop``)."""
    owner: str = UNSAID
    """Whose run it is: a name, an address or a chat handle."""
    team: str = UNSAID
    """The owner's team."""
    ignored_settings: list[str] = UNSAID
    """Settings that are wrong and left at their default, each as ``LASTBEAT_LEARN='banana'``; secrets by name alone."""
    beat_seconds: float = Field(default=UNSAID, gt=0)
    """How often this document is written."""
    longest_gap_s: float = Field(default=UNSAID, gt=0)
    """The longest time between two of them so far in this attempt."""
    clock_offset_s: float = UNSAID
    """How far the store's clock is ahead of the clock of this document's times, in seconds; negative if it is behind.
    Nobody who reads this takes a clock that is off for an old document."""
    stale_minutes: float = Field(default=UNSAID, gt=0)
    """The run's own limit: a heartbeat older than this is stale."""
    stall_minutes: float = Field(default=UNSAID, gt=0)
    """The run's own limit: no new step for this long is a stall."""
    resources: ResourcesDocument = UNSAID
    health: NodeHealthDocument = UNSAID
    phases: list[tuple[float, str]] = UNSAID
    """The latest changes of phase, oldest first: Unix time and name."""
    thread_error: str = UNSAID
    """Name and message of the first exception that ended one of training's threads. It does not end the run, but may
    be why the run hangs or fails later."""
    raised_at: Time = UNSAID
    """When it last wrote an alert of its own (``_alerts.json``)."""
    world_size: int = UNSAID
    """How many ranks a distributed training has."""
    sections: list[SectionDocument] = UNSAID
    """The sections that it is in now, or none of them."""
    rank_beat_seconds: float = Field(default=UNSAID, gt=0)
    """How often each of them writes ranks/{rank}.json."""
    begun: bool = UNSAID
    """In a distributed training: rank 0 has deleted what the last attempt left behind, so every error is this one's."""
    lastbeat: str = UNSAID
    """The version of lastbeat that wrote it."""


class ProgressDocument(HeartbeatDocument):
    """progress.json: a run's progress heartbeat, optional."""

    learning_rate: Number = UNSAID
    epoch: Number = UNSAID
    tokens: int = UNSAID
    """Tokens seen so far in this attempt."""
    steps_per_second: float = UNSAID
    tokens_per_second: float = UNSAID
    eta_s: float = UNSAID
    """Seconds left, as far as speed tells."""
    metrics: dict[str, Number] = UNSAID
    """Figures of training's own."""
    recent: list[tuple[float, int, Number | None, Number | None]] = UNSAID
    """The latest points, oldest first: Unix time, step, loss, learning rate."""
    metric_points: dict[str, list[tuple[float, int, Number]]] = UNSAID
    """Points of training's own figures, oldest first: Unix time, step, value."""


# Types → schemas.


class _Generator(GenerateJsonSchema):
    """With the docstrings of the fields, without the titles that pydantic makes up."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's face
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {key: value for key, value in made.items() if (key, value) != ("default", None)}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])


class _RecordGenerator(_Generator):
    """The form in which :mod:`lastbeat.codec` writes."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        # What is not known is not said: any further field may be there.
        properties = {name: value for name, value in made["properties"].items() if name != "unknown"}
        return {**made, "properties": properties}


def _flattened(definitions: Mapping[str, Any]) -> dict[str, Any]:
    """``definitions`` with the fields of flat parts moved to their parents."""
    flat = {
        (kind.__name__, each.name): each.type.__name__
        for kind in Persisted.__subclasses__()
        for each in fields(kind)
        if each.metadata.get("flat") and isinstance(each.type, type)
        if kind.__name__ in definitions
    }
    made = {name: dict(definition) for name, definition in definitions.items()}
    for (parent, field), part in flat.items():
        own = {name: value for name, value in made[parent]["properties"].items() if name != field}
        made[parent]["properties"] = {**made[part]["properties"], **own}
        required = [name for name in made[parent].get("required", []) if name != field]
        made[parent]["required"] = [*made[part].get("required", []), *required]
    return made


def _described(made: JsonSchemaValue, cls: type[Any]) -> JsonSchemaValue:
    said = {name: text for each in reversed(cls.__mro__) for name, text in _sentences(each)}
    properties = {
        name: {**value, "description": said[name]} if name in said else value
        for name, value in made.get("properties", {}).items()
    }
    whole = _text(cls.__doc__ or "")
    return {**made, **({"description": whole} if whole else {}), **({"properties": properties} if properties else {})}


def _sentences(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Field → its docstring, for one of our classes."""
    if not cls.__module__.startswith("lastbeat."):
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)  # noqa: S101 - what the source of a class is
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, _text(below.value.value)


def _text(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())


def _heartbeat(model: type[HeartbeatDocument]) -> dict[str, Any]:
    return model.model_json_schema(schema_generator=_Generator)


def _record() -> dict[str, Any]:
    made = TypeAdapter(Record).json_schema(schema_generator=_RecordGenerator)
    version = {"type": "integer", "minimum": 1, "description": f"Version of the format; this is of {SCHEMA}."}
    return {
        **made,
        "description": "_watchdog.json: the watchdog's whole memory of one run, written by nobody else.",
        "properties": {"schema": version, **made["properties"]},
        "required": ["schema", *made["required"]],
        "$defs": _flattened(made["$defs"]),
    }


def _catalogue() -> dict[str, Any]:
    return CatalogueFile.model_json_schema(schema_generator=_Generator)


def _limits() -> dict[str, Any]:
    made = FileOfLimits.model_json_schema(schema_generator=_Generator)
    version = {"type": "integer", "minimum": 1, "description": f"Version of the format; this is of {LIMITS_SCHEMA}."}
    required = ["schema", *made["required"]]
    return {**made, "properties": {"schema": version, **made["properties"]}, "required": required}


SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "metadata": partial(_heartbeat, MetadataDocument),
    "progress": partial(_heartbeat, ProgressDocument),
    "record": _record,
    "catalogue": _catalogue,
    "limits": _limits,
}
"""Document → its schema's maker."""


def schema(name: str) -> dict[str, Any]:
    """The schema of one of :data:`SCHEMAS`."""
    return {"$schema": DIALECT, **SCHEMAS[name](), "title": f"lastbeat: {name}"}
