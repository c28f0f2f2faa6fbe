"""Catalogues of signals, the error types that they name, and hints about what to do."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.signals.catalogue_files import draft_of_file as draft_of_file
    from lastbeat.explain.signals.loading import DEFAULT as DEFAULT
    from lastbeat.explain.signals.loading import load as load
    from lastbeat.explain.signals.loading import load_setting as load_setting
    from lastbeat.explain.signals.loading import read_file as read_file

# A pass loads a catalogue once there is text to read; PyYAML and pydantic only for a file of the user's own.
__getattr__ = lazy_face(
    __name__, {"catalogue_files": ("draft_of_file",), "loading": ("DEFAULT", "load", "load_setting", "read_file")}
)
