"""Catalogues of signals, the error types that they name, and hints about what to do."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.signals import catalogue_files as catalogue_files
    from lastbeat.explain.signals import loading as loading

# A pass loads a catalogue once there is text to read; PyYAML and pydantic only for a file of the user's own.
__getattr__ = lazy_face(__name__)
