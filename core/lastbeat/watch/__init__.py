"""Watch one run: what is seen, what it means, what is recorded and done.

    observe ──► decide ──► record ──► effects          watchdog.Watch.tick calls them in this order
    store to    pure:      one        alerts sent,
    Observation Decision   conditional actions done
                           write      at most once

Public face: ``watchdog.Watch``, and ``configured``, which makes one from settings. It may import ``settings``,
``alerts``, ``explain``, ``stores`` and ``model``.
"""

from lastbeat.model.lazy_face import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastbeat.watch import decide as decide
    from lastbeat.watch import observe as observe
    from lastbeat.watch import record as record

# What a pass over a healthy run does not need is loaded at its first use.
__getattr__ = lazy_face(__name__)
