"""``sweep``: makes passes over a fleet and reports them."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.sweep import planned as planned
    from lastbeat_cli.sweep import sweeping as sweeping

# ``watch --help`` loads the options alone, and a pass no dry run.
__getattr__ = lazy_face(__name__, "planned", "sweeping")
