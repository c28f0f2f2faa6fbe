"""The web page: put together from its parts, served, or written beside the runs."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.views.page import configured as configured

# A pass loads what writes the page only where the page is on.
__getattr__ = lazy_face(__name__)
