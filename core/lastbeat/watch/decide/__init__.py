"""What an observation means for a run: pure functions of (record, observation, policy, now)."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch.decide import goodput as goodput
    from lastbeat.watch.decide import similar as similar

# A pass over a healthy run loads neither.
__getattr__ = lazy_face(__name__, "goodput", "similar")
