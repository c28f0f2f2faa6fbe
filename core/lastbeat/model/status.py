"""Names of statuses, conditions and events, as people read them in alerts."""

import re
from enum import Enum
from typing import Final


class Status(str, Enum):
    """The status of a run. ``UNKNOWN`` is no status of a run but the answer of a pass that could not observe.

    A record may hold a status that a newer lastbeat has added. It becomes a member that equals none of these and is
    shown and written unchanged; see :attr:`is_foreign`.
    """

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    """A person ended it, at its own terminal or through lastbeat."""
    PREEMPTED = "PREEMPTED"
    """It ended early on request, and saved a checkpoint first: no failure."""
    UNKNOWN = "UNKNOWN"
    NO_HEARTBEAT = "NO_HEARTBEAT"
    """Scripts have raised alerts under this id, and no heartbeat was ever written."""

    def __str__(self) -> str:
        return self.value

    @classmethod
    def _missing_(cls, value: object) -> "Status | None":
        if not isinstance(value, str) or not re.fullmatch(r"[A-Z][A-Z_]{1,30}", value):
            return None
        foreign = str.__new__(cls, value)
        foreign._name_ = foreign._value_ = value
        return foreign

    @property
    def is_foreign(self) -> bool:
        """Whether a newer lastbeat gave it, and this one does not know what it means."""
        return self.value not in type(self).__members__

    @property
    def finished(self) -> bool:
        """Whether a watch of one run has nothing left to wait for."""
        return self.ended or self is Status.TIMED_OUT

    @property
    def ended(self) -> bool:
        """Whether only a new attempt changes it."""
        return self in {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.PREEMPTED}


UNWELL: Final = frozenset({Status.FAILED, Status.TIMED_OUT})
"""The run did not go well, and that was not intended."""


class Event(str, Enum):
    """What an alert is about; lower-cased, these are the words of ``ALERT_ON`` (but those that say otherwise)."""

    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"
    PREEMPTED = "PREEMPTED"
    RECOVERED = "RECOVERED"
    STARTED = "STARTED"
    """The first heartbeat of a run that was TIMED_OUT because it had none: wanted with RECOVERED."""
    RESTARTED = "RESTARTED"
    """A new attempt reopened a finished run; or one that ``lastbeat exec`` started in place goes on: wanted with
    RECOVERED, too."""
    WARNING = "WARNING"
    """At least one condition was newly raised."""
    ALERT = "ALERT"
    """Training raised it itself: wanted with WARNING."""
    FLAPPING = "FLAPPING"
    """It goes back and forth between RUNNING and TIMED_OUT: wanted with either of TIMED_OUT and RECOVERED."""
    BLIND = "BLIND"
    """The watchdog has not been able to see the run for a while. Says nothing about the run. Always wanted."""
    SIGHTED = "SIGHTED"
    """After BLIND: it can see again."""
    FIRST_LOOK = "FIRST_LOOK"
    """Runs that had ended before the fleet was watched, in one notice: wanted as far as its parts are."""
    DIGEST = "DIGEST"
    """The last day of the fleet in one message: wanted where LASTBEAT_DIGEST is set."""
    TEST = "TEST"
    """A test message that a person asked for."""

    def __str__(self) -> str:
        return self.value

    @property
    def severity(self) -> str:
        """``critical``, ``warning`` or ``info``: what a pager filters on."""
        if self in {Event.FAILED, Event.TIMED_OUT}:
            return "critical"
        return "warning" if self in {Event.WARNING, Event.FLAPPING, Event.BLIND, Event.FIRST_LOOK} else "info"


def steps_done(step: int, total: int | None, status: "Status | None") -> int:
    """Steps of ``total`` that are done after ``step``, as people are shown them: a run that SUCCEEDED at the last step
    of a loop which counts from 0 did all of them."""
    return total if status is Status.SUCCEEDED and total is not None and step == total - 1 else step


# Conditions that are named outside their row of the table in decide/conditions.
METADATA_STALE: Final = "metadata_stale"
BEATS_MISSED: Final = "beats_missed"
PROGRESS_STALE: Final = "progress_stale"
RANK_SILENT: Final = "rank_silent"
STRAGGLER: Final = "straggler"
STALLED: Final = "stalled"
LOSS_NAN: Final = "loss_nan"
SLOWDOWN: Final = "slowdown"
LOSS_SPIKE: Final = "loss_spike"
LOSS_DIVERGING: Final = "loss_diverging"
GRAD_NORM_SPIKE: Final = "grad_norm_spike"
GRAD_NORM_DIVERGING: Final = "grad_norm_diverging"
LOSS_FLAT: Final = "loss_flat"
LR_ZERO: Final = "lr_zero"
JOB_PENDING: Final = "job_pending"
JOB_LOG_MISSING: Final = "job_log_missing"
GPU_IDLE: Final = "gpu_idle"
GPU_LOST: Final = "gpu_lost"
GPU_ECC: Final = "gpu_ecc"
GPU_THROTTLED: Final = "gpu_throttled"
DISK_LOW: Final = "disk_low"
RAM_LOW: Final = "ram_low"
NETWORK_ERRORS: Final = "network_errors"
EFA_FALLBACK: Final = "efa_fallback"
FAILURE_IN_LOG: Final = "failure_in_log"
WARNING_IN_LOG: Final = "warning_in_log"
