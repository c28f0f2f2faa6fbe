"""What runs inside training: it reports the run, and never raises into training, blocks it or slows it."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.training.sdk import exit_signals as exit_signals

# Few processes need these.
__getattr__ = lazy_face(__name__, "exit_signals")
