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
    from lastbeat.watch.decide.goodput import summed as summed
    from lastbeat.watch.decide.similar import aftermath as aftermath
    from lastbeat.watch.observe.logs import RunLogs as RunLogs
    from lastbeat.watch.record.agent_mark import agent_at_work as agent_at_work

# A pass over a healthy run loads none of these.
__getattr__ = lazy_face(
    __name__,
    {
        "decide.goodput": ("summed",),
        "decide.similar": ("aftermath",),
        "observe.logs": ("RunLogs",),
        "record.agent_mark": ("agent_at_work",),
    },
)
