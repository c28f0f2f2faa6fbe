"""From a store to an observation: what was seen of a run, or that it could not be seen."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch.observe import flight_recorders as flight_recorders
    from lastbeat.watch.observe import local_dumps as local_dumps
    from lastbeat.watch.observe import local_logs as local_logs
    from lastbeat.watch.observe import logs as logs

# A pass loads these once there is text to read, or a failure to explain.
__getattr__ = lazy_face(__name__)
