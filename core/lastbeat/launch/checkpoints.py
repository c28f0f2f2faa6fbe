"""The newest complete checkpoint, wherever the training saves them."""

from typing import Final

from lastbeat import settings as configuration
from lastbeat.jobs.checkpoints.survey import survey
from lastbeat.launch.cluster import RayCluster
from lastbeat.launch.errors import NotReachedError
from lastbeat.launch.reaching import reach
from lastbeat.launch.results import CheckpointHealth
from lastbeat.model.checkpoint import CheckpointSurvey
from lastbeat.model.text import one_line
from lastbeat.model.times import format_time
from lastbeat.settings import SettingsError, opening
from lastbeat.stores.port import MissingStoreError, StoreError

_CORRECT: Final = "name the folder, or s3://bucket/prefix, in which training saves its checkpoints"


def find_latest_checkpoint(checkpoint_dir: str, head_pod: str = "", namespace: str = "default") -> str | None:
    """The newest complete checkpoint in ``checkpoint_dir``, as a path or an address: that which a restart would take.
    None: there is none, so that training begins anew.

    A folder is one of this machine, unless ``head_pod`` names the pod in which it is. Raises :class:`NotReachedError`
    where it cannot be looked at, for that does not say that there is none.
    """
    cluster = reach(head_pod, namespace) if head_pod else None
    chosen = surveyed(checkpoint_dir, cluster, stop_at_first=True).chosen
    return None if chosen is None else chosen.url


def checkpoint_health(checkpoint_dir: str, cluster: RayCluster | None) -> CheckpointHealth:
    """What lies in ``checkpoint_dir``, as ``cluster`` sees it. Raises as :func:`find_latest_checkpoint`."""
    found = surveyed(checkpoint_dir, cluster)
    chosen = found.chosen
    if chosen is None:
        return CheckpointHealth(None, None, len(found.checkpoints))
    return CheckpointHealth(chosen.step, chosen.url, len(found.checkpoints), format_time(chosen.saved_at))


def surveyed(checkpoint_dir: str, cluster: RayCluster | None, *, stop_at_first: bool = False) -> CheckpointSurvey:
    """Raises :class:`NotReachedError`."""
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
    raise NotReachedError(f"checkpoints cannot be looked for in {one_line(checkpoint_dir)}: {why}", advice or _CORRECT)
