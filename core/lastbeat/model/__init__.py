"""The vocabulary: frozen data, no I/O, no clock.

The large classes have no slots: ``slots=True`` creates each class twice, a cost at the start of every ``--once``.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.model.posix_signals import signal_number as signal_number
    from lastbeat.model.simulated_fault import read_fault as read_fault
    from lastbeat.model.spelling import near_names as near_names
    from lastbeat.model.text import owner_name as owner_name

# Few runs have the settings that these read, or a variable that is misspelt.
__getattr__ = lazy_face(
    __name__,
    {
        "posix_signals": ("signal_number",),
        "simulated_fault": ("read_fault",),
        "spelling": ("near_names",),
        "text": ("owner_name",),
    },
)
