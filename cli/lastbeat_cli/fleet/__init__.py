"""``fleet``: the table of runs."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.fleet import look as look

# Only a terminal needs the live table.
__getattr__ = lazy_face(__name__)
