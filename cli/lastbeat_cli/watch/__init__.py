"""``watch``: watch one run until it is over, or the whole fleet, pass after pass."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.watch import preview as preview
    from lastbeat_cli.watch import sweeping as sweeping
    from lastbeat_cli.watch import watching as watching

# ``watch --help`` loads the options alone, and only a dry run previews.
__getattr__ = lazy_face(__name__)
