"""The vocabulary: frozen data, no I/O, no clock.

The large classes have no slots: ``slots=True`` creates each class twice, a cost at the start of every ``--once``.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.model import digest as digest
    from lastbeat.model import posix_signals as posix_signals
    from lastbeat.model import preemption as preemption
    from lastbeat.model import simulated_fault as simulated_fault
    from lastbeat.model import stop_request as stop_request
    from lastbeat.model import stragglers as stragglers
    from lastbeat.model import text as text

# Few runs need these.
__getattr__ = lazy_face(__name__)
