"""``fleet``: the table of runs."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.fleet.look import follow as follow

# Only a terminal needs the live table.
__getattr__ = lazy_face(__name__, {"look": ("follow",)})
