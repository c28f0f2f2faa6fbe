"""Traits of Ray, and its remedies for jobs that wait or leave GPUs unused."""

from collections.abc import Sequence
from typing import Final

from lastbeat.explain.launchers.traits import LauncherTraits, RayHead

PENDING: Final = (
    "ray status shows what is free and what waits; ask for less, add nodes to the cluster, or end it (lastbeat stop)."
)
_IDLE_GPUS: Final = (
    "Ray has given out none of its GPUs, and no step is seen. "
    "ray job submit starts an entrypoint without GPUs unless it asks for them (--entrypoint-num-gpus), or the training "
    "never asked Ray for any (ScalingConfig(use_gpu=True), @ray.remote(num_gpus=1)): ray status shows who has what. "
    "Where ray job submit leaves GPUs unused, start the training inside the head pod: lastbeat restart supervise "
    "--launcher ray-pod --at head-pod=P."
)


def _log(job: str) -> str:
    return f"ray job logs {job.partition('@')[0]}"


def _head(options: Sequence[str], place: str) -> RayHead:
    said = dict(each.split("=", 1) for each in options if "=" in each)
    return RayHead(said.get("--ray-address") or place.partition(" uid ")[0])


TRAITS: Final = LauncherTraits(
    remote=True,
    # A sent request takes effect even if its sender dies.
    submit_is_atomic=False,
    counts_reserved_gpus=True,
    pending_remedy=PENDING,
    log_remedy=_log,
    reach={"address": "--ray-address"},
    ray_head=_head,
    idle_gpus_remedy=_IDLE_GPUS,
)
