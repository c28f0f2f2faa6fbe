"""What training says that it uses: processor, memory, GPUs."""

from collections.abc import Callable
from typing import Final

from lastbeat.model.numbers import amount, finite, whole
from lastbeat.model.view import Gpu, Resources

GPUS_LIMIT: Final = 16
_MOST_REASONS: Final = 8
_REASONS: Final = {
    "hw_thermal": "heat",
    "sw_thermal": "heat",
    "hw_power_brake": "its power supply",
    "hw_slowdown": "its hardware",
}


def read_resources(value: object, shown: Callable[[str], str]) -> Resources | None:
    """``resources`` of metadata.json; None where it tells nothing that can be understood. ``shown`` makes a name
    harmless."""
    if not isinstance(value, dict):
        return None
    listed = value.get("gpus")
    gpus = (_gpu(each, shown) for each in listed[:GPUS_LIMIT]) if isinstance(listed, list) else ()
    found = Resources(
        cpu=amount(value.get("cpu")),
        rss_bytes=_bytes(value.get("rss_bytes")),
        memory_available_bytes=_bytes(value.get("memory_available_bytes")),
        memory_total_bytes=_bytes(value.get("memory_total_bytes")),
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
    )
    return None if found == Resources() else found


def _gpu(value: object, shown: Callable[[str], str]) -> Gpu | None:
    if not isinstance(value, dict):
        return None
    name, used = value.get("name"), finite(value.get("utilization"))
    return Gpu(
        name=shown(name) if isinstance(name, str) and name.strip() else "GPU",
        utilization=used if used is not None and 0 <= used <= 1 else None,
        memory_used_bytes=_bytes(value.get("memory_used_bytes")),
        memory_total_bytes=_bytes(value.get("memory_total_bytes")),
        temperature_c=amount(value.get("temperature_c")),
        power_w=amount(value.get("power_w")),
        throttle=_throttle(value.get("throttle")),
        lost=value.get("lost") is True,
    )


def _throttle(value: object) -> tuple[str, ...]:
    """Why a GPU is slowed down, in the words that are known."""
    listed = value[:_MOST_REASONS] if isinstance(value, list) else ()
    return tuple(_REASONS[word] for word in listed if isinstance(word, str) and word in _REASONS)


def _bytes(value: object) -> int | None:
    told = whole(value)
    return told if told is not None and told >= 0 else None
