"""What launchers say about jobs, what it means, and what to do about it: a module a launcher. Pure."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.explain.launchers import traits as traits

# A pass loads these once a run has a job.
__getattr__ = lazy_face(__name__)
