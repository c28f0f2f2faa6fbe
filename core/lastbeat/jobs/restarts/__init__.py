"""Restart policies as people write them: their files, the names in them, and those that come with lastbeat.

:mod:`lastbeat.watch.decide.restart` decides by them.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.jobs.restarts import loading as loading

# ``lastbeat exec`` loads policies for restarts in place alone.
__getattr__ = lazy_face(__name__)
