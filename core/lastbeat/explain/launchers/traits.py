"""What sets one launcher apart from another where others ask: facts about its jobs, and its words with their remedies.

Pure, and light: runs are judged by these without loading the launcher itself.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, NamedTuple

from lastbeat.model.data import dataclass
from lastbeat.model.job import JobState

_IDLE_GPUS: Final = (
    "GPUs are reserved and not used: the job's log says what it does meanwhile (a download, a data set that is "
    "prepared, a worker that it waits for); does it ask for GPUs at all, and does torch.cuda.is_available() say True "
    "in it? If not, end it (lastbeat stop) and start it with them."
)


class WaitReason(NamedTuple):
    """What a launcher's reason for waiting means, and what to do about it."""

    means: str = ""
    """Empty: lastbeat does not know the reason."""
    remedy: str = ""
    """``ID`` in it stands for the job's id."""
    hopeless: bool = False
    """It does not pass by itself."""


class EndCause(NamedTuple):
    """Why a job ended that ended with a certain word, and what to do about it."""

    error_type: str
    remedy: str


class RayHead(NamedTuple):
    """Where the head of a Ray cluster is reached: at the address of its dashboard, or in its pod."""

    address: str = ""
    pod: str | None = None
    """None: it is reached at ``address``."""
    namespace: str = ""
    """Empty: that of kubectl's context."""
    container: str = ""
    """Empty: the pod's first one."""
    context: str = ""
    """Empty: kubectl's current one."""
    place: str = ""
    """``SERVER/NAMESPACE/POD``, where kubectl has to find the pod. Empty: wherever it finds one of that name."""


def _no_ray(_options: Sequence[str], _place: str) -> None:
    return None


def _unknown_reason(_reason: str) -> WaitReason:
    return WaitReason()


def _named_output(_job: str) -> str:
    return "look at its --output"


@dataclass(frozen=True, slots=True)
class LauncherTraits:
    """One kind of launcher. The defaults are those of a launcher of which lastbeat knows only the name."""

    remote: bool = False
    """Its jobs run where this machine's folders and environment are not: paths of theirs are their own, they inherit
    nothing from the process that starts them, and lastbeat fetches what they write (:meth:`Launcher.output`)."""
    needs_state: bool = False
    """It can start nothing where it cannot write into its folder."""
    submit_is_atomic: bool = False
    """After the caller dies, ``find`` is conclusive: no submission is still in flight."""
    gone_is_dead: bool = False
    """When a job is gone, none of its processes is left. A scheduler may only have lost sight of them."""
    output_below_run: bool = False
    """Where no output is named, the job writes into a file below its run."""
    takes_manifest: bool = False
    """A job's command names a manifest's file, and the text of that file is recorded with the supervision."""
    counts_reserved_gpus: bool = False
    """Its count of used GPUs is of those that it has given out. A job may use others without asking for them."""
    subsystem: str | None = None
    """The subsystem of a failure that only the launcher explains."""
    causes: Mapping[JobState, str] = field(default_factory=dict)
    """How a job ended → error type, where that is not the same for all launchers."""
    ends: Mapping[str, EndCause] = field(default_factory=dict)
    """The launcher's word for an end → its cause."""
    signal_remedies: Mapping[int, str] = field(default_factory=dict)
    """Number that the launcher gives as a signal → what to do, where it means something else there."""
    wait_reason: Callable[[str], WaitReason] = _unknown_reason
    """The reason for which a job waits → what it means."""
    pending_remedy: str = "Ask its launcher why it does not begin."
    """What shows why a job waits; ``ID`` in it stands for the job's id."""
    log_remedy: Callable[[str], str] = _named_output
    """Job's id → what shows where its log is; of a remote launcher, what shows the log itself."""
    reach: Mapping[str, str] = field(default_factory=dict)
    """Key of ``--at`` → the option by which the launcher takes where its jobs run."""
    ray_head: Callable[[Sequence[str], str], RayHead | None] = _no_ray
    """Options and place of its jobs → the head of the Ray cluster on which they run. None: they run on none."""
    idle_gpus_remedy: str = _IDLE_GPUS
    """What to do about GPUs that a job leaves unused."""


LAUNCHERS: Final = ("kubernetes", "local", "ray", "ray-pod", "slurm")
"""The kinds that people name. The traits of one are in the module of that name beside this one."""
RECORDED: Final = (*LAUNCHERS, "ray-exec")
"""The kinds that stand in records. ``lastbeat.launch.ray`` alone begins runs of ``ray-exec``."""
_UNKNOWN: Final = LauncherTraits()


def launcher_traits(kind: str) -> LauncherTraits:
    """The traits of the launcher ``kind``, as a record names it. One that lastbeat does not know has the defaults."""
    if kind not in RECORDED:
        return _UNKNOWN
    found: LauncherTraits = importlib.import_module(f"lastbeat.explain.launchers.{kind.replace('-', '_')}").TRAITS
    return found


def subsystems() -> frozenset[str]:
    """The subsystems of failures that only a launcher explains."""
    return frozenset(filter(None, (launcher_traits(kind).subsystem for kind in LAUNCHERS)))
