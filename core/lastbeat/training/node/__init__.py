"""A node: its GPUs, memory, processes, disks and network, what of them a run uses, and warnings about their health."""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.training.node import gpu_state as gpu_state
    from lastbeat.training.node import sampler as sampler

# One rank of a node needs the first, and only where there is a driver the second.
__getattr__ = lazy_face(__name__)
