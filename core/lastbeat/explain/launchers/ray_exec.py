"""Traits of jobs of Ray that are asked for by its own commands in the head pod."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lastbeat.explain.launchers.ray import TRAITS as RAY
from lastbeat.explain.launchers.traits import LauncherTraits, RayHead


def _head(_options: Sequence[str], place: str) -> RayHead:
    """The head pod of ``place``, which is ``SERVER/NAMESPACE/POD``."""
    before, _, pod = place.rpartition("/")
    return RayHead(pod=pod, namespace=before.rpartition("/")[2], place=place)


TRAITS: Final[LauncherTraits] = replace(RAY, ray_head=_head)
