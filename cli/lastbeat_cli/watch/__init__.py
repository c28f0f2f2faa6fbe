"""``watch``: watch one run, once or until it is over."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.watch import watching as watching

# ``watch --help`` loads the options alone.
__getattr__ = lazy_face(__name__, "watching")
