"""The record: its JSON, and its compare-and-set."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch.record import agent_mark as agent_mark

# A pass loads this once a supervised run has failed.
__getattr__ = lazy_face(__name__)
