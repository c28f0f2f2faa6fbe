"""Watch one run: what is seen, what it means, what is recorded and done.

    observe ──► decide ──► record ──► effects          watchdog.Watch.tick calls them in this order
    store to    pure:      one        alerts sent,
    Observation Decision   conditional actions done
                           write      at most once

Public face: ``watchdog.Watch``, and ``configured``, which makes one from settings. It may import ``settings``,
``alerts``, ``explain``, ``stores`` and ``model``.
"""
