"""Finds in a run's logs why it failed."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.causes import explaining as explaining
    from lastbeat.explain.causes import fingerprint as fingerprint
    from lastbeat.explain.causes import log_reader as log_reader

# A pass loads these once there is a failure, or new text in a log.
__getattr__ = lazy_face(__name__)
