"""``lastbeat exec --max-restarts``: ends a command that hangs or has failed, and restarts it within its job."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.training.exec.in_place import command as command
    from lastbeat.training.exec.in_place import following as following
    from lastbeat.training.exec.in_place import together as together

# ``lastbeat exec`` loads these for restarts in place alone.
__getattr__ = lazy_face(__name__)
