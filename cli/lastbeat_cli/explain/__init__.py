"""``explain``: why a run failed, from its logs."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.explain import run as run

# A log that is a file needs no store.
__getattr__ = lazy_face(__name__)
