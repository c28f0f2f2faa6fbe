"""Traits of jobs in the head pod of a Ray cluster."""

from collections.abc import Sequence
from typing import Final

from lastbeat.explain.launchers.kubernetes import ENDS
from lastbeat.explain.launchers.ray import PENDING
from lastbeat.explain.launchers.traits import LauncherTraits, RayHead


def _log(_job: str) -> str:
    return "'kubectl exec' into the head pod, whose TMPDIR, or /tmp, has its log,"


def _head(options: Sequence[str], _place: str) -> RayHead:
    said = dict(each.removeprefix("--").split("=", 1) for each in options if "=" in each)
    names = ("namespace", "container", "context")
    return RayHead("", said.get("head-pod", ""), *(said.get(name, "") for name in names))


TRAITS: Final = LauncherTraits(
    remote=True,
    # A kubectl exec goes on in the pod without the process that called it.
    submit_is_atomic=False,
    gone_is_dead=True,
    ends=ENDS,
    pending_remedy=PENDING,
    log_remedy=_log,
    reach={key: f"--{key}" for key in ("head-pod", "namespace", "container", "context")},
    ray_head=_head,
)
