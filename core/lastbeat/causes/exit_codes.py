"""What exit codes, signals and a scheduler's words say of an end that nothing else explains."""

from collections.abc import Mapping
from typing import Final

_SIGNALS: Final = {
    "SIGHUP": 1, "SIGINT": 2, "SIGILL": 4, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11,
    "SIGTERM": 15, "Killed": 9, "Terminated": 15, "Aborted": 6, "Segmentation fault": 11, "Bus error": 7,
    "Floating point exception": 8,
}  # fmt: skip
_MEANINGS: Final = {
    9: ("oom", "host_memory", 0.5),
    7: ("oom", "shared_memory", 0.5),
    11: ("exception", "native_crash", 0.5),
    4: ("exception", "native_crash", 0.4),
    8: ("exception", "native_crash", 0.4),
    15: ("cancelled", "signal", 0.35),
    2: ("cancelled", "signal", 0.45),
    1: ("cancelled", "signal", 0.35),
}
_WORDS: Final = {
    "OUT_OF_MEMORY": ("oom", "host_memory", 0.8),
    "OOMKILLED": ("oom", "host_memory", 0.8),
    "TIMEOUT": ("time_limit", "slurm", 0.8),
    "DEADLINE": ("time_limit", "slurm", 0.8),
    "NODE_FAIL": ("slurm_failure", "node_fail", 0.8),
    "BOOT_FAIL": ("slurm_failure", "node_fail", 0.8),
    "LAUNCH_FAILED": ("slurm_failure", "slurm_step", 0.8),
    "PREEMPTED": ("cancelled", "preemption", 0.8),
    "EVICTED": ("cancelled", "preemption", 0.7),
    "CANCELLED": ("cancelled", "slurm", 0.5),
}
ExitMeaning = tuple[str, str, float]
"""Error type, subsystem and confidence."""


def signal_of(exit_code: int) -> int | None:
    """The signal behind an exit code. Python reports it as a negative number, shells add 128."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    return number if 0 < number < 65 else None


def of_exit_code(exit_code: int) -> ExitMeaning | None:
    """What the code hints at; None where it could be anything, as SIGABRT. 124 is that of ``timeout``."""
    if exit_code == 124:
        return "time_limit", "timeout", 0.45
    number = signal_of(exit_code)
    return _MEANINGS.get(number) if number is not None else None


def of_signal_name(name: str) -> ExitMeaning | None:
    number = _SIGNALS.get(name)
    return _MEANINGS.get(number) if number is not None else None


def of_scheduler(word: str) -> ExitMeaning | None:
    """What a scheduler's state means, as sacct or kubectl print it (``OUT_OF_MEMORY``, ``CANCELLED by 1000``)."""
    words = word.strip().upper().replace("-", "_").split()
    return _WORDS.get(words[0].rstrip("+:")) if words else None


def of_fields(fields: Mapping[str, str]) -> ExitMeaning | None:
    """What the fields of a line mean that states an exit code, a signal's number or its name."""
    for name, value in fields.items():
        meaning = None
        if name.startswith("exit_code") and value.lstrip("-").isdigit():
            meaning = of_exit_code(int(value))
        elif name == "signal" and value.isdigit():
            meaning = of_exit_code(-int(value))
        elif name.startswith("signal_name"):
            meaning = of_signal_name(value)
        if meaning is not None:
            return meaning
    return None
