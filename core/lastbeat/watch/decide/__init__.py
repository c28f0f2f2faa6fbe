"""What an observation means for a run: pure functions of (record, observation, policy, now)."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch.decide import goodput as goodput
    from lastbeat.watch.decide import levels as levels
    from lastbeat.watch.decide import pace as pace
    from lastbeat.watch.decide import past_run as past_run

# A pass over a healthy run without a curve loads none of these.
__getattr__ = lazy_face(__name__)
