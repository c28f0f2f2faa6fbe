"""``sweep``: makes passes over a fleet and reports them."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.sweep.planned import Nobody as Nobody
    from lastbeat_cli.sweep.planned import Planned as Planned
    from lastbeat_cli.sweep.sweeping import sweep_fleet as sweep_fleet

# ``watch --help`` loads the options alone, and a pass no dry run.
__getattr__ = lazy_face(
    __name__,
    {
        "planned": (
            "Nobody",
            "Planned",
        ),
        "sweeping": ("sweep_fleet",),
    },
)
