"""HTTP calls that end: how long one may take, what an answer means, and why there was none.

The calls take 0.15 s to import, because they load requests, and few passes send anything.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.alerts.web import calls as calls
    from lastbeat.alerts.web import posting as posting

# Both load requests, which takes 0.15 s.
__getattr__ = lazy_face(__name__)
