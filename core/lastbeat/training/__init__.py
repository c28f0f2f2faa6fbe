"""The code that runs inside a job, and beside it.

    entry           settings ──► a run that reports itself
    sdk             the run, its beat thread, sections, ranks
    node            GPUs, memory, disks and network of a node
    guardian        a process beside training that reports ends which Python cannot
    exec            what ``lastbeat exec`` does to a command; ``exec.in_place`` restarts it

``sdk`` imports ``stores`` and ``model`` alone, so that training loads nothing of the watchdog.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.training import entry as entry
    from lastbeat.training import sdk as sdk

# ``import lastbeat`` loads this face, and must cost nothing.
__getattr__ = lazy_face(__name__)
