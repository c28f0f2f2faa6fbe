"""The checkpoints of a run, wherever training saves them."""

from typing import Final

from lastbeat import settings as configuration
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.jobs.launchers.ray_exec.cluster import RayCluster
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.text import one_line
from lastbeat.model.times import format_time
from lastbeat.model.training_health import CheckpointHealth, Level
from lastbeat.settings import SettingsError, opening
from lastbeat.stores.port import MissingStoreError, StoreError

_CORRECT: Final = "name the folder, or s3://bucket/prefix, in which training saves its checkpoints"


def checkpoints_of(place: str, cluster: RayCluster | None, issues: list[tuple[Level, str]]) -> CheckpointHealth:
    """What lies in ``place``, as ``cluster`` sees it. If it cannot be listed, the reason is added to ``issues``."""
    try:
        found = surveyed(place, cluster)
    except StoreError as error:
        issues.append(("WARNING", error.told))
        return CheckpointHealth(None, count=None, fault=error.told)
    chosen = found.chosen
    if chosen is None:
        return CheckpointHealth(None, None, len(found.checkpoints))
    return CheckpointHealth(chosen.step, chosen.url, len(found.checkpoints), format_time(chosen.saved_at))


def surveyed(checkpoint_dir: str, cluster: RayCluster | None, *, stop_at_first: bool = False) -> CheckpointSurvey:
    """The checkpoints in ``checkpoint_dir``, as ``cluster`` sees them if only it does.

    Raises :class:`StoreError` if they cannot be listed, which does not say that there are none.
    """
    try:
        store = cluster.files(checkpoint_dir) if cluster is not None else None
        store = store or opening.place(configuration.load(channels=False, training=True), checkpoint_dir)
        return survey(store, stop_at_first=stop_at_first)
    except MissingStoreError as error:
        # Its advice is about the fleet root.
        why, advice = str(error), f"mount its file system, or {_CORRECT}"
    except StoreError as error:
        why, advice = str(error), error.advice
    except SettingsError as error:
        why, advice = error.faults[0], ""
    raise StoreError(f"checkpoints cannot be looked for in {one_line(checkpoint_dir)}: {why}", advice or _CORRECT)
