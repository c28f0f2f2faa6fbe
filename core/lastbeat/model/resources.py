"""What training uses of its machine, as its metadata.json says."""

from typing import Final

from lastbeat.model.data import dataclass
from lastbeat.model.document_field import (
    AMOUNT,
    COUNT,
    FLAG,
    NAME,
    SHARE,
    TEXT,
    DocumentField,
    FieldType,
    Reading,
    array_of,
    declared,
    document_field,
    object_of,
    objects,
    read_object,
    unread,
)

_MOST_GPUS: Final = 16
_MOST_REASONS: Final = 8
_REASONS: Final = {
    "hw_thermal": "heat",
    "sw_thermal": "heat",
    "hw_power_brake": "its power supply",
    "hw_slowdown": "its hardware",
}


def _throttle(value: object, _: Reading) -> tuple[str, ...]:
    """Why a GPU is slowed down, in the words that are known."""
    words = value[:_MOST_REASONS] if isinstance(value, list) else ()
    return tuple(_REASONS[word] for word in words if isinstance(word, str) and word in _REASONS)


_THROTTLE: Final = FieldType(_throttle, array_of({"type": "string"}))


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU visible to training."""

    name: str = document_field("name", NAME, default="GPU")
    utilization: float | None = document_field("utilization", SHARE)
    """From 0 to 1."""
    memory_used_bytes: int | None = document_field("memory_used_bytes", COUNT)
    memory_total_bytes: int | None = document_field("memory_total_bytes", COUNT)
    temperature_c: float | None = document_field("temperature_c", AMOUNT)
    power_w: float | None = document_field("power_w", AMOUNT)
    throttle: tuple[str, ...] = document_field(
        "throttle", _THROTTLE, "Why it is slowed down, as far as that is trouble.", default=()
    )
    lost: bool = document_field("lost", FLAG, "It has fallen off the bus, or has to be reset.", default=False)


_OTHER_GPU_FIELDS: Final = (
    DocumentField("index", COUNT, "The driver's number for it."),
    DocumentField("uuid", TEXT),
    DocumentField("bus", TEXT),
    DocumentField("power_limit_w", AMOUNT),
    DocumentField("ecc_corrected", COUNT, "Memory errors since the driver was loaded."),
    DocumentField("ecc_uncorrected", COUNT),
    DocumentField("rows_remapped", COUNT),
    DocumentField("rows_pending", FLAG),
    DocumentField("rows_failed", FLAG),
    DocumentField("nvlink_errors", COUNT),
    DocumentField("processes", COUNT),
    DocumentField(
        "xids", unread(array_of({"type": "integer"})), "Errors that the driver has reported since the last beat."
    ),
)
"""Not shown to people."""


def _gpus(value: object, reading: Reading) -> tuple[Gpu, ...]:
    found = (read_object(Gpu, each, reading) for each in objects(value, _MOST_GPUS))
    return tuple(each for each in found if each is not None)


_GPU: Final = object_of((*declared(Gpu).values(), *_OTHER_GPU_FIELDS))


@dataclass(frozen=True, slots=True)
class Resources:
    """What training uses, as its metadata.json tells."""

    cpu: float | None = document_field("cpu", AMOUNT, "Cores in use.")
    """By the process; 1.5: one and a half."""
    rss_bytes: int | None = document_field("rss_bytes", COUNT)
    memory_available_bytes: int | None = document_field("memory_available_bytes", COUNT)
    memory_total_bytes: int | None = document_field("memory_total_bytes", COUNT)
    gpus: tuple[Gpu, ...] = document_field(
        "gpus", FieldType(_gpus, array_of(_GPU)), "The GPUs visible to training.", default=()
    )


def _resources(value: object, reading: Reading) -> Resources | None:
    """None where nothing of it can be understood."""
    found = read_object(Resources, value, reading) if isinstance(value, dict) else None
    return None if found == Resources() else found


RESOURCES: Final = FieldType(_resources, object_of(declared(Resources).values()))
