"""From a store to an observation: what was seen of a run, or that it could not be seen."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch.observe import logs as logs

# A pass loads this once there is text to read.
__getattr__ = lazy_face(__name__, "logs")
