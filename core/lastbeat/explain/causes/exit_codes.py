"""Meanings of exit codes, signals and a scheduler's states, for an end without another explanation."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from lastbeat.explain.signals.hints import ABORTED, ENDED_BY_ITSELF, ENDED_BY_SIGNAL

_SIGNALS: Final = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
    "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31,
    # As shells, srun and make print them.
    "Hangup": 1, "Interrupt": 2, "Quit": 3, "Illegal instruction": 4, "Trace/breakpoint trap": 5, "Aborted": 6,
    "Bus error": 7, "Floating point exception": 8, "Killed": 9, "User defined signal 1": 10, "Segmentation fault": 11,
    "User defined signal 2": 12, "Alarm clock": 14, "Terminated": 15, "CPU time limit exceeded": 24,
    "File size limit exceeded": 25, "Bad system call": 31,
}  # fmt: skip


_BITS: Final = 0xFFFFFFFF
"""Bits of an exit status. Some programs print a status of Windows as a negative number."""
_OF_WINDOWS: Final = {
    0xC000013A: 2, 0xC000001D: 4, 0xC0000374: 6, 0xC0000409: 6, 0xC0000094: 8, 0xC0000005: 11, 0xC00000FD: 11,
}  # fmt: skip
"""Status with which Windows ends a process → the signal for the same end."""


class ExitMeaning(NamedTuple):
    """The likely meaning of the way a process ended."""

    error_type: str
    subsystem: str
    confidence: float
    said_by: str = ""
    """The catalogue's signal for the same end in words, which has the fitting hint."""


SCHEDULERS: Final = "slurm"
"""Subsystem of a scheduler's report that it ended the job, without a reason."""
OF_SIGKILL: Final = ExitMeaning("oom", "host_memory", 0.5, "killed_by_shell")
"""Meaning of a SIGKILL without further evidence."""
_OF_SIGNALS: Final = {
    1: ExitMeaning("cancelled", "signal", 0.35, "terminated"),
    2: ExitMeaning("cancelled", "signal", 0.45, "interrupted"),
    3: ExitMeaning("cancelled", "signal", 0.35, "terminated"),
    4: ExitMeaning("environment", "cpu", 0.55, "illegal_instruction"),
    7: ExitMeaning("oom", "shared_memory", 0.5, "bus_error"),
    8: ExitMeaning("exception", "native_crash", 0.65, "floating_point_exception"),
    9: OF_SIGKILL,
    10: ExitMeaning("cancelled", "signal", 0.4, "notice_unhandled"),
    11: ExitMeaning("exception", "native_crash", 0.65, "segmentation_fault"),
    12: ExitMeaning("cancelled", "signal", 0.4, "notice_unhandled"),
    15: ExitMeaning("cancelled", "signal", 0.35, "terminated"),
    24: ExitMeaning("time_limit", "cpu_time", 0.6, "cpu_time_limit"),
    25: ExitMeaning("storage", "file_size", 0.6, "file_size_limit"),
    31: ExitMeaning("environment", "system_call", 0.5, "system_call_refused"),
}
"""Signal → meaning. SIGABRT is missing because it has too many causes, such as a lost peer or NCCL's watchdog."""
_ABORTS: Final = frozenset({_SIGNALS["SIGABRT"], _SIGNALS["SIGTRAP"]})
_OF_CODES: Final = {
    # Of Windows: no memory, and a library that is missing or does not start.
    0xC0000017: ExitMeaning("oom", "host_memory", 0.65, "memory_error"),
    0xC000012D: ExitMeaning("oom", "host_memory", 0.65, "memory_error"),
    0xC0000135: ExitMeaning("environment", "library", 0.65, "import_failed"),
    0xC0000142: ExitMeaning("environment", "library", 0.65, "import_failed"),
    124: ExitMeaning("time_limit", "timeout", 0.45),
    # A shell that could not start the command.
    126: ExitMeaning("environment", "permission", 0.5, "permission"),
    127: ExitMeaning("environment", "program", 0.5, "program_missing"),
}
"""Exit code → meaning. 124 is that of ``timeout``."""
_OF_WORDS: Final = {
    "OUT_OF_MEMORY": ExitMeaning("oom", "host_memory", 0.8, "slurm_oom_kill"),
    "OOMKILLED": ExitMeaning("oom", "host_memory", 0.8, "container_oom_killed"),
    "TIMEOUT": ExitMeaning("time_limit", "slurm", 0.8, "time_limit"),
    "DEADLINE": ExitMeaning("time_limit", "slurm", 0.8, "time_limit"),
    "NODE_FAIL": ExitMeaning("slurm_failure", "node_fail", 0.8, "node_failure"),
    "BOOT_FAIL": ExitMeaning("slurm_failure", "node_fail", 0.8, "node_failure"),
    "LAUNCH_FAILED": ExitMeaning("slurm_failure", "slurm_step", 0.8, "slurm_launch_failed"),
    "PREEMPTED": ExitMeaning("cancelled", "preemption", 0.8, "preempted"),
    "EVICTED": ExitMeaning("cancelled", "preemption", 0.8, "container_evicted"),
    "CANCELLED": ExitMeaning("cancelled", SCHEDULERS, 0.8, "slurm_cancelled"),
}
_OTHERWISE: Final[Mapping[ExitMeaning, ExitMeaning]] = {
    # The sender may be a person, or a scheduler that gives no grace period.
    OF_SIGKILL: ExitMeaning("cancelled", "signal", 0.0),
    # A mapped file may have been truncated, or its file system may have gone away.
    _OF_SIGNALS[7]: ExitMeaning("storage", "mapped_file", 0.0),
    _OF_SIGNALS[4]: ExitMeaning("exception", "native_crash", 0.0),
    _OF_SIGNALS[15]: ExitMeaning("time_limit", SCHEDULERS, 0.0, "time_limit"),
    _OF_CODES[124]: ExitMeaning("hang", "timeout", 0.0),
}
"""Uncertain meaning of an end → its second most likely meaning."""


def otherwise(meaning: ExitMeaning) -> ExitMeaning | None:
    """The second most likely meaning of such an end, or None."""
    return _OTHERWISE.get(meaning)


def signal_of(exit_code: int) -> int | None:
    """The signal behind an exit code. Python reports it as a negative number, shells add 128, PBS adds 256, and Windows
    has numbers of its own."""
    if exit_code & _BITS in _OF_WINDOWS:
        return _OF_WINDOWS[exit_code & _BITS]
    number = -exit_code if exit_code < 0 else exit_code - (256 if exit_code > 256 else 128)
    return number if 0 < number < 65 else None


def of_exit_code(exit_code: int) -> ExitMeaning | None:
    """The likely meaning of the code, or None if it could be anything."""
    number = signal_of(exit_code)
    return _OF_CODES.get(exit_code & _BITS) if number is None else _OF_SIGNALS.get(number)


def as_evidence(exit_code: int) -> str:
    """The text behind "exit status": ``killed by SIGKILL``, ``137 (killed by SIGKILL)`` or ``3``."""
    if exit_code < 0:
        return in_words(exit_code).removeprefix("was ")
    killed = signal_of(exit_code) is not None
    return f"{exit_code} ({in_words(exit_code).removeprefix('was ')})" if killed else str(exit_code)


def in_words(exit_code: int) -> str:
    """The predicate for a process: ``was killed by SIGKILL`` or ``ended with exit status 3``."""
    number = signal_of(exit_code)
    name = next((name for name, known in _SIGNALS.items() if known == number), f"signal {number}")
    return f"ended with exit status {exit_code}" if number is None else f"was killed by {name}"


def hint_of(exit_code: int) -> str:
    """The advice if only the exit code is known."""
    number = signal_of(exit_code)
    if number is None:
        return ENDED_BY_ITSELF.format(status=exit_code)
    hint = ABORTED if number in _ABORTS else ENDED_BY_SIGNAL
    return hint.format(ended=in_words(exit_code))


def of_scheduler(word: str) -> ExitMeaning | None:
    """The meaning of a state that sacct or kubectl print (``OUT_OF_MEMORY``, ``CANCELLED by 1000``), or None."""
    words = word.strip().upper().replace("-", "_").split()
    return _OF_WORDS.get(words[0].rstrip("+:")) if words else None


def stated_in(fields: Mapping[str, str]) -> int | None:
    """The exit code other than 0 in the fields that a line's signal extracted; negative for the number or name of a
    signal. None if there is none."""
    for name, value in fields.items():
        code = 0
        if name.startswith("exit_code") and value.lstrip("-").isdigit():
            code = int(value)
        elif name.startswith("signal"):
            code = -(int(value) if value.isdigit() else _SIGNALS.get(value, 0))
        if code:
            return code
    return None


def of_fields(fields: Mapping[str, str]) -> ExitMeaning | None:
    """The meaning of the exit code in a line's fields, or None."""
    code = stated_in(fields)
    return of_exit_code(code) if code is not None else None
