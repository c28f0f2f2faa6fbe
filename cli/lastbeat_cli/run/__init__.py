"""``show`` and ``top``: one run in depth."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat_cli.run import one_run as one_run

# Only a run that no pass has seen needs a suggestion.
__getattr__ = lazy_face(__name__)
